package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/events"
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

// climbed is a crowd for which the leader computes 100 µs a write and each follower 50
// µs, besides their idle time.
func climbed(sessions int, writes float64) Hold {
	return Hold{
		Sessions: sessions, Asked: float64(sessions), Writes: writes, P50: 2, P99: 5, Leader: 1,
		Servers: []float64{0.021 + 40e-6*writes, 0.012 + 100e-6*writes, 0.021 + 60e-6*writes}, Clients: 0.05 + 200e-6*writes,
	}
}

// results are of three crowds, of which the largest was not served.
func results() *Results {
	return &Results{
		Cores: 2, Versions: map[string]string{"ZooKeeper": "3.8.0"}, Sessions: 1000, Processes: 20,
		Timeout: 10 * time.Second, Tick: 2 * time.Second, Interval: time.Second, Bound: 6250 * time.Millisecond,
		Holds: []Hold{climbed(1000, 1000)}, Rungs: []Hold{climbed(1000, 1000), climbed(2000, 1990), climbed(4000, 2500)},
		Faults: []Fault{{What: "leader killed", First: 400, Last: 900, Gap: 1700, Outage: 3000}},
		Storms: []Storm{{What: "one lock", Held: 1, Told: 1, Before: 1, Sooner: 500, Expired: 11000, Again: 2000, Handed: 1500}},
	}
}

func TestKnee(t *testing.T) {
	t.Parallel()
	small, large, stops := climbed(1000, 1000), climbed(2000, 1990), climbed(4000, 2500)
	for _, c := range []struct {
		rungs           []Hold
		served, stopped int // 0 for none
	}{{[]Hold{small, large, stops}, 2000, 4000}, {[]Hold{small, large}, 2000, 0}, {[]Hold{stops}, 0, 4000}} {
		r := results()
		r.Rungs = c.rungs
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

// near reports whether two numbers are equal but for rounding.
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

func TestPage(t *testing.T) {
	t.Parallel()
	page := results().page()
	for _, line := range []string{
		"| 1000 | 1000 | 1000 | 2.0 | 5.0 | 0 | 0.11 | 0.07 | 0.25 | 0 |  |",
		"| 4000 | 4000 | 2500 | 2.0 | 5.0 | 0 | 0.26 | 0.15 | 0.55 | 0 | writes fall behind |",
		"| leader killed | 400 | 900 | 1700 | 3000 | 0 |",
		"| one lock | 1 | 1 | 1 | 500 | 11000 | 2000 | 1500 |",
		"| 100000 | 30 s | 33333 | 3.53 | 2.02 | 16.8× | 503 s |",
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("the page has no line %q:\n%s", line, page)
		}
	}
	if !strings.Contains(page, "between 1990 and 4000 writes a second") {
		t.Errorf("the page does not name the knee:\n%s", page)
	}
	nothing := results()
	nothing.Rungs = []Hold{{Sessions: 250, Asked: 250, Servers: make([]float64, servers), Broken: "not all came to hold"}}
	if page := nothing.page(); strings.Contains(page, "NaN") || !strings.Contains(page, "Even the smallest crowd was too large") {
		t.Errorf("the page of a crowd that never held:\n%s", page)
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		sessions, processes int
		free                int64
		want                int // 0 for an error
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
