package main

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/bench/internal/benchtest"
	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestMain(m *testing.M) { benchtest.Main(m, run) }

func TestCommandLine(t *testing.T) {
	t.Parallel()
	benchtest.Refuses(t, run,
		[]string{"-nosuch"}, []string{"more"}, []string{playCommand}, []string{playCommand, "one"},
		[]string{"-draw", "-o", t.TempDir()})
	eventstest.Check(t, run(t.Context(), []string{"-h"}, strings.NewReader(""), &strings.Builder{}))
}

// inProcess is a test's server, with the counters of the others.
type inProcess struct {
	*zktest.Server
	requests *atomic.Int64
}

func (s inProcess) Counters(context.Context) (map[string]float64, error) {
	return map[string]float64{
		"zk_watch_count": float64(s.Watches()), "zk_packets_received": float64(s.requests.Load()),
	}, nil
}

func (inProcess) ProcessorTime() (time.Duration, error) { return 0, nil }

// directorOf returns a director with the in-process server, and the libraries that need
// no other server.
func directorOf(t *testing.T, e effort) *director {
	t.Helper()
	srv, requests := zktest.Start(t), new(atomic.Int64)
	srv.Intercept(func(zktest.Request) zktest.Action {
		requests.Add(1)
		return zktest.Action{}
	})
	a := &arena{
		place:    place{zookeeper: endpoint{inProcess{srv, requests}, srv.Addr()}},
		commands: map[string]func(string) *exec.Cmd{},
		leftOut:  map[string]error{keyCurator: peers.ErrNotFound, keyKazoo: peers.ErrNotFound, keyEtcd: errors.New("in /home/me it broke")},
	}
	for _, key := range []string{keyOurs, keyCached, keyStock, keyBare} {
		a.commands[key] = func(addr string) *exec.Cmd { return benchtest.Command(playCommand, key, addr) }
	}
	return &director{arena: a, effort: e, say: func(string, ...any) {}}
}

// TestStages plays each stage of nearby locks once, briefly. All figures must be there,
// and the page must list what is missing.
func TestStages(t *testing.T) {
	t.Parallel()
	d := directorOf(t, effort{
		rounds: 1, warm: 10, cycles: 200, locks: []int{64}, many: 320, queues: []int{20}, handoffs: 5, cross: 3, patient: 1,
		held: 20, heldPeer: 20, expired: 30,
	})
	r := d.results(true, libraries())
	eventstest.Must(t, d.playAll(t.Context(), r, d.stages()))
	eventstest.Must(t, d.memory(t.Context(), r))
	figures := []string{
		figureCycle, figureCycleTail, figureRequests, figureRate(64), figureReads(1), figureWrites(64), figureAllocs(1), figureServer(1),
		figureHandoff(20), figureBytes(20), figureAsked(20), figureWakeUps(20), figureCross(1), figureCross(crossCrowd),
	}
	for key, more := range map[string][]string{
		keyStock: {figureHeld, figureMemory, figureGoroutines}, keyBare: nil,
		keyOurs: {figureHeld, figureMemory, figureGoroutines, figureAwaited, figureAwaitTail, figureManyAwaited(64), figureAwaitedServer(64), figurePatient, figureExpire},
	} {
		for _, figure := range slices.Concat(figures, more) {
			if _, ok := r.value(key, figure); !ok {
				t.Errorf("%s: %s was not measured", key, figure)
			}
		}
	}
	asks(t, r, map[string]float64{keyOurs: 2, keyStock: 4, keyBare: 2})
	var page strings.Builder
	r.write(&page)
	eventstest.Must(t, r.draw(t.TempDir()))
	for _, want := range []string{
		"- a quick run of 1 rounds", "- **without kazoo**: it was not there; bench/deps fetches it\n",
		"- **without etcd**: it was there and could not be run\n", "| uncontended cycle ÷ kazoo | ≤ 0.25 | – | not measured |\n",
	} {
		eventstest.Contains(t, page.String(), want, "the page")
	}
	if strings.Contains(page.String(), "NaN") || strings.Contains(page.String(), "Inf") {
		t.Errorf("what was not measured is in\n%s", page.String())
	}
}

// TestCachedStages plays each stage of cached locks once. Every goal is measured.
func TestCachedStages(t *testing.T) {
	t.Parallel()
	d := directorOf(t, effort{rounds: 1, warm: 10, cycles: 200, many: 640, handoffs: 5, cross: 3, crowd: 3, arrivals: 3, turns: 16, walked: 10})
	r := &Cached{*d.results(true, cachedLibraries())}
	eventstest.Must(t, d.playAll(t.Context(), &r.Results, cachedStages()))
	for _, g := range r.goals() {
		if value, ok := g.measured(&r.Results); !ok || value < 0 {
			t.Errorf("%s: %v, measured %v; want a figure", g.what, value, ok)
		}
	}
	asks(t, &r.Results, map[string]float64{keyCached: 0, keyOurs: 2, keyStock: 4})
}

// asks checks that a cycle takes at most that many requests, allowing for a few pings, and
// at least half as many.
func asks(t *testing.T, r *Results, requests map[string]float64) {
	t.Helper()
	for key, most := range requests {
		if got, ok := r.value(key, figureRequests); !ok || got > 1.05*most+0.02 || got < most/2 {
			t.Errorf("a cycle of %s takes %v requests, want %v to %v", key, got, most/2, most)
		}
	}
}

// TestErrands runs each errand at each distance. None may take less time than its round
// trips.
func TestErrands(t *testing.T) {
	t.Parallel()
	least := map[string]map[string]int{
		keyOurs:  {"cycle": 1, "awaited": 2, "cached": 0, "permit": 1, "multi": 1, "handoff": 1, "failover": 1},
		keyStock: {"cycle": 3, "handoff": 2},
		keyBare:  {"cycle": 2, "handoff": 2},
	}
	d := directorOf(t, effort{rounds: 1, warm: 1})
	far, err := farAway(&d.arena.place)
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, far.close()) })
	s := &Distance{Results: *d.results(true, libraries()), Echo: make(map[int][]float64)}
	eventstest.Must(t, s.visit(t.Context(), d, placeAlone, far, effortFar{
		rounds: 1, echoes: 3, cycles: []int{3, 3, 3, 3}, handoffs: []int{1, 1, 1, 1},
	}))
	for _, ms := range distances() {
		if got := s.Echo[ms]; len(got) != 1 || got[0] < micros(float64(milliseconds(ms))) {
			t.Errorf("at %d ms an echo takes %v µs, want one figure that is no smaller", ms, got)
		}
		for key, trips := range least {
			for _, what := range errands() {
				want, offered := trips[what.key]
				took, ok := s.value(key, figureFar(placeAlone, what.key, ms))
				if least := micros(float64(want) * float64(milliseconds(ms))); ok != offered || took < least {
					t.Errorf("%s, %s, %d ms: %v µs, measured %v; want %v, and %v at least", key, what.key, ms, took, ok, offered, least)
				}
			}
		}
	}
	s.write(&strings.Builder{})
	eventstest.Check(t, s.draw(t.TempDir()))
}

// When a session is ended on a real server, its owner is notified on its own connection,
// long before it would notice the silence.
func TestRealExpiryIsHeardOf(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	d := directorOf(t, effort{})
	c, err := startContestant(libraries()[0], d.arena.commands[keyOurs](ensemble.Start(t, 1).Addr(0)))
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, c.process.Close()) })
	const noticed = 2 * sessionTimeout / 3
	for range 3 {
		a := &act{ctx: t.Context(), c: c, path: "/test/expired"}
		a.open(1, use{})
		if took := a.one(askExpire, 1000, 0); took > float64(noticed.Nanoseconds()/2) {
			t.Errorf("the last loss comes %v ns after the first, want much less than the %v after which silence is noticed", took, noticed)
		}
		a.close()
		eventstest.Must(t, a.err)
	}
}

// Each measurement compiles the Java player anyway. This test finds errors earlier.
func TestThePlayerInJavaCompiles(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	curator, err := peers.FindCurator(ensemble.Installed(t))
	eventstest.Must(t, err)
	eventstest.Check(t, curator.Compile(t.Context(), t.TempDir(), javaClass, javaPlayer))
}
