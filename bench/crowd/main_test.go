package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/bench/internal/benchtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { benchtest.Main(m, run) }

func command() *exec.Cmd { return benchtest.Command(joinCommand) }

func TestCommandLine(t *testing.T) {
	t.Parallel()
	benchtest.Refuses(t, run,
		[]string{"-nosuch"}, []string{"more"}, []string{joinCommand, "more"},
		[]string{"-draw", "-o", t.TempDir()}, []string{"-processes", "-1"})
	eventstest.Check(t, run(t.Context(), []string{"-h"}, strings.NewReader(""), &strings.Builder{}))
}

// TestACrowdFollowsOrders needs only the in-process server.
func TestACrowdFollowsOrders(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	c := gather(t.Context(), command, size{sessions: 5, processes: 2}, opening{
		Servers: srv.Addr(), Timeout: 4 * time.Second, Tick: 500 * time.Millisecond,
	})
	defer func() { eventstest.Must(t, c.close()) }()
	must := func(r report) report {
		t.Helper()
		eventstest.Must(t, c.err)
		return r
	}
	tell := func(o order) report { return must(c.tell(o)) }
	until := func(what string, done func(report) bool) report { return must(c.until(what, done)) }
	refused := func(o order) {
		t.Helper()
		if c.tell(o); c.err == nil {
			t.Errorf("%+v is followed", o)
		}
		c.err = nil
	}
	if n := len(srv.Sessions()); n != 5 {
		t.Errorf("%d sessions, want 5", n)
	}
	tell(order{Verb: verbHold, Path: "/own", Spread: 50 * time.Millisecond})
	until("all hold", func(r report) bool { return r.Holding == 5 })
	for i := range 5 {
		if n := len(srv.Children(lockPath("/own", i))); n != 1 {
			t.Errorf("%d nodes at lock %d, want 1", n, i)
		}
	}
	tell(order{Verb: verbMark})
	r := until("all have written", func(r report) bool { return r.Back == 5 && r.Writes >= 5 })
	if r.LastBack < r.FirstBack || r.FirstBack == 0 || r.Gap == 0 || r.Lost != 0 || r.Stood != 0 {
		t.Errorf("after a mark: %+v; want only answers and a gap", r)
	}
	if r := tell(order{Verb: verbTimes}); len(r.Times) < 5 || len(r.Fates) != 0 {
		t.Errorf("%d times and %d fates, want 5 at least and 0", len(r.Times), len(r.Fates))
	}
	refused(order{Verb: verbHold, Path: "/more"}) // a second lock for each

	tell(order{Verb: verbMark})
	tell(order{Verb: verbCut})
	until("all are told of the loss", func(r report) bool { return r.Lost == 5 && r.Holding == 0 })
	if r := tell(order{Verb: verbFates}); len(r.Fates) != 5 {
		t.Errorf("%d fates of 5 locks that were lost: %v", len(r.Fates), r.Fates)
	}
	tell(order{Verb: verbHeal})
	until("all hold again", func(r report) bool { return r.Holding == 5 && r.Stood == 5 })

	tell(order{Verb: verbHand})
	until("all rest", func(r report) bool { return r.Resting == 5 })
	tell(order{Verb: verbMark})
	tell(order{Verb: verbHold, Path: "/one", Shared: true})
	until("all stand at one lock", c.standing(1))
	if n := len(srv.Children("/one")); n != 5 {
		t.Errorf("%d nodes at the lock of all, want 5", n)
	}
	tell(order{Verb: verbHand})
	until("it is handed on", func(r report) bool { return r.Resting == 5 && r.LastGrant > 0 })
	refused(order{Verb: "nosuch"})
}

func TestRealCrowd(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	e := effort{
		sessions: 6, processes: 2, timeout: 1500 * time.Millisecond, tick: 250 * time.Millisecond, window: 400 * time.Millisecond,
		rung: 400 * time.Millisecond, ladder: []int{3}, climbers: 2,
	}
	r, err := measure(t.Context(), e, true, command, &strings.Builder{})
	eventstest.Must(t, err)
	for _, h := range append(r.Holds, r.Rungs...) {
		if h.Writes <= 0 || h.P99 < h.P50 || h.P50 <= 0 || len(h.Servers) != servers {
			t.Errorf("holding: %+v; want writes and their times", h)
		}
	}
	if len(r.Holds) != 2 || len(r.Rungs) == 0 || len(r.Faults) != 4 || len(r.Storms) != 2 {
		t.Fatalf("%d holds, %d rungs, %d faults, %d storms; want 2, some, 4, 2", len(r.Holds), len(r.Rungs), len(r.Faults), len(r.Storms))
	}
	for _, f := range r.Faults {
		if f.First <= 0 || f.Last < f.First || f.Gap <= 0 || f.Outage <= 0 {
			t.Errorf("%s: %+v; want the first answer before the last", f.What, f)
		}
	}
	for i, s := range r.Storms {
		// On a busy machine, a holder that is notified of its loss too late is a result,
		// not a defect of the measurement.
		if held := []int{6, 1}[i]; s.Held != held || s.Told != held || s.Expired <= 0 || s.Again <= 0 {
			t.Errorf("%s: %+v; want %d told of the loss, and every session back", s.What, s, held)
		}
	}
	if handed := r.Storms[1].Handed; handed <= 0 {
		t.Errorf("the queue was handed on in %v ms", handed)
	}
	if r.Memory < 1<<20 || r.Descriptors < 3 {
		t.Errorf("a session takes %d bytes, and a process may have %d descriptors; want a MB and 3 at least", r.Memory, r.Descriptors)
	}
	eventstest.Check(t, r.render(t.TempDir(), &strings.Builder{}))
}
