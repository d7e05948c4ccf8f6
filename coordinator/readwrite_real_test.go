package coordinator_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealReadWrite has readers and writers of three sessions meet on a real ensemble, some of
// whom become readers: a writer is alone, readers are together, and the tokens of writers grow.
func TestRealReadWrite(t *testing.T) {
	const path, workers, rounds = "/locks/rw", 9, 30
	e := ensemble.Start(t, 3)
	ctx := coordtest.RealContext(t)
	var cs []*coordinator.Coordinator
	for i := range 3 {
		cs = append(cs, coordtest.ConnectReal(t, e.Addr(i)))
	}
	var held []*coordinator.Acquisition
	for _, c := range cs { // all of them at a time
		a := c.ReadWrite(path).Read().Acquire(ctx)
		coordtest.GrantOf(t, a)
		held = append(held, a)
	}
	for _, a := range held {
		a.Release()
	}
	w := &watchman{t: t}
	var wait sync.WaitGroup
	for i := range workers {
		rw := cs[i%len(cs)].ReadWrite(path)
		wait.Go(func() {
			for round := range rounds {
				var err error
				if (i+round)%3 == 0 {
					err = w.write(ctx, rw, round%2 == 0)
				} else {
					err = w.read(ctx, rw.Read(), func() {})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	coordtest.Queued(t, coordtest.RawClient(t, e.Addr(0)), path, 0) // nobody waits for a release, and a follower lags
}

// A watchman looks who is inside.
type watchman struct {
	t                       *testing.T
	readers, writers, token atomic.Int64
}

// look is called by somebody inside.
func (w *watchman) look() {
	readers, writers := w.readers.Load(), w.writers.Load()
	if writers > 1 || writers == 1 && readers > 0 {
		w.t.Errorf("%d writers and %d readers", writers, readers)
	}
}

// read reads; before is what has to be done when the lock is granted.
func (w *watchman) read(ctx context.Context, l *coordinator.Lock, before func()) error {
	a := l.Acquire(ctx)
	defer a.Release()
	if _, err := a.Wait(ctx); err != nil {
		return err
	}
	before()
	w.readers.Add(1)
	w.look()
	w.readers.Add(-1)
	return nil
}

// write writes, and goes on as a reader if it is told to.
func (w *watchman) write(ctx context.Context, rw *coordinator.ReadWrite, downgrade bool) error {
	a := rw.Write().Acquire(ctx)
	defer a.Release()
	grant, err := a.Wait(ctx)
	if err != nil {
		return err
	}
	w.writers.Add(1)
	w.look()
	if before := w.token.Swap(grant.Token); before >= grant.Token {
		w.t.Errorf("token %d after %d", grant.Token, before)
	}
	leave := func() { w.writers.Add(-1) }
	if !downgrade {
		leave()
		return nil
	}
	return w.read(a.Context(ctx), rw.Read(), func() {
		leave()
		a.Release()
		<-a.Done()
	})
}
