package main

import (
	"sync/atomic"
	"testing"

	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestCachedStages plays each stage once, with the libraries that need only the in-process server. Every goal is measured, and the counts
// are as the lock promises.
func TestCachedStages(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	requests := new(atomic.Int64)
	srv.Intercept(func(zktest.Request) zktest.Action {
		requests.Add(1)
		return zktest.Action{}
	})
	d := &director{
		effort: effort{rounds: 1, cycles: 200, many: 640, handoffs: 5, cross: 3, crowd: 3, arrivals: 3, turns: 16, walked: 10},
		arena:  &arena{place: place{zookeeper: endpoint{inProcess{srv, requests}, srv.Addr()}}},
		say:    func(string, ...any) {},
	}
	r, all := new(Cached), make(map[string]*contestant)
	for _, l := range cachedLibraries() {
		if l.Key == keyCached || l.Key == keyOurs || l.Key == keyStock {
			all[l.Key] = contestantOf(t, l.Key, srv.Addr())
			r.Libraries = append(r.Libraries, Measured{library: l, Rounds: make(map[string][]float64)})
		}
	}
	for _, s := range cachedStages() {
		if err := d.play(t.Context(), &r.Results, s, all); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	for _, g := range r.goals() {
		if value, ok := g.measured(&r.Results); !ok || value < 0 {
			t.Errorf("%s: %v, measured %v; want a figure", g.what, value, ok)
		}
	}
	for key, most := range map[string]float64{keyCached: 0, keyOurs: 2, keyStock: 4} {
		got, ok := r.value(key, figureRequests)
		if !ok || got > most || got < most/2 {
			t.Errorf("a cycle of %s takes %v requests, want %v to %v", key, got, most/2, most)
		}
	}
	t.Log(r.Libraries)
}
