package coordinator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// asker is an acquirer of any kind.
type asker func(context.Context, ...coordinator.AcquireOption) *coordinator.Acquisition

func (a asker) Acquire(ctx context.Context, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	return a(ctx, options...)
}

// TestRoundTrips counts what the distance to the servers costs: in virtual time nothing else takes any.
func TestRoundTrips(t *testing.T) {
	const roundTrip, cycles = 20 * time.Millisecond, 10
	mutex := func(c *coordinator.Coordinator) asker { return c.Mutex(lockPath).Acquire }
	election := func(c *coordinator.Coordinator) asker { return c.Election(lockPath).Campaign }
	eight := func(c *coordinator.Coordinator) asker {
		var all []*coordinator.Lock
		for i := range 8 {
			all = append(all, c.Mutex(fmt.Sprint(lockPath, i)))
		}
		return c.Multi(all...).Acquire
	}
	awaited := func(t *testing.T, first, _ asker) (int, time.Duration) {
		start := time.Now()
		holdAgainAndAgain(t, first, cycles)
		return cycles, time.Since(start)
	}
	handOn := func(t *testing.T, first, second asker) (int, time.Duration) {
		holder := first(t.Context())
		coordtest.Soon(t, holder)
		next := second(t.Context())
		time.Sleep(10 * roundTrip) // it waits by then
		start := time.Now()
		handOver(t, holder, next)
		return 1, time.Since(start)
	}
	for _, c := range []struct {
		what string
		want int
		kind func(*coordinator.Coordinator) asker
		play func(t *testing.T, first, second asker) (n int, took time.Duration) // so long for so many
	}{
		{"an acquire and a release in a loop", 1, mutex, func(t *testing.T, first, _ asker) (int, time.Duration) {
			// The scheduler decides whether a release and the next acquire come together, see TestALoopTakesLess. Mostly they do.
			took := make([]time.Duration, 500)
			for i := range took {
				start := time.Now()
				a := first(t.Context())
				coordtest.Soon(t, a)
				a.Release()
				took[i] = time.Since(start)
			}
			slices.Sort(took)
			return 1, took[len(took)*9/10]
		}},
		{"an acquire and a release that is awaited", 2, mutex, awaited},
		{"8 locks together, and a release that is awaited", 2, eight, awaited},
		{"a handoff to the only one waiting", 2, mutex, handOn},
		{"a leader's resignation until the next one leads", 2, election, handOn},
	} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			cs, ms := coordtest.Metered(t, srv, 2)
			first, second := c.kind(cs[0]), c.kind(cs[1])
			for _, candidate := range []asker{first, second, first, second} { // they make the directories, and know them
				holdAgainAndAgain(t, candidate, 1)
			}
			for _, m := range ms {
				m.Lag(faultnet.Up, roundTrip)
			}
			n, took := c.play(t, first, second)
			if want := time.Duration(c.want*n) * roundTrip; took != want {
				t.Errorf("%s, %d times, takes %v with a round trip of %v; want %v", c.what, n, took, roundTrip, want)
			}
			for _, m := range ms {
				m.Lag(faultnet.Up, 0)
			}
		})
	}
}
