package coordinator_test

import (
	"fmt"
	"sync/atomic"
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

// values is how many values a holder receives within a minute. None comes sooner than a
// probe interval after the one before.
func values(t *testing.T, told <-chan struct{}) (n int) {
	t.Helper()
	var last time.Time
	for {
		select {
		case <-told:
			if n++; time.Since(last) < time.Second {
				t.Errorf("value %d comes %v after the one before, want a probe interval", n, time.Since(last))
			}
			last = time.Now()
		case <-time.After(time.Minute):
			return n
		}
	}
}

// TestContended: a value for each contender that the hold keeps out, once, and none for
// any other.
func TestContended(t *testing.T) {
	permits := func(c *coordinator.Coordinator) watchable { return c.Semaphore("/contended", 2) }
	read := func(c *coordinator.Coordinator) watchable { return c.ReadWrite("/contended").Read() }
	write := func(c *coordinator.Coordinator) watchable { return c.ReadWrite("/contended").Write() }
	mutex := func(c *coordinator.Coordinator) watchable { return c.Mutex("/contended") }
	cached := func(c *coordinator.Coordinator) watchable { return c.Mutex("/contended", coordinator.Cached()) }
	kazoo := func(c *coordinator.Coordinator) watchable { return c.Mutex("/contended", coordinator.AsKazoo()) }
	election := func(c *coordinator.Coordinator) watchable { return c.Election("/contended") }
	both := func(c *coordinator.Coordinator) watchable { return c.Multi(c.Mutex("/other"), c.Mutex("/contended")) }
	for name, trial := range map[string]struct {
		holder, comes, then func(*coordinator.Coordinator) watchable
		first, second       int // values when the two come
	}{
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
		"an unfair lock has no one": {func(c *coordinator.Coordinator) watchable { return c.Unfair("/contended") }, mutex, mutex, 0, 0},
	} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			holder := trial.holder(c).Acquire(t.Context())
			told := holder.Contended() // before the Grant
			grant := coordtest.Soon(t, holder)
			var heard atomic.Int32
			go func() {
				for e := range c.Events(t.Context()) {
					if e, ok := e.(events.Contended); ok && e.ID == holder.ID() && e.Path == grant.Path {
						heard.Add(1)
					}
				}
			}()
			wants := func(when string, want int) {
				t.Helper()
				if n := values(t, told); n != want {
					t.Errorf("%s: %d values, want %d", when, n, want)
				}
			}
			wants("alone", 0)
			first := trial.comes(other).Acquire(t.Context())
			wants("the first comes", trial.first)
			srv.Cut(c.SessionID())
			wants("after a reconnect", 0)
			second := trial.then(other).Acquire(t.Context())
			wants("the second comes", trial.second)
			again := holder.Contended()
			third := trial.then(other).Acquire(t.Context())
			wants("the third comes, and the caller has asked again", trial.second)
			third.Release()
			wants("the third has gone", 0)
			coordtest.NotLost(t, holder)
			if n, want := int(heard.Load()), trial.first+2*trial.second; n != want {
				t.Errorf("the stream has %d Contended, want %d", n, want)
			}
			trial.then(other).Acquire(t.Context())
			time.Sleep(time.Minute)
			holder.Release()
			if len(told) != 0 || again != told {
				t.Error("a value is left after the release, or the channel is another one")
			}
			first.Release()
			second.Release()
		})
	}
}

// TestContendedFromTheBegin: contenders that came before the Grant, or before the first
// call, count, and come in one value.
func TestContendedFromTheBegin(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		first, _ := coordtest.Hold(t, other.Mutex(coordtest.LockPath))
		waiter := coordtest.Queue(c.Mutex(coordtest.LockPath))
		told := waiter.Contended()
		last := coordtest.Queue(other.Mutex(coordtest.LockPath))
		coordtest.Queue(other.Mutex(coordtest.LockPath))
		if n := values(t, told); n != 0 {
			t.Errorf("before the Grant: %d values, want none", n)
		}
		first.Release()
		coordtest.Soon(t, waiter)
		if n := values(t, told); n != 1 {
			t.Errorf("with the Grant: %d values, want one for both", n)
		}
		eventstest.Must(t, srv.Expire(c.SessionID()))
		coordtest.Soon(t, last)
		if n := values(t, told); n != 0 {
			t.Errorf("after the loss: %d values, want none", n)
		}
		if n := values(t, last.Contended()); n != 1 {
			t.Errorf("asked during the hold: %d values, want one", n)
		}
	})
}

// TestWhatContendedCosts: at most a listing in a probe interval, however many come, and
// without data; nothing if it was not asked for. At most a value in a probe interval.
func TestWhatContendedCosts(t *testing.T) {
	for _, asked := range []bool{true, false} {
		coordtest.Case(t, fmt.Sprint(asked), func(t *testing.T, srv *zktest.Server) {
			const crowd, intervals, interval = 1000, 10, time.Second
			cs, ms := coordtest.Metered(t, srv, 1)
			others := coordtest.Connect(t, srv)
			holder, _ := coordtest.Hold(t, cs[0].Mutex(coordtest.LockPath))
			var told <-chan struct{}
			if asked {
				told = holder.Contended()
			}
			time.Sleep(time.Minute)
			const probes = intervals + 2 // of the lease
			before := ms[0].Read()
			var crowded []*coordinator.Acquisition
			seen := 0
			for i := range crowd {
				if i%(crowd/intervals) == 0 {
					time.Sleep(interval)
				}
				crowded = append(crowded, others.Mutex(coordtest.LockPath).Acquire(t.Context()))
				if i%10 == 0 {
					synctest.Wait()
				}
				seen += len(told)
				if len(told) > 0 {
					<-told
				}
			}
			time.Sleep(2 * interval)
			cost := ms[0].Read().Minus(before)
			if most := intervals + 2; cost.Requests > probes+most || asked && (seen < intervals-1 || seen > most) {
				t.Errorf("%d waiters cost %+v beside %d probes, and the holder hears %d values; want at most %d of both", crowd, cost, probes, seen, most)
			}
			if !asked && (cost.Requests > probes || cost.Events > 0) {
				t.Errorf("it was not asked for, and costs %+v, want the probes alone", cost)
			}
			for _, a := range crowded {
				a.Release()
			}
		})
	}
}

// realContended has contenders at the other servers of a real ensemble wait for a lock.
// The holder hears of each.
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

// TestContendedOnceThoughThereWasRoom: a waiter that does not use the room that it has
// for a moment is no newcomer after that.
func TestContendedOnceThoughThereWasRoom(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		h := c.Semaphore("/s", 1)
		a, err := h.Hold(t.Context())
		eventstest.Must(t, err)
		told := a.Contended()
		w := other.Semaphore("/s", 1).Acquire(t.Context())
		if n := values(t, told); n != 1 {
			t.Errorf("%d values, want 1", n)
		}
		srv.Mute(other.SessionID(), true)
		for _, size := range []int{2, 1} {
			eventstest.Must(t, h.Resize(t.Context(), size))
			time.Sleep(2 * time.Second)
		}
		srv.Mute(other.SessionID(), false)
		if n := values(t, told); n != 0 {
			t.Errorf("%d values for a waiter that was told of before, want none (it holds: %v)", n, w.Valid())
		}
		w.Release()
		a.Release()
	})
}
