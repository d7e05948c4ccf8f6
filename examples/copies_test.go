package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// copied is an example that users copy. Each process has one contender, and uses the
// servers that it is given.
type copied struct {
	program string
	lines   int    // at most
	args    string // in addition to -zk
	holds   string // printed when it has the lock
	again   bool   // it tries again after a loss; otherwise it exits
}

func copies() []copied {
	return []copied{
		{program: "hello", lines: 30, holds: "hello, token"},
		{program: "worker", lines: 150, args: "-http 127.0.0.1:0", holds: "has the lock, token", again: true},
		{program: "cron", lines: 150, holds: "leads, token", again: true},
		{program: "leaderhttp", lines: 200, args: "-http 127.0.0.1:0", holds: "leads, token", again: true},
	}
}

// TestCopiesStandAlone checks that the examples to copy are short, and import only
// packages that users can import.
func TestCopiesStandAlone(t *testing.T) {
	for _, c := range copies() {
		files, err := filepath.Glob(c.program + "/*.go")
		eventstest.Must(t, err)
		lines := 0
		for _, file := range files {
			text, err := os.ReadFile(file)
			eventstest.Must(t, err)
			for _, not := range []string{"/internal/", "eventstest"} {
				eventstest.Expect(t, !strings.Contains(string(text), not),
					"%s names %s, which a user cannot import", file, not)
			}
			if !strings.HasSuffix(file, "_test.go") {
				lines += strings.Count(string(text), "\n")
			}
		}
		eventstest.Expect(t, lines != 0 && lines <= c.lines,
			"%s has %d lines, want at most %d", c.program, lines, c.lines)
	}
}

func (c copied) begin(t *testing.T, folder, servers string) *eventstest.Process {
	t.Helper()
	args := append([]string{"-zk", servers}, strings.Fields(c.args)...)
	return eventstest.Begin(t, exec.Command(filepath.Join(folder, c.program), args...))
}

// stop runs each program three times on one lock. A signal stops the second process while
// it waits, and the first and the third one while they hold the lock. Each exits with 0
// and leaves nothing behind.
func stop(t *testing.T, folder, servers string) {
	t.Helper()
	for _, c := range copies() {
		for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
			t.Run(fmt.Sprintf("%s %v", c.program, sig), func(t *testing.T) {
				t.Parallel()
				root := newRoot(t, servers, "/"+strings.ReplaceAll(c.program+"-"+sig.String(), " ", "-"))
				first := c.begin(t, folder, servers+root.path)
				first.Await(t, c.holds, 1)

				second := c.begin(t, folder, servers+root.path)
				root.await("", 2)
				second.Send(sig)
				second.Exits(0)
				if left := root.ephemerals(); len(left) != 1 {
					t.Errorf("when the waiter has ended there are the nodes %v, want the holder's", left)
				}
				eventstest.Equal(t, second.Count(c.holds), 0, "how often the waiter says that it holds")

				third := c.begin(t, folder, servers+root.path)
				root.await("", 2)
				first.Send(sig)
				first.Exits(0)
				third.Await(t, c.holds, 1)
				third.Send(sig)
				third.Exits(0)
				third.Must(t, "stopped")
				left := root.ephemerals()
				eventstest.Expect(t, len(left) == 0, "left behind: %v, want no node of a session", left)
			})
		}
	}
}

// lose ends the session of each program's holder. The program reports the loss, and tries
// again or exits.
func lose(t *testing.T, folder string) {
	t.Helper()
	for _, c := range copies() {
		t.Run(c.program+" loses its session", func(t *testing.T) {
			t.Parallel()
			server := zktest.Start(t)
			p := c.begin(t, folder, server.Addr())
			p.Await(t, c.holds, 1)
			eventstest.Must(t, server.Expire(server.Sessions()[0]))
			p.Await(t, "session expired", 1)
			if c.again {
				p.Await(t, c.holds, 2)
				p.Send(syscall.SIGTERM)
			}
			p.Exits(0)
		})
	}
}

// connecting stops each program with a signal while the server does not answer its
// handshake. It exits as quietly as at any other time.
func connecting(t *testing.T, folder string) {
	t.Helper()
	for _, c := range copies() {
		for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
			t.Run(fmt.Sprintf("%s connects, %v", c.program, sig), func(t *testing.T) {
				t.Parallel()
				server := zktest.Start(t)
				server.MuteAll(true)
				p := c.begin(t, folder, server.Addr())
				eventstest.Eventually(t, "there is a connection", func() bool { return server.Connections() > 0 })
				p.Send(sig)
				p.Exits(0)
				p.Must(t, "stopped")
				eventstest.Expect(t, p.Count("\n") == 1, "the program said %q, want one line", p)
			})
		}
	}
}
