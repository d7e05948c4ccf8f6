package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/examples/internal/program"
	"github.com/zkgrant/zkgrant/examples/internal/stage"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestQuickstart(t *testing.T) {
	screen := &stage.Screen{}
	err := run(t.Context(), screen, options{zk: servers(t, "", 6*time.Second), hold: 50 * time.Millisecond})
	t.Log(screen)
	if err != nil {
		t.Fatal(err)
	}
	screen.Must(t, "cid   LOST       session expired", "nodes left                0", "tokens growing            yes")
	if n := screen.Count(" granted "); n != 6 {
		t.Errorf("%d grants, want 6: five contenders, one of them twice", n)
	}
}

func TestQuickstartOnRealServer(t *testing.T) {
	e := ensemble.Start(t, 1)
	screen := &stage.Screen{}
	err := run(t.Context(), screen, options{zk: servers(t, e.Connect()+"/some/app", 6*time.Second), hold: 50 * time.Millisecond})
	t.Log(screen)
	if err != nil {
		t.Fatal(err)
	}
	screen.Must(t, "cid   LOST       session expired", "nodes left                0")
}

// The leader dies while the second contender works. The sessions outlive the
// election, so nobody loses anything but the connection.
func TestQuickstartWhileTheLeaderIsKilled(t *testing.T) {
	e := ensemble.Start(t, 3)
	leader, err := e.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	screen := &stage.Screen{}
	screen.When(" granted ", 2, func() {
		if err := e.Kill(leader); err != nil {
			t.Error(err)
		}
	})
	err = run(t.Context(), screen, options{zk: servers(t, e.Connect(), 10*time.Second), hold: 300 * time.Millisecond})
	t.Log(screen)
	if err != nil {
		t.Fatal(err)
	}
	screen.Must(t, " suspended ", " resumed ", "cid   LOST       session expired", "nodes left                0")
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
			screen := &stage.Screen{}
			screen.When(at.text, at.count, cancel)
			err := run(ctx, screen, options{zk: program.Within(server, 6*time.Second), hold: 100 * time.Millisecond})
			t.Log(screen)
			if !errors.Is(err, program.ErrInterrupted) {
				t.Errorf("%v, want %v", err, program.ErrInterrupted)
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
	screen := stage.ControlC(t, servers, lockPath, func(s *stage.Screen) { s.Await(t, " ahead", 4) }, "-hold", "1h")
	screen.Must(t, " granted ", "nodes left: 0")
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

// servers returns those of a connect string, or one in this process.
func servers(t *testing.T, connect string, timeout time.Duration) *program.ZooKeeper {
	t.Helper()
	zk, err := program.Open(connect, timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(zk.Close)
	return zk
}
