package coordinator_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestContextsEndWithTheLockAndSayWhy(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a := coordtest.Connect(t, srv).Mutex(lockPath).Acquire(t.Context())
		early := a.Context(t.Context())
		coordtest.Soon(t, a)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		expectError(t, early.Err(), nil, "while the lock is held")
		expectError(t, a.Context(over).Err(), context.Canceled, "below a context that has ended")
		a.Release()
		<-early.Done()
		expectError(t, context.Cause(early), coordinator.ErrReleased, "after the release")
		_, err := a.Wait(t.Context()) // an acquisition that has ended without an error
		expectError(t, err, coordinator.ErrReleased, "Wait after the release")
		<-a.Context(t.Context()).Done()
	})
}

// TestPosition checks how many contenders a waiter of each kind of lock has ahead.
func TestPosition(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { playPosition(t, onTheDouble(t, srv)) })
}

func TestRealPosition(t *testing.T) { playPosition(t, onARealServer(t)) }

func playPosition(t *testing.T, s *site) {
	t.Helper()
	c := s.connect()
	for kind, k := range map[string]struct {
		lock        handle
		first, each int // ahead of the first waiter, and more for each further one
	}{
		"mutex":      {c.Mutex("/position/mutex"), 1, 1},
		"write":      {c.ReadWrite("/position/readwrite").Write(), 1, 1},
		"election":   {c.Election("/position/election"), 1, 1},
		"semaphore":  {c.Semaphore("/position/semaphore", 1), 0, 1}, // the holder has left the queue
		"unfair":     {c.Unfair("/position/unfair"), 1, 0},          // there is no queue
		"multi-lock": {c.Multi(c.Mutex("/position/a"), c.Mutex("/position/b")), 2, 2},
	} {
		wants := func(when string, a *coordinator.Acquisition, ahead int) {
			t.Helper()
			eventstest.Eventually(t, fmt.Sprintf("%s: %s has %d ahead", kind, when, ahead), func() bool {
				got, ok := a.Position()
				return ok && got == ahead
			}, func() string { return fmt.Sprint(a.Position()) })
		}
		none := func(when string, a *coordinator.Acquisition) {
			t.Helper()
			got, ok := a.Position()
			expect(t, got == 0 && !ok, "%s: %s: Position = %d, %t; want 0, false", kind, when, got, ok)
		}
		holder, _ := coordtest.HoldReal(t, k.lock)
		none("a holder", holder)
		var waiting [3]*coordinator.Acquisition
		for i := range waiting {
			waiting[i] = k.lock.Acquire(t.Context())
			wants(fmt.Sprint("waiter ", i), waiting[i], k.first+i*k.each)
		}
		first, second, third := waiting[0], waiting[1], waiting[2]
		second.Release()
		wants("waiter 2, when waiter 1 has given up,", third, k.first+k.each)
		none("a waiter that was withdrawn", second)
		holder.Release()
		if kind != "unfair" {
			coordtest.GrantOf(t, first)
			none("waiter 0, now the holder", first)
		}
		first.Release()
		coordtest.GrantOf(t, third)
		none("the last one, now the holder", third)
		coordtest.End(third)
		none("after the end", third)
	}
}

// TestSiblingsOfOneHolderExcludeEachOtherWhenDisowned starts four goroutines below a
// holder of a reentrant lock. Each takes the lock again with a disowned context. With the
// holder's own context they would enter together, see TestReentryScenes.
func TestSiblingsOfOneHolderExcludeEachOtherWhenDisowned(t *testing.T) {
	const all = 4
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		lock := coordtest.Connect(t, srv).Mutex(lockPath, coordinator.Reentrant())
		outer, _ := coordtest.Hold(t, lock)
		ctx := coordinator.Disown(context.WithoutCancel(outer.Context(t.Context())))
		var inside, most atomic.Int32
		var ended sync.WaitGroup
		for range all {
			ended.Go(func() {
				eventstest.Check(t, lock.Do(ctx, func(context.Context, events.Grant) error {
					defer inside.Add(-1)
					if n := inside.Add(1); n > most.Load() {
						most.Store(n) // the last sibling to enter has the largest count
					}
					return nil
				}))
			})
		}
		synctest.Wait()
		expectEqual(t, len(look(t, lock)), 1+all, "the holder and its siblings in the queue")
		outer.Release()
		ended.Wait()
		expectEqual(t, most.Load(), 1, "disowned siblings that were inside together")
	})
}

func TestADisownedContextEndsWithTheLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		lock := coordtest.Connect(t, srv).Mutex(lockPath, coordinator.Reentrant())
		a, _ := coordtest.Hold(t, lock)
		type key struct{}
		parent := context.WithValue(within(t, time.Hour), key{}, "v")
		held := a.Context(parent)
		ctx := coordinator.Disown(held)
		at, _ := parent.Deadline()
		until, bounded := ctx.Deadline()
		expect(t, bounded && until.Equal(at) && ctx.Value(key{}) == "v", "until %v, value %v", until, ctx.Value(key{}))
		_, owned := coordinator.FromContext(ctx)
		_, owns := coordinator.FromContext(held)
		expect(t, !owned && owns, "disowned it owns %v, and the context that was given %v", owned, owns)
		expect(t, coordinator.Disown(parent) == parent, "a context without a holding is not as it was")

		second := lock.Acquire(ctx)
		synctest.Wait()
		ahead, waits := second.Position()
		expect(t, waits && ahead == 1, "disowned: %d ahead, waiting %v; want it behind the holder", ahead, waits)
		a.Release()
		expectError(t, context.Cause(ctx), coordinator.ErrReleased, "the context of a released lock")
		expectError(t, coordtest.EndOf(t, second), coordinator.ErrReleased, "the waiter")
	})
}
