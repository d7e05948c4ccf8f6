package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What has to happen in the end is waited for with a bound here, in virtual time: a
// lock that gets stuck fails these tests at once, where others would wait for it
// until the time limit of the whole run.

// TestEachLossIsToldInTime takes a lock away in every way there is.
func TestEachLossIsToldInTime(t *testing.T) {
	const (
		timeout = 10 * time.Second
		soon    = 100 * time.Millisecond // whatever the server tells; less than until the next probe
	)
	for reason, c := range map[events.Reason]struct {
		within  time.Duration
		happens func(t *testing.T, srv *zktest.Server, held events.Grant)
		options []coordinator.Option
	}{
		events.ReasonSessionExpired: {within: soon, happens: func(t *testing.T, srv *zktest.Server, held events.Grant) {
			if err := srv.Expire(held.Session); err != nil {
				t.Error(err)
			}
		}},
		events.ReasonNodeRemoved: {within: soon, happens: func(t *testing.T, srv *zktest.Server, held events.Grant) {
			if err := srv.Delete(held.Node); err != nil {
				t.Error(err)
			}
		}},
		events.ReasonLeaseRanOut: {within: timeout, happens: func(_ *testing.T, srv *zktest.Server, _ events.Grant) {
			srv.Down(true)
		}},
		events.ReasonSuspended: {
			soon, func(_ *testing.T, srv *zktest.Server, held events.Grant) { srv.Cut(held.Session) },
			[]coordinator.Option{coordinator.WithLossOnSuspend()},
		},
	} {
		t.Run(reason.String(), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				a, held := coordtest.Hold(t, coordtest.Connect(t, srv, append(c.options, coordinator.WithSessionTimeout(timeout))...).Mutex(lockPath))
				ctx := a.Context(t.Context())
				time.Sleep(timeout + timeout/40) // past the first proof of the lease, and between two probes
				if !a.Valid() || ctx.Err() != nil {
					t.Fatal("lost for nothing")
				}
				c.happens(t, srv, held)
				began := time.Now()
				select {
				case lost := <-a.Lost():
					if lost.Reason != reason || lost.Token != held.Token || a.Valid() {
						t.Errorf("%+v, valid %v", lost, a.Valid())
					}
					if told := (*coordinator.LostError)(nil); !errors.As(context.Cause(ctx), &told) || told.Reason != reason {
						t.Errorf("the context's cause is %v", context.Cause(ctx))
					}
				case <-time.After(c.within):
					t.Errorf("nothing was heard in %v", c.within)
				}
				t.Logf("told after %v", time.Since(began))
				a.Release()
				time.Sleep(timeout)
				select {
				case lost := <-a.Lost():
					t.Errorf("told again: %+v", lost)
				default:
				}
				if !coordtest.IsClosed(a.Done()) {
					t.Error("not over")
				}
			})
		})
	}
}

// TestADeadlockIsSeenAtOnce asks for a lock with the context of the one that holds it.
func TestADeadlockIsSeenAtOnce(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := coordtest.Connect(t, srv).Mutex(lockPath)
		a, _ := coordtest.Hold(t, l)
		began := time.Now()
		again := l.Acquire(a.Context(t.Context()), coordinator.WithMaxWait(time.Minute))
		<-again.Done()
		if waited := time.Since(began); waited > 0 || !errors.Is(again.Err(), coordinator.ErrDeadlock) {
			t.Errorf("after %v: %v", waited, again.Err())
		}
	})
}

// TestCloseHasWaitedForTheStream: the goroutine of a subscriber that does not read is
// gone when Close returns, and with it what it had to offer.
func TestCloseHasWaitedForTheStream(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		stream := c.Events(t.Context())
		<-c.Mutex("no path").Acquire(t.Context()).Done()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if ev, open := <-stream; open {
			t.Errorf("after Close has returned the stream says %+v", ev)
		}
	})
}

// TestAWaitersTurnComes has something happen, and then has the holder go. It is done
// once with a session for each, and once with both in one.
func TestAWaitersTurnComes(t *testing.T) {
	type scene struct {
		srv     *zktest.Server
		holder  *coordinator.Acquisition
		held    events.Grant
		session int64  // the waiter's
		node    string // the waiter's
	}
	releases := func(_ *testing.T, s scene) { s.holder.Release() }
	for name, c := range map[string]struct{ first, then func(*testing.T, scene) }{
		"released": {func(*testing.T, scene) {}, releases},
		"the holder's session expires": {func(*testing.T, scene) {}, func(t *testing.T, s scene) {
			if err := s.srv.Expire(s.held.Session); err != nil {
				t.Error(err)
			}
		}},
		"the holder's node is removed": {func(*testing.T, scene) {}, func(t *testing.T, s scene) {
			if err := s.srv.Delete(s.held.Node); err != nil {
				t.Error(err)
			}
		}},
		"the waiter's session has expired": {func(t *testing.T, s scene) {
			if err := s.srv.Expire(s.session); err != nil {
				t.Error(err)
			}
		}, releases},
		"the waiter's node was removed": {func(t *testing.T, s scene) {
			if err := s.srv.Delete(s.node); err != nil {
				t.Error(err)
			}
		}, releases},
		"the holder's data was changed": {func(t *testing.T, s scene) {
			if err := s.srv.SetData(s.held.Node, []byte("changed")); err != nil {
				t.Error(err)
			}
		}, releases},
		"the connection was cut": {func(_ *testing.T, s scene) { s.srv.CutAll() }, releases},
		"the servers were away": {func(_ *testing.T, s scene) {
			s.srv.Down(true)
			time.Sleep(3 * time.Second)
			s.srv.Down(false)
		}, releases},
		"released while the connection is cut": {func(*testing.T, scene) {}, func(_ *testing.T, s scene) {
			s.srv.Cut(s.session)
			s.holder.Release()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, shared := range []bool{false, true} {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					holding := coordtest.Connect(t, srv)
					waiting := holding
					if !shared {
						waiting = coordtest.Connect(t, srv)
					}
					holder, held := coordtest.Hold(t, holding.Mutex(lockPath))
					w := coordtest.Queue(waiting.Mutex(lockPath))
					s := scene{srv: srv, holder: holder, held: held, session: waiting.SessionID()}
					for _, child := range srv.Children(lockPath) { // two of them
						if node := lockPath + "/" + child; node != held.Node {
							s.node = node
						}
					}
					c.first(t, s)
					time.Sleep(2 * time.Second)
					synctest.Wait()
					c.then(t, s)
					const bound = time.Minute
					ctx, cancel := context.WithTimeout(t.Context(), bound)
					defer cancel()
					began := time.Now()
					grant, err := w.Wait(ctx)
					if err != nil || grant.Token <= held.Token {
						t.Fatalf("in one session %v: %+v after %v, %v", shared, grant, held.Token, err)
					}
					t.Logf("in one session %v: after %v", shared, time.Since(began))
				})
			}
		})
	}
}
