package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// How a look ends when the connection, the session, the caller's context or the coordinator ends, and
// what many looks cost.

// looked is what Queue returned.
type looked struct {
	queue []events.Contender
	err   error
}

// looking calls Queue in a goroutine. It works in bubbles only.
func looking(ctx context.Context, l *coordinator.Lock) <-chan looked {
	result := make(chan looked, 1)
	go func() {
		queue, err := l.Queue(ctx)
		result <- looked{queue, err}
	}()
	synctest.Wait()
	return result
}

// crowd makes n contenders of no session.
func crowd(t *testing.T, srv *zktest.Server, n int) {
	t.Helper()
	for i := range n {
		eventstest.Must(t, srv.Create(fmt.Sprintf("%s/lock-%010d", lockPath, i), fmt.Appendf(nil, "%d", i)))
	}
}

func TestQueueWaitsForAConnection(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crowd(t, srv, 3)
		c := coordtest.Connect(t, srv)
		srv.Down(true)
		synctest.Wait()
		result := looking(t.Context(), c.Mutex(lockPath))
		time.Sleep(time.Second)
		if len(result) > 0 {
			t.Fatalf("without a connection Queue = %+v, want it to wait", <-result)
		}
		srv.Down(false)
		if got := <-result; got.err != nil || summary(got.queue) != "0+ 1 2" {
			t.Errorf("with a connection again Queue = %+v, want %q", got, "0+ 1 2")
		}
	})
}

// TestQueueBeginsAgainWhenItIsInterrupted has one fault strike at each request of a look.
func TestQueueBeginsAgainWhenItIsInterrupted(t *testing.T) {
	happens := mishaps()
	happens["silence"] = func(srv *zktest.Server, _ int64) zktest.Action {
		srv.MuteAll(true)
		time.AfterFunc(8*time.Second, func() { srv.MuteAll(false) }) // the client has hung up by then
		return zktest.Swallow()
	}
	happens["said to be expired"] = func(srv *zktest.Server, session int64) zktest.Action {
		if err := srv.Expire(session); err != nil {
			panic(err)
		}
		return zktest.Fail(zktest.SessionExpired)
	}
	for name, act := range happens {
		for nth := 1; nth <= 4; nth++ { // the listing, and three readings
			t.Run(fmt.Sprintf("%s at %d", name, nth), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					crowd(t, srv, 3)
					c := coordtest.Connect(t, srv)
					seen := 0
					srv.Intercept(func(r zktest.Request) zktest.Action {
						if r.Op != zktest.OpGetChildren2 && r.Op != zktest.OpGetData {
							return zktest.Pass()
						}
						if seen++; seen == nth {
							return act(srv, r.Session)
						}
						return zktest.Pass()
					})
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					got, err := c.Mutex(lockPath).Queue(ctx)
					if err != nil || summary(got) != "0+ 1 2" || seen < nth+4 {
						t.Errorf("Queue = %+v, %v after %d requests; want %q, with all four requests made again", got, err, seen, "0+ 1 2")
					}
				})
			})
		}
	}
}

func TestQueueEndsWithItsContext(t *testing.T) {
	impatient := errors.New("impatient")
	late := func(op zktest.Op) func(*zktest.Server) {
		return func(srv *zktest.Server) {
			srv.Intercept(func(r zktest.Request) zktest.Action {
				if r.Op == op {
					return zktest.Delay(2 * time.Second)
				}
				return zktest.Pass()
			})
		}
	}
	for name, arrange := range map[string]func(srv *zktest.Server){
		"before anything is sent":             nil,
		"while there is no connection":        func(srv *zktest.Server) { srv.Down(true); synctest.Wait() },
		"while the listing is not answered":   late(zktest.OpGetChildren2),
		"while the readings are not answered": late(zktest.OpGetData),
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				crowd(t, srv, 200)
				c := coordtest.Connect(t, srv)
				ctx, cancel := context.WithCancelCause(t.Context())
				if arrange == nil {
					cancel(impatient)
				} else {
					arrange(srv)
				}
				start := time.Now()
				result := looking(ctx, c.Mutex(lockPath))
				cancel(impatient)
				if got := <-result; !errors.Is(got.err, impatient) || got.queue != nil || !time.Now().Equal(start) {
					t.Errorf("Queue = %v, %v %v after its context ended; want the cause, at once", got.queue, got.err, time.Since(start))
				}
				sent := coordtest.Traffic(srv) // the interception ends
				srv.Down(false)
				time.Sleep(10 * time.Second)
				if n := sent.Load(); n != 0 {
					t.Errorf("%d requests for a caller that has given up, want none", n)
				}
				if got := look(t, c.Mutex(lockPath)); len(got) != 200 {
					t.Errorf("the next look shows %d contenders, want 200", len(got))
				}
			})
		})
	}
}

func TestQueueEndsWithTheCoordinator(t *testing.T) {
	for name, arrange := range map[string]func(srv *zktest.Server){
		"while there is no connection": func(srv *zktest.Server) {
			srv.Down(true)
			synctest.Wait()
		},
		"while it is turned away": func(srv *zktest.Server) {
			srv.Intercept(func(r zktest.Request) zktest.Action {
				if r.Op == zktest.OpGetData {
					return zktest.Fail(zktest.Throttled)
				}
				return zktest.Pass()
			})
		},
		"while it is not answered": func(srv *zktest.Server) {
			srv.Intercept(func(r zktest.Request) zktest.Action {
				if r.Op == zktest.OpGetData {
					return zktest.Swallow()
				}
				return zktest.Pass()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				crowd(t, srv, 100)
				c := coordtest.Connect(t, srv)
				arrange(srv)
				var results []<-chan looked
				for range 20 { // more than are made at a time
					results = append(results, looking(context.Background(), c.Mutex(lockPath)))
				}
				start := time.Now()
				closed := make(chan error, 1)
				go func() { closed <- c.Close() }()
				for _, result := range results {
					if got := <-result; !errors.Is(got.err, coordinator.ErrClosed) || got.queue != nil {
						t.Errorf("Queue = %v, %v; want ErrClosed", got.queue, got.err)
					}
				}
				if !time.Now().Equal(start) {
					t.Errorf("they were told %v after Close began, want at once", time.Since(start))
				}
				if err := <-closed; err != nil {
					t.Logf("Close: %v", err)
				}
				if took := time.Since(start); took > 10*time.Second {
					t.Errorf("Close took %v, want at most the session timeout, 10 s", took)
				}
				if _, err := c.Mutex(lockPath).Queue(t.Context()); !errors.Is(err, coordinator.ErrClosed) {
					t.Errorf("Queue after Close: %v, want ErrClosed", err)
				}
			})
		})
	}
}

// TestQueueOfAThousandLeavesRoomForLocks looks at a long queue on a slow line, alone and with many
// others, and asks for another lock meanwhile. A server answers in order, so the lock waits for what was
// sent before.
func TestQueueOfAThousandLeavesRoomForLocks(t *testing.T) {
	const (
		contenders = 1000
		window     = 64
		rtt        = 100 * time.Millisecond
	)
	for _, lookers := range []int{1, eventstest.Amount(20, 100)} {
		t.Run(fmt.Sprintf("%d lookers", lookers), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				crowd(t, srv, contenders)
				c := coordtest.Connect(t, srv)
				coordtest.Hold(t, c.Mutex("/locks/warm")) // it makes /locks known, and is no part of what is counted
				var now time.Time
				burst, most, listings, readings := 0, 0, 0, 0
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if !strings.HasPrefix(r.Path, lockPath) {
						return zktest.Delay(rtt)
					}
					if r.Op == zktest.OpGetChildren2 {
						listings++
					} else {
						readings++
					}
					if !time.Now().Equal(now) {
						now, burst = time.Now(), 0
					}
					burst++
					most = max(most, burst)
					return zktest.Delay(rtt)
				})
				start := time.Now()
				var all sync.WaitGroup
				for range lookers {
					all.Go(func() {
						if got := look(t, c.Mutex(lockPath)); len(got) != contenders || !got[0].Holding {
							t.Errorf("%d contenders are shown, want %d with the first holding", len(got), contenders)
						}
					})
				}
				time.Sleep(rtt / 2)
				a, _ := coordtest.Hold(t, c.Mutex("/locks/urgent"))
				if took := time.Since(start); took > 20*rtt {
					t.Errorf("a lock took %v meanwhile, want at most %v", took, 20*rtt)
				}
				a.Release()
				all.Wait()
				if most != window || listings != lookers || readings != lookers*contenders {
					t.Errorf("%d requests at a time, %d listings, %d readings; want %d, %d and %d",
						most, listings, readings, window, lookers, lookers*contenders)
				}
				if took, want := time.Since(start), rtt*time.Duration(lookers*contenders/window+lookers); lookers == 1 && took > want+2*rtt {
					t.Errorf("it took %v, want some %v", took, want)
				}
			})
		})
	}
}

// TestLookersThatGiveUpDoNotPileUp has thousands look at a queue, one after the other, and each give up
// soon. A server does not show the queue's contenders. What the looks leave under way stays bounded, and
// is gone with the connection.
func TestLookersThatGiveUpDoNotPileUp(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crowd(t, srv, 100)
		c := coordtest.Connect(t, srv)
		readings := 0
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if !strings.HasPrefix(r.Path, lockPath+"/") {
				return zktest.Pass()
			}
			readings++
			return zktest.Swallow()
		})
		for range 3000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := c.Mutex(lockPath).Queue(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		if readings != 4 {
			t.Errorf("%d readings are under way, want the 4 that a look begins with", readings)
		}
		before := time.Now()
		coordtest.Hold(t, c.Mutex("/locks/another"))
		if took := time.Since(before); took > time.Second {
			t.Errorf("another lock is held after %v, want it to have room beside the looks", took)
		}
		srv.Intercept(nil)
		srv.Cut(c.SessionID())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, err := c.Mutex(lockPath).Queue(ctx); err != nil || len(got) != 100 {
			t.Errorf("on a new connection %d contenders are shown, %v; want 100", len(got), err)
		}
	})
}
