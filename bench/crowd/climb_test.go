package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/bench/internal/benchtest"
	"github.com/zkgrant/zkgrant/bench/internal/figures"
	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestWhatStopsACrowd(t *testing.T) {
	t.Parallel()
	good := Hold{Sessions: 100, Asked: 100, Writes: 95, P99: 900}
	for want, change := range map[string]func(*Hold){
		"":                       func(*Hold) {},
		"2 locks lost":           func(h *Hold) { h.Lost = 2 },
		"writes fall behind":     func(h *Hold) { h.Writes = 89 },
		"p99 above the interval": func(h *Hold) { h.P99 = 1001 },
		"not all came to hold":   func(h *Hold) { h.Broken = "not all came to hold" },
	} {
		h := good
		change(&h)
		if got := h.stops(1000); got != want {
			t.Errorf("%+v stops because %q, want %q", h, got, want)
		}
	}
}

func TestKnee(t *testing.T) {
	t.Parallel()
	hold := func(asked, writes float64) Hold {
		return Hold{Sessions: int(asked), Asked: asked, Writes: writes}
	}
	small, large, stops := hold(1000, 1000), hold(2000, 1990), hold(4000, 2500)
	for _, c := range []struct {
		rungs           []Hold
		served, stopped int // 0 for none
	}{{[]Hold{small, large, stops}, 2000, 4000}, {[]Hold{small, large}, 2000, 0}, {[]Hold{stops}, 0, 4000}} {
		r := &Results{Rungs: c.rungs}
		sessions := func(h *Hold) int {
			if h == nil {
				return 0
			}
			return h.Sessions
		}
		if served, stopped := r.knee(); sessions(served) != c.served || sessions(stopped) != c.stopped {
			t.Errorf("the knee is between %v and %v, want %d and %d sessions", served, stopped, c.served, c.stopped)
		}
	}
}

// near reports whether two numbers are equal except for rounding errors.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

func TestTheFormula(t *testing.T) {
	t.Parallel()
	h := Hold{Writes: 1000, Leader: 1, Servers: []float64{0.04, 0.1, 0.06}, Clients: 0.2}
	if c := h.perWrite(); !near(c.leader, 100e-6) || !near(c.follower, 50e-6) || !near(c.client, 200e-6) {
		t.Errorf("a write costs %+v; want 100, 50 and 200 µs", c)
	}
	for _, f := range []struct {
		sessions        int
		timeout, writes float64
	}{{1000, 10, 1000}, {10_000, 30, 10_000. / 3}, {100_000, 60, 100_000. / 6}} {
		if got := writesOf(f.sessions, f.timeout); !near(got, f.writes) {
			t.Errorf("%d sessions with T = %v s: %v writes/s, want %v", f.sessions, f.timeout, got, f.writes)
		}
		if got := timeoutOf(f.sessions, f.writes); !near(got, f.timeout) {
			t.Errorf("%d sessions with %v writes/s: T = %v s, want %v", f.sessions, f.writes, got, f.timeout)
		}
	}
	d := &director{effort: effortOf(false)}
	for sessions, spread := range map[int]time.Duration{1: time.Second, 500: time.Second, 501: 2 * time.Second, 8000: 16 * time.Second} {
		if got := d.spread(sessions); got != spread {
			t.Errorf("%d sessions come within %v, want %v", sessions, got, spread)
		}
	}
	if bound := effortOf(false).bound(); bound != 6250*time.Millisecond { // 9.5 s - 2 s - 1.25 s
		t.Errorf("an outage may last %v, want 6.25 s", bound)
	}
}

// TestTheCommittedPageIsOfTheCommittedResults: go run ./crowd -draw writes the page.
func TestTheCommittedPageIsOfTheCommittedResults(t *testing.T) {
	t.Parallel()
	r, folder := new(Results), t.TempDir()
	eventstest.Must(t, figures.Load("../crowd.json", r))
	var page strings.Builder
	eventstest.Must(t, r.render(folder, &page))
	benchtest.Compare(t, "../CROWD.md", page.String())
	plot, err := os.ReadFile(filepath.Join(folder, "crowd.svg"))
	eventstest.Must(t, err)
	benchtest.Compare(t, "../crowd.svg", string(plot))
	none := (&Results{Rungs: []Hold{{Servers: make([]float64, servers), Broken: "not held"}}}).page()
	if strings.Contains(none, "NaN") || !strings.Contains(none, "Even the smallest crowd was too large") {
		t.Errorf("the page of a crowd that never held:\n%s", none)
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		sessions, processes int
		free                int64
		want                int // 0 means an error
	}{
		{1000, 0, 2 * (1000*sessionMemory + 77*processMemory), 77},
		{10, 0, 1 << 40, 10},
		{1000, 20, 1 << 40, 20},
		{1000, 78, 2 * (1000*sessionMemory + 77*processMemory), 0},
		{1000, 0, 1000 * sessionMemory, 0},
		{5, 6, 1 << 40, 0},
	} {
		got, err := fit(f.sessions, f.processes, f.free)
		if (err == nil) != (f.want > 0) || got.processes != f.want {
			t.Errorf("fit(%d, %d, %d) = %+v, %v; want %d processes", f.sessions, f.processes, f.free, got, err, f.want)
		}
	}
}

func TestASessionCountsItsWrites(t *testing.T) {
	t.Parallel()
	s := &session{fates: make(map[string]int64)}
	s.OnEvent(events.Grant{Node: "/a/1"})
	s.answered = time.Now().Add(-time.Hour)
	s.begin(time.Now())
	s.OnRequest(hooks.Request{Op: "ping"})
	s.OnRequest(hooks.Request{Op: writeOp, Err: zk.ErrConnectionClosed})
	if r := s.report(verbTimes); r.Writes != 0 || r.Back != 0 || time.Duration(r.Gap) < time.Hour {
		t.Errorf("a ping and a write without an answer: %+v, want neither counted, and a gap that outlives the mark", r)
	}
	s.OnRequest(hooks.Request{Op: writeOp, Duration: time.Hour})
	if r := s.report(verbTimes); r.Writes != 1 || r.Times[0] != time.Hour.Microseconds() || r.Back != 0 || time.Duration(r.Gap) < time.Hour {
		t.Errorf("a write that was sent before the mark: %+v, want it counted, and no session back", r)
	}
	s.OnRequest(hooks.Request{Op: writeOp})
	first := s.report(verbLook)
	s.OnRequest(hooks.Request{Op: writeOp})
	if last := s.report(verbLook); first.Back != 1 || last.LastBack != first.LastBack || last.Writes != 3 {
		t.Errorf("writes that were sent after the mark: %+v, then %+v; want it back with the first", first, last)
	}
	s.OnEvent(events.Lost{})
	s.begin(time.Now())
	s.answered = time.Now().Add(-time.Hour)
	if r := s.report(verbFates); r.Gap != 0 || r.Holding != 0 || r.Lost != 1 {
		t.Errorf("after a loss: %+v, want no gap while nothing is held", r)
	}
}
