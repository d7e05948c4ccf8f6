package coordinator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestALockIsLostWhileItIsEnteredAgain: goroutines enter a held lock again and again, and its node is removed meanwhile. No acquisition is
// told of a loss without a Grant, all of them end, and Close returns.
func TestALockIsLostWhileItIsEnteredAgain(t *testing.T) {
	for kind, options := range map[string][]coordinator.LockOption{
		"mutex": {coordinator.Reentrant()}, "cached": {coordinator.Reentrant(), coordinator.Cached()},
	} {
		t.Run(kind, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				for round := range 200 {
					lock := c.Mutex(fmt.Sprint("/locks/", round), options...)
					outer, grant := coordtest.Hold(t, lock)
					ctx := outer.Context(context.Background())
					time.Sleep(3 * time.Second) // the node is watched from then on
					var wg sync.WaitGroup
					for range 4 {
						wg.Go(func() {
							for ctx.Err() == nil {
								a := lock.Acquire(ctx)
								_, _ = a.Wait(context.Background())
								a.Release()
								<-a.Done()
								select {
								case lost := <-a.Lost():
									if lost.Token != grant.Token {
										t.Errorf("told of %+v, want no loss, or that of the token %d", lost, grant.Token)
									}
								default:
								}
							}
						})
					}
					eventstest.Must(t, srv.Delete(grant.Node))
					wg.Wait()
					<-outer.Done()
				}
				eventstest.Must(t, c.Close())
			})
		})
	}
}
