package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// deletes is a hook that counts our successful deletes.
type deletes struct{ done atomic.Int64 }

func (d *deletes) OnRequest(r hooks.Request) {
	if r.Op == "delete" && r.Err == nil {
		d.done.Add(1)
	}
}

// TestOthersRaceWithRemovals: zkgrant removes directories that it has created and left,
// while other libraries take locks there. Each cycle uses a fresh path, and starts at a
// varying moment around the removal. No contender gets an error. kazoo's lock fails
// without its directory, so our contender beside it must use kazoo's names, whose
// directories stay.
func TestOthersRaceWithRemovals(t *testing.T) {
	a := enter(t)
	cycles := eventstest.Amount(300, 10_000)
	for _, c := range []struct {
		role    role
		options []coordinator.LockOption
		stay    bool
	}{
		{role{stock, formLock}, nil, false},
		{role{curator, formMutex}, nil, false},
		{role{kazoo, formLock}, []coordinator.LockOption{coordinator.AsKazoo()}, true},
	} {
		t.Run(string(c.role.family), func(t *testing.T) { a.race(t, c.role, c.options, c.stay, cycles) })
	}
}

func (a *arena) race(t *testing.T, r role, options []coordinator.LockOption, stay bool, cycles int) {
	t.Helper()
	const crews = 4
	e := ensemble.Start(t, 1, ensemble.Property("znode.container.checkIntervalMs", "3600000"), ensemble.Heap("256m"))
	var seen deletes
	c, err := coordinator.Connect(t.Context(), e.Connect(), coordinator.WithHooks(&seen))
	eventstest.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	p := a.start(t, r.family, e.Connect(), 30*time.Second)

	type cycle struct {
		path string
		due  time.Time
	}
	todo := make(chan cycle, cycles)
	failed := make(chan error, cycles)
	var running sync.WaitGroup
	for i := range crews {
		crew, err := p.open(t.Context(), fmt.Sprintf("crew-%d", i), r.form, "/race/none")
		eventstest.Must(t, err)
		running.Go(func() {
			for x := range todo {
				time.Sleep(time.Until(x.due))
				if err := crew.visits(t.Context(), x.path); err != nil {
					failed <- err
				}
			}
		})
	}
	for i := range cycles {
		path := fmt.Sprintf("/race/order-%d", i)
		a := c.Mutex(path, options...).Acquire(t.Context())
		_, err := a.Wait(t.Context())
		eventstest.Must(t, err)
		a.Release()
		<-a.Done()
		due := time.Now().Add(recipes.LeftoverAfter + time.Duration(rand.IntN(200)-50)*time.Millisecond)
		todo <- cycle{path, due}
		time.Sleep(4 * time.Millisecond)
	}
	close(todo)
	running.Wait()
	done := seen.done.Load()
	t.Logf("%d cycles, %d failed; %d deletes of ours", cycles, len(failed), done)
	if n := len(failed); n > 0 {
		t.Errorf("%d of %d cycles failed, the first with %v; want none", n, cycles, <-failed)
	}
	if raced := done > int64(cycles)*5/4; raced == stay {
		t.Errorf("%d deletes of nodes and directories in %d cycles, want that directories are removed: %v", done, cycles, !stay)
	}
}

// visits makes a contender acquire and release the lock at a path.
func (c *contender) visits(ctx context.Context, path string) error {
	return errors.Join(c.do(ctx, orderOpen, string(c.form), path), c.do(ctx, orderAcquire, "-1"), c.do(ctx, orderRelease))
}
