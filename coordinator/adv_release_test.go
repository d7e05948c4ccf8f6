package coordinator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestReleaseAndWaitOfWhatIsConfirmed is no matter of ctx, which ends after it.
func TestReleaseAndWaitOfWhatIsConfirmed(t *testing.T) {
	for kind := range groupKinds {
		coordtest.Case(t, fmt.Sprint(kind), func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			a, err := groupKinds[kind](c, "x").Hold(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			if err := a.ReleaseAndWait(ctx); err != nil {
				t.Fatal(err)
			}
			cancel()
			for range 50 {
				if err := a.ReleaseAndWait(ctx); err != nil {
					t.Fatalf("confirmed, and ReleaseAndWait says %v", err)
				}
			}
		})
	}
}

// TestAdvWatch: many watchers, below a chroot, come and go, with reconnects, sessions that expire, and Close.
func TestAdvWatch(t *testing.T) {
	for kind := range groupKinds {
		for _, chroot := range []string{"", "/app/x"} {
			coordtest.Case(t, fmt.Sprint(kind, chroot), func(t *testing.T, srv *zktest.Server) {
				if chroot != "" {
					_ = srv.Create(chroot, nil)
				}
				c, other := connectBelow(t, srv, chroot), connectBelow(t, srv, chroot)
				before := runtime.NumGoroutine()
				stop := make(chan struct{})
				var wg sync.WaitGroup
				for range 5 {
					wg.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
							}
							ctx, cancel := context.WithCancel(t.Context())
							seen := groupKinds[kind](c, "x").Watch(ctx)
							for range rand.IntN(4) {
								select {
								case q, ok := <-seen:
									if !ok {
										t.Error("closed")
									}
									for i := range q {
										q[i] = events.Contender{}
									}
								case <-time.After(time.Second):
								}
							}
							cancel()
							for range seen {
							}
						}
					})
				}
				stay := groupKinds[kind](c, "x").Watch(t.Context())
				for i := range 60 {
					a := groupKinds[kind](other, "x").Acquire(t.Context(), coordinator.MaxWait(time.Second))
					time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
					switch i % 12 {
					case 3:
						srv.Cut(c.SessionID())
					case 6:
						_ = srv.Expire(c.SessionID())
					case 9:
						srv.Reap()
					}
					time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
					a.Release()
				}
				last := groupKinds[kind](other, "x").Acquire(t.Context())
				close(stop)
				wg.Wait()
				time.Sleep(time.Minute)
				q, _, closed := newest(stay)
				want, err := groupKinds[kind](c, "x").Queue(t.Context())
				if closed || err != nil || !reflect.DeepEqual(q, want) || len(q) == 0 {
					t.Errorf("hears %+v (closed %v), want %+v, %v", q, closed, want, err)
				}
				last.Release()
				synctest.Wait()
				if n := runtime.NumGoroutine(); n > before+8 {
					t.Errorf("%d goroutines before, %d after", before, n)
				}
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				for range stay {
				}
				for range groupKinds[kind](c, "x").Watch(t.Context()) {
					t.Error("news after Close")
				}
			})
		}
	}
}
