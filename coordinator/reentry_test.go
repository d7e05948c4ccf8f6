package coordinator_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A lock that is entered again by whoever holds it.

// nested takes a lock so many deep, each with the context of the one before.
func nested(t *testing.T, l *coordinator.Lock, deep int) []*coordinator.Acquisition {
	t.Helper()
	var all []*coordinator.Acquisition
	ctx := context.Background()
	for range deep {
		a := l.Acquire(ctx)
		coordtest.Soon(t, a)
		all, ctx = append(all, a), a.Context(ctx)
	}
	return all
}

// TestEnteredFromOtherGoroutines, with the context of the holder, all at once.
func TestEnteredFromOtherGoroutines(t *testing.T) {
	const many = 50
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath, coordinator.Reentrant())
		outside := make(chan events.Grant, 1)
		var inner []*coordinator.Acquisition
		err := lock.Do(t.Context(), func(ctx context.Context, g events.Grant) error {
			next := coordtest.Queue(other.Mutex(lockPath))
			go func() { outside <- <-next.Granted() }()
			var wait sync.WaitGroup
			var mu sync.Mutex
			for range many {
				wait.Go(func() {
					a := lock.Acquire(ctx)
					if grant := coordtest.Soon(t, a); grant.Token != g.Token {
						t.Errorf("%+v", grant)
					}
					mu.Lock()
					inner = append(inner, a)
					mu.Unlock()
				})
			}
			wait.Wait()
			if got := srv.Children(lockPath); len(got) != 2 {
				t.Errorf("nodes %v", got)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		for i, a := range inner { // all of them are held longer than the function ran
			synctest.Wait()
			if len(outside) > 0 || !a.Valid() {
				t.Fatalf("with %d left: valid %v, somebody else is in %v", many-i, a.Valid(), len(outside) > 0)
			}
			a.Release()
		}
		<-outside
	})
}
