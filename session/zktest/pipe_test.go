package zktest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func newBufferedReader(b []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(b)) }

func pipe(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	a, b := newPipe(&net.TCPAddr{Port: 1}, &net.TCPAddr{Port: 2})
	t.Cleanup(func() {
		_ = a.Close()
		_ = b.Close()
	})
	return a, b
}

func TestPipeWriterWaitsWhenFull(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		a, b := pipe(t)
		data := bytes.Repeat([]byte("0123456789"), pipeBuffer/4) // two and a half buffers
		written := make(chan error, 1)                           // size 1: the writer ends by itself
		go func() {
			_, err := a.Write(data)
			written <- err
		}()
		synctest.Wait()
		select {
		case err := <-written:
			t.Fatalf("an unread pipe takes %d bytes (%v), want the writer to wait", len(data), err)
		default:
		}
		got := make([]byte, len(data))
		if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the bytes come out differently (%v), want them as they were written", err)
		}
		eventstest.Check(t, <-written)
	})
}

func TestPipeCloseEndsBothSides(t *testing.T) {
	a, b := pipe(t)
	if _, err := a.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		eventstest.Check(t, a.Close())
	}
	if got, err := io.ReadAll(b); err != nil || string(got) != "last words" {
		t.Errorf("the peer reads %q, %v; want what was written before Close", got, err)
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a write to a closed peer: %v, want %v", err, syscall.EPIPE)
	}
	buf := make([]byte, 1)
	if _, err := a.Read(buf); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read after Close: %v, want %v", err, net.ErrClosed)
	}
	if _, err := a.Write(buf); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write after Close: %v, want %v", err, net.ErrClosed)
	}
	if err := a.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a deadline after Close: %v, want %v", err, net.ErrClosed)
	}
}

func TestPipeCloseWakesTheWaiting(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		for _, local := range []bool{true, false} {
			a, b := pipe(t)
			var work sync.WaitGroup
			work.Go(func() {
				if _, err := a.Read(make([]byte, 1)); err == nil {
					t.Error("a read that waits when the pipe is closed succeeds, want an error")
				}
			})
			work.Go(func() {
				if _, err := a.Write(make([]byte, 2*pipeBuffer)); err == nil {
					t.Error("a write that waits when the pipe is closed succeeds, want an error")
				}
			})
			synctest.Wait()
			if local {
				_ = a.Close()
			} else {
				_ = b.Close()
			}
			work.Wait()
		}
	})
}

func TestPipeDeadlines(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		a, b := pipe(t)
		start := time.Now()
		check := func(what string, after time.Duration, err error) {
			t.Helper()
			var ne net.Error
			if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &ne) || !ne.Timeout() {
				t.Errorf("the %s ends with %v, want its deadline", what, err)
			}
			if d := time.Since(start); d != after {
				t.Errorf("%s ended after %v, want %v", what, d, after)
			}
		}
		set := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		buf := make([]byte, 4)
		set(a.SetReadDeadline(start.Add(2 * time.Second)))
		_, err := a.Read(buf)
		check("read", 2*time.Second, err)

		// A deadline that has passed counts, even if there is something to read.
		_, err = b.Write([]byte("data"))
		set(err)
		_, err = a.Read(buf)
		check("second read", 2*time.Second, err)

		// With the deadline lifted it reads. When it is set again, the same timer serves.
		set(a.SetReadDeadline(time.Time{}))
		if n, err := a.Read(buf); err != nil || n != 4 {
			t.Errorf("with the deadline lifted Read = %d, %v; want 4", n, err)
		}
		set(a.SetDeadline(start.Add(5 * time.Second)))
		_, err = a.Read(buf)
		check("third read", 5*time.Second, err)

		// A write that is done in part returns how much it wrote.
		set(a.SetWriteDeadline(start.Add(7 * time.Second)))
		n, err := a.Write(make([]byte, pipeBuffer+1))
		check("write", 7*time.Second, err)
		if n != pipeBuffer {
			t.Errorf("wrote %d, want %d", n, pipeBuffer)
		}

		// A deadline also applies to a read that is waiting already.
		set(a.SetReadDeadline(time.Time{}))
		time.AfterFunc(time.Second, func() { set(a.SetReadDeadline(time.Now())) })
		_, err = a.Read(buf)
		check("fourth read", 8*time.Second, err)
	})
}
