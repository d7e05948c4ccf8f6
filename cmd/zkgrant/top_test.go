//go:build unix

package main

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestTop(t *testing.T) {
	server := zktest.Start(t)
	topOn(t, server.Addr(), server.Addr(), func() { server.Down(true) }, func() { server.Down(false) })
}

func testRealTop(t *testing.T, e *ensemble.Ensemble) {
	proxy := ensemble.StartProxy(t, e.Addr(0))
	topOn(t, e.Connect(), proxy.Addr(), func() { proxy.Refuse(true); proxy.Cut() }, func() { proxy.Refuse(false) })
}

// topOn checks that the live view shows holders and waiters, asks a lock back, survives a cut and a small terminal, and leaves the
// terminal as it was.
func topOn(t *testing.T, servers, reached string, cut, heal func()) {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), servers, coordinator.WithSessionTimeout(10*time.Second))
	eventstest.Must(t, err)
	defer func() { eventstest.Check(t, c.Close()) }()
	holder := c.Mutex("/top/a", coordinator.Revocable()).Acquire(t.Context(), coordinator.WithData([]byte("the \x1b[31mfirst")))
	defer holder.Release()
	eventstest.Receive(t, holder.Granted(), "the lock")
	waiter := c.Mutex("/top/a").Acquire(t.Context(), coordinator.WithData([]byte("the second")))
	defer waiter.Release()
	permits := c.Semaphore("/top/b", 3).Acquire(t.Context(), coordinator.WithPermits(2), coordinator.WithData([]byte("a worker")))
	defer permits.Release()
	eventstest.Receive(t, permits.Granted(), "the permits")

	view := beginTerminal(t, nil, "top", "--servers", reached, "--interval", "50ms", "--grace", "1m", "/top")
	view.shows("2 locks, 1 waiter", "connected", "> /top/a", "  /top/b      semaphore     3     1", "the �[31mfirst", "waits  lock")
	if strings.Contains(view.printed(), "\x1b[31mfirst") {
		t.Error("what a server says reached the terminal as it is, want it made harmless")
	}
	view.types("/b\r")
	view.shows("1 of 2 locks, filter b", "> /top/b")
	view.types("\x1b")
	view.shows("2 locks, 1 waiter")
	view.types("k")
	view.shows("> /top/a")
	view.types("r")
	view.shows("revoke /top/a? Grace 1m0s, 1 holder. y/n")
	view.types("n")
	view.shows("/top/a was not asked back")
	view.types("ry")
	eventstest.Receive(t, holder.Revoked(), "the request")
	view.shows("/top/a is asked back, with a grace of 1m0s")
	holder.Release()
	view.shows("/top/a is not held any more by the holders that were asked", "2 locks, 0 waiters")
	view.types("r")
	view.types("y") // the second holder has not agreed
	view.shows("has not agreed")

	view.resizes(40, 10)
	view.shows("> /top/a", "…")
	eventstest.Eventually(t, "the small screen has a line for the keys", func() bool {
		all := strings.Split(view.text(), "\n")
		return len(all) == 10 && strings.HasPrefix(all[9], "q quit")
	})
	view.resizes(width, height)
	cut()
	view.shows("suspended")
	heal()
	view.shows("connected", "the second")
	view.types("\x03")
	view.exits(0)
	left(t, view)
}

// left checks that a terminal is as a new one.
func left(t *testing.T, view *terminal) {
	t.Helper()
	other, slave, err := pty.Open()
	eventstest.Must(t, err)
	defer func() { eventstest.Check(t, errors.Join(slave.Close(), other.Close())) }()
	want, err := term.GetState(int(other.Fd()))
	eventstest.Must(t, err)
	got, err := term.GetState(int(view.master.Fd()))
	eventstest.Must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the terminal is left with %+v, want %+v", got, want)
	}
	eventstest.Eventually(t, "the screen is as it was", func() bool { return view.text() == "" && !view.alternate() })
	if !strings.Contains(view.printed(), "\x1b[?25h") {
		t.Error("the cursor is left hidden, want it shown")
	}
}

// q and TERM end the view and its session as Ctrl-C does. NO_COLOR removes the colours, whatever its value.
func TestTopEnds(t *testing.T) {
	server := zktest.Start(t)
	for _, test := range []struct {
		environment []string
		end         func(view *terminal)
	}{
		{[]string{"NO_COLOR=yes"}, func(view *terminal) { view.types("q") }},
		{nil, func(view *terminal) { eventstest.Check(t, view.cmd.Process.Signal(syscall.SIGTERM)) }},
	} {
		view := beginTerminal(t, test.environment, "top", "--servers", server.Addr(), "/")
		view.shows("no locks below /", "connected")
		test.end(view)
		view.exits(0)
		if sessions := server.Sessions(); len(sessions) > 0 {
			t.Errorf("the sessions %x are left, want none", sessions)
		}
		if got, want := strings.Contains(view.printed(), "\x1b[32m"), test.environment == nil; got != want {
			t.Errorf("with %q coloured: %t, want %t", test.environment, got, want)
		}
	}
}

func TestTopNeedsATerminalAndAPath(t *testing.T) {
	server := zktest.Start(t)
	for _, flags := range [][]string{nil, {"--json"}} {
		view := begin(t, "", slices.Concat([]string{"top", "--servers", server.Addr()}, flags)...)
		view.Exits(codeFailed)
		view.Must(t, "top needs a terminal; zkgrant ls lists the locks once")
	}
	for _, test := range []struct{ flag, want string }{
		{"--interval=0", "--interval"}, {"--grace=-1s", "--grace"}, {"locks", "path"}, {"--json", "needs a terminal"},
	} {
		view := beginTerminal(t, nil, "top", "--servers", server.Addr(), test.flag)
		view.shows(test.want)
		view.exits(codeFailed)
	}
}
