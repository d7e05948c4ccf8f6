package coordinator_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestNobodyEntersBehindARevocation: 1. somebody holds a lock that is to be given back by a certain moment; 2. the session
// is busy (here: with a slow logger); 3. the holder asks for the lock once more; 4. the moment comes, and the lock is lost;
// 5. the session comes to the create of 3. Nobody holds any more: it must not enter beside the one who has lost, and of a lock that
// tells of crashes it would have to be told.
func TestNobodyEntersBehindARevocation(t *testing.T) {
	for _, do := range []bool{false, true} {
		for _, detect := range []bool{false, true} {
			t.Run(fmt.Sprintf("do %v, tells of crashes %v", do, detect), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					logger := zap.New(
						zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.WarnLevel),
						zap.Hooks(func(e zapcore.Entry) error {
							if strings.HasPrefix(e.Message, "connection lost") {
								time.Sleep(2 * time.Second)
							}
							return nil
						}))
					c, operator := coordtest.Connect(t, srv, coordinator.WithLogger(logger)), coordtest.Connect(t, srv)
					options := []coordinator.LockOption{coordinator.Reentrant(), coordinator.Revocable()}
					if detect {
						options = append(options, coordinator.DetectCrash())
					}
					lock := c.Mutex(lockPath, options...)
					body := func(ctx context.Context, a *coordinator.Acquisition, outer events.Grant) {
						time.Sleep(5 * time.Second) // it is watched by now
						revoking(t.Context(), operator, grace)
						time.Sleep(grace - time.Second)
						srv.Cut(c.SessionID())
						time.Sleep(500 * time.Millisecond)
						if !a.Valid() {
							t.Fatal("lost already")
						}
						inner := lock.Acquire(context.WithoutCancel(ctx))
						<-a.Lost()
						select {
						case g := <-inner.Granted():
							if g.Node == outer.Node || detect && g.Abandoned == nil {
								t.Errorf("granted behind the loss: %+v", g)
							}
						case <-inner.Done():
						case <-time.After(5 * time.Second): // waits behind the node of the function
						}
						inner.Release()
					}
					if do {
						_ = lock.Do(t.Context(), func(ctx context.Context, g events.Grant) error {
							a, _ := coordinator.FromContext(ctx)
							body(ctx, a, g)
							return nil
						})
					} else {
						a, g := coordtest.Hold(t, lock)
						body(a.Context(t.Context()), a, g)
						a.Release()
					}
					time.Sleep(time.Minute)
				})
			})
		}
	}
}
