package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

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

// TestACallerThatCannotEnterAgainDoesNotWaitForItself: a context holds a lock to write, and in its place to read. The lease has run out, and
// the session has not noticed it yet. So the write lock cannot be entered again, and the read lock still counts as held.
func TestACallerThatCannotEnterAgainDoesNotWaitForItself(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, pausesAtADisconnect(time.Minute))
		lock := c.ReadWrite(lockPath, coordinator.Reentrant())
		outer, _ := coordtest.Hold(t, lock.Write())
		writes := outer.Context(t.Context())
		reader := lock.Read().Acquire(writes)
		coordtest.Soon(t, reader)
		reads := reader.Context(writes)
		srv.Cut(c.SessionID())
		time.Sleep(time.Until(outer.Deadline()) + time.Second)
		if outer.Valid() || outer.Err() != nil {
			t.Fatalf("behind its lease the lock is valid: %v, and has ended: %v; want neither", outer.Valid(), outer.Err())
		}
		inner := lock.Write().Acquire(reads)
		synctest.Wait()
		if err := inner.Err(); !errors.Is(err, coordinator.ErrDeadlock) {
			t.Errorf("Err = %v, want ErrDeadlock", err)
		}
		inner.Release()
	})
}

// pausesAtADisconnect has a session that loses its connection wait for its logger before it goes on.
func pausesAtADisconnect(d time.Duration) coordinator.Option {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.WarnLevel)
	return coordinator.WithLogger(zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
		if strings.HasPrefix(e.Message, "connection lost") {
			time.Sleep(d)
		}
		return nil
	})))
}
