package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestQuickstart(t *testing.T) {
	screen := newScreen("", 0, nil)
	err := run(t.Context(), screen, options{hold: 50 * time.Millisecond, timeout: 6 * time.Second})
	t.Log(screen)
	if err != nil {
		t.Fatal(err)
	}
	screen.must(t, "cid   LOST       session expired", "nodes left                0", "tokens growing            yes")
	if n := strings.Count(screen.String(), " granted "); n != 6 {
		t.Errorf("%d grants, want 6: five contenders, one of them twice", n)
	}
}

func TestQuickstartOnRealServer(t *testing.T) {
	e := ensemble.Start(t, 1)
	screen := newScreen("", 0, nil)
	err := run(t.Context(), screen, options{servers: e.Connect() + "/some/app", hold: 50 * time.Millisecond, timeout: 6 * time.Second})
	t.Log(screen)
	if err != nil {
		t.Fatal(err)
	}
	screen.must(t, "cid   LOST       session expired", "nodes left                0")
}

// The leader dies while the second contender works. The sessions outlive the
// election, so nobody loses anything but the connection.
func TestQuickstartWhileTheLeaderIsKilled(t *testing.T) {
	e := ensemble.Start(t, 3)
	leader, err := e.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	screen := newScreen(" granted ", 2, func() {
		if err := e.Kill(leader); err != nil {
			t.Error(err)
		}
	})
	err = run(t.Context(), screen, options{servers: e.Connect(), hold: 300 * time.Millisecond, timeout: 10 * time.Second})
	t.Log(screen)
	if err != nil {
		t.Fatal(err)
	}
	screen.must(t, " suspended ", " resumed ", "cid   LOST       session expired", "nodes left                0")
}

// Whenever the program is told to stop, it leaves nothing behind.
func TestInterruptedRun(t *testing.T) {
	for _, at := range []struct {
		text  string
		count int
	}{{"contenders for one lock", 1}, {" granted ", 1}, {" queued ", 3}, {" granted ", 2}, {" struck ", 1}, {" LOST ", 1}, {" granted ", 6}} {
		t.Run(strings.TrimSpace(at.text), func(t *testing.T) {
			server := zktest.Start(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			screen := newScreen(at.text, at.count, cancel)
			err := run(ctx, screen, options{servers: server.Addr(), hold: 20 * time.Millisecond, timeout: 6 * time.Second})
			t.Log(screen)
			if !errors.Is(err, errInterrupted) {
				t.Errorf("%v, want %v", err, errInterrupted)
			}
			if left := server.Children(lockPath); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if sessions := server.Sessions(); len(sessions) > 0 {
				t.Errorf("sessions left: %#x", sessions)
			}
		})
	}
}

func TestControlC(t *testing.T) {
	t.Run("double", func(t *testing.T) { testControlC(t, zktest.Start(t).Addr()) })
	t.Run("real", func(t *testing.T) { testControlC(t, ensemble.Start(t, 1).Connect()) })
}

// testControlC runs the program as a process and sends it SIGINT as soon as
// somebody holds the lock, which would go on for an hour.
func testControlC(t *testing.T, servers string) {
	t.Helper()
	screen := newScreen(" ahead", 4, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	program := exec.CommandContext(ctx, os.Args[0], "-zk", servers, "-hold", "1h")
	program.Env = append(os.Environ(), asProgram+"=1")
	program.Stdout, program.Stderr = screen, screen
	screen.then = func() {
		if err := program.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
	}
	err := program.Run()
	t.Log(screen)
	if code := program.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d (%v), want 130", code, err)
	}
	screen.must(t, " granted ", "interrupted", "nodes left: 0")
	if left := children(t, servers); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-nosuchflag"}, {"argument"}, {"-hold", "0s"}, {"-timeout", "-1s"}} {
		var stderr bytes.Buffer
		if code := command(args, os.Stdout, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%v: exit code %d, %q; want 2 and a word why", args, code, &stderr)
		}
	}
	var stderr bytes.Buffer
	if code := command([]string{"-zk", "host:none"}, os.Stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "malformed") {
		t.Errorf("exit code %d, %q; want 1 and what is malformed", code, &stderr)
	}
}

// children asks a server what is left of the lock.
func children(t *testing.T, servers string) []string {
	t.Helper()
	conn, events, err := zk.Connect(strings.Split(servers, ","), 5*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		conn.Close()
		for range events { // ends when the client's goroutines have
		}
	}()
	names, _, err := conn.Children(lockPath)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	return names
}

// screen takes what the program prints, and acts when a text has come so many
// times.
type screen struct {
	text  string
	count int
	then  func()

	mu      sync.Mutex
	printed strings.Builder
	acted   bool
}

func newScreen(text string, count int, then func()) *screen {
	return &screen{text: text, count: count, then: then}
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.printed.Write(p)
	act := s.then != nil && !s.acted && strings.Count(s.printed.String(), s.text) >= s.count
	s.acted = s.acted || act
	s.mu.Unlock()
	if act {
		s.then()
	}
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.printed.String()
}

func (s *screen) must(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(s.String(), text) {
			t.Errorf("nothing says %q", text)
		}
	}
}
