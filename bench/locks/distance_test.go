package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest"
)

// inProcess is the server of a test, asked as the others are.
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

// TestErrands runs each errand at each distance, for the libraries that need only the in-process server. None takes less than its round
// trips.
func TestErrands(t *testing.T) {
	t.Parallel()
	least := map[string]map[string]int{
		keyOurs:  {"cycle": 1, "awaited": 2, "cached": 0, "permit": 3, "multi": 1, "handoff": 2, "failover": 2},
		keyStock: {"cycle": 3, "handoff": 2},
		keyBare:  {"cycle": 2, "handoff": 2},
	}
	e := effortFar{cycles: []int{3, 3, 3, 3}, handoffs: []int{1, 1, 1, 1}}
	for key, errandsOf := range least {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			srv := zktest.Start(t)
			requests := new(atomic.Int64)
			srv.Intercept(func(zktest.Request) zktest.Action {
				requests.Add(1)
				return zktest.Action{}
			})
			far, err := farAway(&place{zookeeper: endpoint{inProcess{srv, requests}, srv.Addr()}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := far.close(); err != nil {
					t.Error(err)
				}
			})
			c := contestantOf(t, key, far.zookeeper.addr)
			for _, what := range errands() {
				trips, want := errandsOf[what.key]
				if offered := what.offered(key); offered != want {
					t.Errorf("%s: offered %v, want %v", what.key, offered, want)
				}
				if !want {
					continue
				}
				took, err := what.run(t.Context(), far, c, e, "/test/"+what.key)
				if err != nil {
					t.Fatal(err)
				}
				if len(took) != len(distances()) {
					t.Fatalf("%s was measured at %d distances, want %d", what.key, len(took), len(distances()))
				}
				for nth, ms := range distances() {
					for _, nanos := range took[nth] {
						if least := time.Duration(trips) * milliseconds(ms); time.Duration(nanos) < least {
							t.Errorf("%s takes %v at %d ms, want no less than %v", what.key, time.Duration(nanos), ms, least)
						}
					}
				}
			}
		})
	}
}

// TestAnEchoIsNoFasterThanItsDistance: the cost in round trips is measured by the echo.
func TestAnEchoIsNoFasterThanItsDistance(t *testing.T) {
	t.Parallel()
	s := &Distance{Echo: make(map[int][]float64)}
	if err := s.echo(effortFar{echoes: 3}); err != nil {
		t.Fatal(err)
	}
	for _, ms := range distances() {
		if got := s.Echo[ms]; len(got) != 1 || got[0] < micros(float64(milliseconds(ms))) {
			t.Errorf("at %d ms an echo takes %v µs, want one figure that is no smaller", ms, got)
		}
	}
}
