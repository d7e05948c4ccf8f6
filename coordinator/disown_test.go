package coordinator_test

import (
	"context"
	"errors"
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

// siblings are four goroutines that a holder of a reentrant lock starts. Each
// takes the lock again with the context that they are given, its own or a disowned one.
// It returns how many were inside together.
func siblings(t *testing.T, c *coordinator.Coordinator, disowned bool) int32 {
	t.Helper()
	const all = 4
	lock := c.Mutex(lockPath, coordinator.Reentrant())
	outer, _ := coordtest.Hold(t, lock)
	ctx := outer.Context(t.Context())
	if disowned {
		ctx = coordinator.Disown(context.WithoutCancel(ctx))
	}
	var inside, most atomic.Int32
	var together, ended sync.WaitGroup
	together.Add(all)
	for range all {
		ended.Go(func() {
			err := lock.Do(ctx, func(context.Context, events.Grant) error {
				defer inside.Add(-1)
				if n := inside.Add(1); n > most.Load() {
					most.Store(n) // of those inside together, the last one to enter has the largest
				}
				together.Done()
				if !disowned {
					together.Wait()
				}
				return nil
			})
			expect(t, err == nil, "a sibling: %v, want it to have held the lock", err)
		})
	}
	if disowned {
		eventstest.Eventually(t, "a queue of the holder and its siblings", func() bool {
			queue, err := lock.Queue(t.Context())
			return err == nil && len(queue) == 1+all
		})
	} else {
		ended.Wait() // the outer lock is held all the time
	}
	outer.Release()
	ended.Wait()
	return most.Load()
}

func TestSiblingsOfOneHolderExcludeEachOtherWhenDisowned(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		got := [2]int32{siblings(t, c, false), siblings(t, c, true)}
		expect(t, got == [2]int32{4, 1}, "%v siblings were inside together, want 4 with the holder's context and 1 with a disowned one", got)
	})
}

// TestRealDisownedSiblings is the same on a real server.
func TestRealDisownedSiblings(t *testing.T) {
	c := coordtest.ConnectReal(t, coordtest.Servers(t, 1).Connect()+"/"+t.Name())
	if most := siblings(t, c, true); most != 1 {
		t.Errorf("%d disowned siblings were inside together, want 1", most)
	}
}

func TestADisownedContextEndsWithTheLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		lock := coordtest.Connect(t, srv).Mutex(lockPath, coordinator.Reentrant())
		a, _ := coordtest.Hold(t, lock)
		type key struct{}
		parent, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Hour)
		defer cancel()
		held := a.Context(parent)
		ctx := coordinator.Disown(held)
		_, owned := coordinator.FromContext(ctx)
		at, _ := parent.Deadline()
		until, bounded := ctx.Deadline()
		expect(t, !owned && bounded && until.Equal(at) && ctx.Value(key{}) == "v",
			"owned %v, until %v, value %v; want the deadline and the value, and no holding", owned, until, ctx.Value(key{}))
		_, owned = coordinator.FromContext(held)
		expect(t, owned && coordinator.Disown(parent) == parent, "the context given has changed, or one without a holding; want both as they were")

		second := lock.Acquire(ctx)
		synctest.Wait()
		ahead, waits := second.Position()
		expect(t, waits && ahead == 1, "asked with a disowned context: %d ahead, waiting %v; want it behind the holder", ahead, waits)
		a.Release()
		expectError(t, context.Cause(ctx), coordinator.ErrReleased, "the context of a released lock")
		expect(t, errors.Is(coordtest.EndOf(t, second), coordinator.ErrReleased), "the waiter ended with %v, want ErrReleased", second.Err())
	})
}
