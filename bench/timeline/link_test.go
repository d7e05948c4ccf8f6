package main

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

const (
	linkMax = 30 * time.Second // bounds every wait; nothing takes nearly as long
	silence = 50 * time.Millisecond
)

// echo is a server that says everything again.
func echo(t *testing.T) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			running.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn) // ends with the other side
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

func linkTo(t *testing.T, server string) *link {
	t.Helper()
	l, err := newLink(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp4", addr, linkMax)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Error(err)
	}
}

// read checks what comes next.
func read(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(linkMax)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Errorf("read %q, %v, want %q", got, err, want)
	}
}

// hush checks that nothing comes, and that the connection is not closed either.
func hush(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

func TestLinkIsCutSilentlyAndHeals(t *testing.T) {
	t.Parallel()
	l := linkTo(t, echo(t))
	old := connect(t, l.addr())
	write(t, old, "before")
	read(t, old, "before")

	l.cut()
	write(t, old, "held ")
	fresh := connect(t, l.addr())
	write(t, fresh, "handshake")
	hush(t, old)
	hush(t, fresh)
	write(t, old, "back")

	l.heal()
	read(t, old, "held back")
	read(t, fresh, "handshake")

	l.cut() // and a second time
	write(t, old, "again")
	hush(t, old)
	l.heal()
	read(t, old, "again")
}

func TestLinkPassesOnTheEndOfAConnectionAndNothingBefore(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l := linkTo(t, listener.Addr().String())
	near := connect(t, l.addr())
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()

	l.cut()
	if err := near.Close(); err != nil {
		t.Error(err)
	}
	hush(t, far)
	connect(t, l.addr())
	if err := listener.(*net.TCPListener).SetDeadline(time.Now().Add(silence)); err != nil {
		t.Fatal(err)
	}
	if _, err := listener.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the server gets a connection through the partition: %v", err)
	}
	l.heal()
	if err := far.SetReadDeadline(time.Now().Add(linkMax)); err != nil {
		t.Fatal(err)
	}
	if n, err := far.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

func TestLinkToNobodyEndsConnections(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	l := linkTo(t, nobody)
	conn := connect(t, l.addr())
	if err := conn.SetReadDeadline(time.Now().Add(linkMax)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// Close must end what is held back, or the test's check for goroutines finds it.
func TestLinkIsClosedWhileItIsCut(t *testing.T) {
	t.Parallel()
	l := linkTo(t, echo(t))
	old := connect(t, l.addr())
	write(t, old, "before")
	read(t, old, "before")
	l.cut()
	write(t, old, "held")
	write(t, connect(t, l.addr()), "handshake")
	hush(t, old)
}
