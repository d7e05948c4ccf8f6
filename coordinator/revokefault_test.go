package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// mishaps are what may happen at any request of a session, once.
func mishaps() map[string]func(srv *zktest.Server, session int64) zktest.Action {
	return map[string]func(srv *zktest.Server, session int64) zktest.Action{
		"cut before":  func(*zktest.Server, int64) zktest.Action { return zktest.CutBefore() },
		"cut after":   func(*zktest.Server, int64) zktest.Action { return zktest.CutAfter() },
		"turned away": func(*zktest.Server, int64) zktest.Action { return zktest.Fail(zktest.Throttled) },
		"moved":       func(*zktest.Server, int64) zktest.Action { return zktest.Fail(zktest.SessionMoved) },
		"expired": func(srv *zktest.Server, session int64) zktest.Action {
			if err := srv.Expire(session); err != nil {
				panic(err)
			}
			return zktest.CutAfter()
		},
	}
}

// atRequest has the mishap happen at the nth request of the session, pings and handshakes aside, and reports whether there was one.
func atRequest(srv *zktest.Server, session int64, n int32, mishap func(*zktest.Server, int64) zktest.Action) (came *atomic.Bool) {
	var seen atomic.Int32
	came = &atomic.Bool{}
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if r.Session != session || r.Op == zktest.OpPing || r.Op == zktest.OpConnect || r.Op == zktest.OpSetWatches {
			return zktest.Pass()
		}
		if seen.Add(1) != n {
			return zktest.Pass()
		}
		came.Store(true)
		return mishap(srv, session)
	})
	return came
}

// TestRevokeGoesOnWhateverHappensToIt: at each of its requests, to a holder who gives the lock back at the deadline, to one who has to be
// removed, and to one of another library.
func TestRevokeGoesOnWhateverHappensToIt(t *testing.T) {
	theirs := lockPath + "/lock-0000000007"
	for name, mishap := range mishaps() {
		for kind, took := range map[string]time.Duration{"obeys": grace, "deaf": grace + patience, "foreign": grace + patience, "permits": grace} {
			for n := int32(1); ; n++ {
				came := &atomic.Bool{}
				t.Run(fmt.Sprintf("%s, %s, request %d", name, kind, n), func(t *testing.T) {
					coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
						c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
						var holder *coordinator.Acquisition
						switch kind {
						case "foreign":
							if err := stranger(t, srv)(theirs, nil); err != nil {
								t.Fatal(err)
							}
						case "permits":
							holder = c.Semaphore(lockPath, 3, coordinator.Revocable()).Acquire(t.Context(), coordinator.WithPermits(3))
							coordtest.Soon(t, holder)
						default:
							holder, _ = coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
						}
						time.Sleep(5 * time.Second)
						came = atRequest(srv, operator.SessionID(), n, func(srv *zktest.Server, session int64) zktest.Action {
							return mishap(srv, session)
						})
						if kind == "deaf" {
							deafened(srv, c.SessionID(), operator.SessionID(), n, came, mishap)
						}
						ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
						defer cancel()
						asked := time.Now()
						if err := operator.Revoke(ctx, lockPath, grace); err != nil || !around(time.Since(asked), took) && time.Since(asked) > took+2*time.Second {
							t.Errorf("Revoke: %v after %v, want %v", err, time.Since(asked), took)
						}
						if srv.Exists(theirs) || len(srv.Children(lockPath+"/leases")) > 0 {
							t.Error("it is still there")
						}
						if holder == nil || t.Failed() {
							return
						}
						lost := <-holder.Lost()
						if want := map[bool]events.Reason{true: events.ReasonNodeRemoved, false: events.ReasonRevoked}[kind == "deaf"]; lost.Reason != want {
							t.Errorf("lost: %+v", lost)
						}
					})
				})
				if !came.Load() || n > 30 {
					if n < 4 {
						t.Errorf("%s, %s: only %d requests", name, kind, n-1)
					}
					break
				}
			}
		}
	}
}

// deafened is atRequest, where the holder's session is deaf as well.
func deafened(srv *zktest.Server, holder, operator int64, n int32, came *atomic.Bool, mishap func(*zktest.Server, int64) zktest.Action) {
	var seen atomic.Int32
	srv.Intercept(func(r zktest.Request) zktest.Action {
		switch {
		case r.Session == holder && r.Op == zktest.OpGetData:
			return zktest.Fail(zktest.Throttled)
		case r.Session != operator || r.Op == zktest.OpPing || r.Op == zktest.OpConnect || r.Op == zktest.OpSetWatches || seen.Add(1) != n:
			return zktest.Pass()
		default:
			came.Store(true)
			return mishap(srv, operator)
		}
	})
}

// TestAHolderHearsOfAWishWhateverHappens: at each request that he makes from the wish on. The deadline may come a little later, or
// the session, which is another loss, a little sooner.
func TestAHolderHearsOfAWishWhateverHappens(t *testing.T) {
	for name, mishap := range mishaps() {
		for n := int32(1); n < 6; n++ {
			t.Run(fmt.Sprintf("%s, request %d", name, n), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
					holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
					time.Sleep(5 * time.Second)
					came := atRequest(srv, c.SessionID(), n, mishap)
					asked := time.Now()
					err := operator.Revoke(t.Context(), lockPath, grace)
					expired := name == "expired" && came.Load() // perhaps by a probe, before it was asked
					if err != nil && (!expired || !errors.Is(err, coordinator.ErrNotHeld)) || time.Since(asked) > grace+2*time.Second {
						t.Errorf("Revoke: %v after %v", err, time.Since(asked))
					}
					lost := <-holder.Lost()
					if lost.Reason != events.ReasonRevoked && !expired {
						t.Errorf("lost: %+v", lost)
					}
				})
			})
		}
	}
}

// TestAHolderWithoutAConnectionLosesTheLockAtTheDeadline: it needs nobody for that.
func TestAHolderWithoutAConnectionLosesTheLockAtTheDeadline(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, grant := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
		time.Sleep(5 * time.Second)
		asked := time.Now()
		done := revoking(t.Context(), operator, grace)
		time.Sleep(time.Second)
		id := c.SessionID()
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Session == id {
				return zktest.CutBefore()
			}
			return zktest.Pass()
		})
		srv.Cut(id)
		if lost := <-holder.Lost(); lost.Reason != events.ReasonRevoked || time.Since(asked) != grace || !srv.Exists(grant.Node) {
			t.Errorf("lost: %+v after %v", lost, time.Since(asked))
		}
		srv.Intercept(nil)
		if err := <-done; err != nil || time.Since(asked) > grace+patience {
			t.Errorf("Revoke: %v after %v", err, time.Since(asked))
		}
	})
}

// TestRevokeOfAHolderWhoDies ends with that.
func TestRevokeOfAHolderWhoDies(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
		done := revoking(t.Context(), operator, time.Hour)
		time.Sleep(5 * time.Second)
		if err := srv.Expire(c.SessionID()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("Revoke: %v", err)
		}
		<-holder.Done()
		if !errors.Is(holder.Err(), coordinator.ErrSessionExpired) {
			t.Errorf("Err: %v", holder.Err())
		}
		next, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable())) // and its clock is stopped
		time.Sleep(2 * time.Hour)
		if !next.Valid() {
			t.Errorf("lost: %v", next.Err())
		}
	})
}

// TestRevokeOfManyTakesTurns: with so many holders no more requests are under way than a few.
func TestRevokeOfManyTakesTurns(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const readers = 300
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		for range readers {
			c.ReadWrite(lockPath, coordinator.Revocable()).Read().Acquire(t.Context())
		}
		time.Sleep(5 * time.Second)
		before := srv.Requests(zktest.OpSetData)
		asked := time.Now()
		if err := operator.Revoke(t.Context(), lockPath, grace); err != nil || !around(time.Since(asked), grace) {
			t.Errorf("Revoke: %v after %v", err, time.Since(asked))
		}
		if n := srv.Requests(zktest.OpSetData) - before; n != readers {
			t.Errorf("%d messages", n)
		}
	})
}

// TestRevokeHearsOfTheEndInAnotherSession: the watches of the one in which it has asked went with that.
func TestRevokeHearsOfTheEndInAnotherSession(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		holder, _ := coordtest.Hold(t, c.Mutex(lockPath, coordinator.Revocable()))
		done := revoking(t.Context(), operator, time.Hour)
		time.Sleep(5 * time.Second)
		if err := srv.Expire(operator.SessionID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		holder.Release()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Revoke: %v", err)
			}
		case <-time.After(time.Second):
			t.Error("it has not heard")
		}
	})
}
