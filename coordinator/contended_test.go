package coordinator_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// wantValues counts the values that a holder receives within a minute of the last, at
// most one per probe interval.
func wantValues(t *testing.T, told <-chan struct{}, want int, when string) {
	t.Helper()
	for n, last := 0, (time.Time{}); ; n++ {
		select {
		case <-told:
			expect(t, time.Since(last) >= time.Second, "%s: a value comes %v after the last", when, time.Since(last))
			last = time.Now()
		case <-time.After(time.Minute):
			expect(t, n == want, "%s: %d values, want %d", when, n, want)
			return
		}
	}
}

// TestContended: one value for each contender that the hold keeps out, and for no other.
func TestContended(t *testing.T) {
	kinds := kindsOf()
	mutex, read, write := kinds["mutex"].of, kinds["read"].of, kinds["write"].of
	kazoo, election, unfair := kinds["kazoo's names"].of, kinds["election"].of, kinds["unfair"].of
	permits := func(c *coordinator.Coordinator) handle { return c.Semaphore(lockPath, 2) }
	cached := func(c *coordinator.Coordinator) handle { return cachedAt(c) }
	both := func(c *coordinator.Coordinator) handle { return c.Multi(c.Mutex("/other"), c.Mutex(lockPath)) }
	type row struct {
		holder, comes, then func(*coordinator.Coordinator) handle
		first, second       int // values when the two come
	}
	forEach(t, map[string]row{
		"mutex":                     {mutex, mutex, mutex, 1, 1},
		"a mutex, and candidates":   {mutex, election, election, 1, 1},
		"kazoo's names":             {kazoo, kazoo, kazoo, 1, 1},
		"cached":                    {cached, cached, mutex, 1, 1},
		"a writer":                  {write, read, write, 1, 1},
		"a reader":                  {read, read, write, 0, 1},
		"a reader, then behind":     {read, write, read, 1, 0},
		"a semaphore with room":     {permits, permits, permits, 0, 1},
		"a multi-lock":              {both, mutex, both, 1, 1},
		"a member of a multi-lock":  {mutex, both, both, 1, 1},
		"an unfair lock has no one": {unfair, mutex, mutex, 0, 0},
	}, func(t *testing.T, srv *zktest.Server, trial row) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder := trial.holder(c).Acquire(t.Context())
		told := holder.Contended() // called before the Grant
		grant := coordtest.Soon(t, holder)
		heard := collect(c.Events(t.Context()))
		wantValues(t, told, 0, "alone")
		trial.comes(other).Acquire(t.Context())
		wantValues(t, told, trial.first, "the first comes")
		srv.Cut(c.SessionID())
		wantValues(t, told, 0, "after a reconnect")
		trial.then(other).Acquire(t.Context())
		wantValues(t, told, trial.second, "the second comes")
		again := holder.Contended()
		third := trial.then(other).Acquire(t.Context())
		wantValues(t, told, trial.second, "the third comes, and the caller has asked again")
		third.Release()
		wantValues(t, told, 0, "the third has gone")
		coordtest.NotLost(t, holder)
		others := func(e events.Event) bool {
			contended, is := e.(events.Contended)
			return !is || contended.ID != holder.ID() || contended.Path != grant.Path
		}
		n := len(slices.DeleteFunc(heard(), others))
		expectEqual(t, n, trial.first+2*trial.second, "Contended in the stream")
		trial.then(other).Acquire(t.Context())
		time.Sleep(time.Minute)
		holder.Release()
		expect(t, len(told) == 0 && again == told, "%d values after the release, or another channel", len(told))
	})
}

// TestContendedFromTheBegin: contenders that arrived before the Grant, or before the
// first call, count and come in one value. A waiter that leaves a permit unused while
// there is one for a moment is no newcomer afterwards.
func TestContendedFromTheBegin(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		first, _ := coordtest.Hold(t, other.Mutex(lockPath))
		waiter := coordtest.Queue(c.Mutex(lockPath))
		told := waiter.Contended()
		last := coordtest.Queue(other.Mutex(lockPath))
		coordtest.Queue(other.Mutex(lockPath))
		wantValues(t, told, 0, "before the Grant")
		first.Release()
		coordtest.Soon(t, waiter)
		wantValues(t, told, 1, "with the Grant, for both")
		eventstest.Must(t, srv.Expire(c.SessionID()))
		coordtest.Soon(t, last)
		wantValues(t, told, 0, "after the loss")
		wantValues(t, last.Contended(), 1, "asked during the hold")

		one := c.Semaphore("/s", 1)
		a, err := one.Hold(t.Context())
		eventstest.Must(t, err)
		told = a.Contended()
		other.Semaphore("/s", 1).Acquire(t.Context())
		wantValues(t, told, 1, "a waiter for a permit")
		srv.Mute(other.SessionID(), true)
		for _, size := range []int{2, 1} {
			eventstest.Must(t, one.Resize(t.Context(), size))
			time.Sleep(2 * time.Second)
		}
		srv.Mute(other.SessionID(), false)
		wantValues(t, told, 0, "a waiter that was told of before")
	})
}

// TestWhatContendedCosts: at most one listing per probe interval, without data, and at
// most one value, however many contenders arrive; nothing if Contended was never called.
func TestWhatContendedCosts(t *testing.T) {
	for _, asked := range []bool{true, false} {
		coordtest.Case(t, fmt.Sprint(asked), func(t *testing.T, srv *zktest.Server) {
			const crowd, intervals, interval = 1000, 10, time.Second
			cs, ms := coordtest.Metered(t, srv, 1)
			others := coordtest.Connect(t, srv)
			holder, _ := coordtest.Hold(t, cs[0].Mutex(lockPath))
			var told <-chan struct{}
			if asked {
				told = holder.Contended()
			}
			time.Sleep(time.Minute)
			const probes, most = intervals + 2, intervals + 2
			before, seen := ms[0].Read(), 0
			for i := range crowd {
				if i%(crowd/intervals) == 0 {
					time.Sleep(interval)
				}
				others.Mutex(lockPath).Acquire(t.Context())
				if i%10 == 0 {
					synctest.Wait()
				}
				if _, ok, _ := coordtest.HeardSoFar(told); ok {
					seen++
				}
			}
			time.Sleep(2 * interval)
			cost := ms[0].Read().Minus(before)
			if asked {
				expect(t, cost.Requests <= probes+most && seen >= intervals-1 && seen <= most,
					"%d waiters cost %+v, %d probes included, and are told by %d values", crowd, cost, probes, seen)
			} else {
				expect(t, cost.Requests <= probes && cost.Events == 0, "not asked for, it costs %+v, want probes", cost)
			}
		})
	}
}

// realContended checks that a holder is notified of contenders at other servers of a real
// ensemble.
func realContended(t *testing.T, e *ensemble.Ensemble) {
	ctx := coordtest.RealContext(t)
	holder := coordtest.ConnectReal(t, e.Addr(0)).Mutex("/contended").Acquire(ctx)
	told := holder.Contended()
	coordtest.GrantOf(t, holder)
	var waiters []*coordinator.Acquisition
	for i := range 3 {
		waiters = append(waiters, coordtest.ConnectReal(t, e.Addr(i)).Mutex("/contended").Acquire(ctx))
		eventstest.Receive(t, told, "news of a contender")
	}
	holder.Release()
	for _, w := range waiters {
		coordtest.GrantOf(t, w)
		coordtest.End(w)
	}
}
