package coordinator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// TestRoundTrips counts what the distance to the servers costs. Nothing else takes any
// time.
func TestRoundTrips(t *testing.T) {
	const roundTrip, cycles = 20 * time.Millisecond, 10
	mutex := func(c *coordinator.Coordinator) acquirer { return c.Mutex(lockPath) }
	election := func(c *coordinator.Coordinator) acquirer { return campaigner{c.Election(lockPath)} }
	eight := func(c *coordinator.Coordinator) acquirer {
		var all []*coordinator.Lock
		for i := range 8 {
			all = append(all, c.Mutex(fmt.Sprint(lockPath, i)))
		}
		return c.Multi(all...)
	}
	loop := func(t *testing.T, first, _ acquirer) time.Duration {
		// The scheduler decides whether a release and the next acquire come together, see
		// TestALoopTakesLess. Mostly they do.
		took := make([]time.Duration, 500)
		for i := range took {
			start := time.Now()
			a := first.Acquire(t.Context())
			coordtest.Soon(t, a)
			a.Release()
			took[i] = time.Since(start)
		}
		slices.Sort(took)
		return took[len(took)*9/10]
	}
	awaited := func(t *testing.T, first, _ acquirer) time.Duration {
		start := time.Now()
		holdAgainAndAgain(t, first, cycles)
		return time.Since(start) / cycles
	}
	handOn := func(t *testing.T, first, second acquirer) time.Duration {
		holder := first.Acquire(t.Context())
		coordtest.Soon(t, holder)
		next := second.Acquire(t.Context())
		time.Sleep(10 * roundTrip) // it waits by then
		start := time.Now()
		handOver(t, holder, next)
		return time.Since(start)
	}
	for _, c := range []struct {
		what string
		want time.Duration
		kind func(*coordinator.Coordinator) acquirer
		play func(t *testing.T, first, second acquirer) time.Duration
	}{
		{"an acquire and a release in a loop", 1, mutex, loop},
		{"an acquire and a release that is awaited", 2, mutex, awaited},
		{"8 locks together, and a release that is awaited", 2, eight, awaited},
		{"a handoff to the only one waiting", 2, mutex, handOn},
		{"a leader's resignation until the next one leads", 2, election, handOn},
	} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			cs, ms := coordtest.Metered(t, srv, 2)
			first, second := c.kind(cs[0]), c.kind(cs[1])
			for _, candidate := range []acquirer{first, second, first, second} { // they know the directories then
				holdAgainAndAgain(t, candidate, 1)
			}
			lag := func(trip time.Duration) {
				for _, m := range ms {
					m.Lag(faultnet.Up, trip)
				}
			}
			lag(roundTrip)
			took := c.play(t, first, second)
			expect(t, took == c.want*roundTrip,
				"%s takes %v with a round trip of %v; want %d of them", c.what, took, roundTrip, c.want)
			lag(0)
		})
	}
}
