package coordinator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// records tells whether the request claims the lock together with its record, and parts whether it removes the two.
func records(r zktest.Request) bool {
	return r.Op == zktest.OpMulti && len(r.Parts) == 2 && r.Parts[0].Op == zktest.OpCheck && r.Parts[1].Path == recordPath
}

func parts(r zktest.Request) bool {
	return r.Op == zktest.OpMulti && len(r.Parts) > 1 && r.Parts[0].Op == zktest.OpDelete && r.Parts[1].Path == recordPath
}

// TestLostRepliesOfAClaimAndARelease: a claim is made again, and its record is its own; a release is, and the record
// is gone.
func TestLostRepliesOfAClaimAndARelease(t *testing.T) {
	actions := map[string]func() zktest.Action{
		"reply lost": zktest.CutAfter, "request lost": zktest.CutBefore,
		"throttled": func() zktest.Action { return zktest.Fail(zktest.Throttled) },
	}
	for name, action := range actions {
		for what, is := range map[string]func(zktest.Request) bool{
			"claim": records, "release": parts,
			"reading": func(r zktest.Request) bool { return r.Op == zktest.OpGetData && r.Path == recordPath },
		} {
			for _, times := range []int{1, 3} {
				for _, crashed := range []bool{false, true} {
					t.Run(what+", "+name, func(t *testing.T) {
						coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
							a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
							if crashed {
								coordtest.Hold(t, detecting(b))
								expire(t, srv, b)
								time.Sleep(time.Second)
							}
							left := times
							srv.Intercept(func(r zktest.Request) zktest.Action {
								if left == 0 || !is(r) {
									return zktest.Pass()
								}
								left--
								return action()
							})
							first := coordtest.Queue(detecting(a))
							second := coordtest.Queue(detecting(a))
							g, err := first.Wait(t.Context())
							if err != nil || (g.Abandoned != nil) != crashed {
								t.Errorf("told %+v, %v", g.Abandoned, err)
							}
							first.Release()
							if g, err := second.Wait(t.Context()); err != nil || g.Abandoned != nil {
								t.Errorf("the second is told %+v, %v", g.Abandoned, err)
							}
							second.Release()
							time.Sleep(5 * time.Second)
							srv.Intercept(nil)
							leftInOrder(t, srv, detecting(b))
							if left > 0 && what != "reading" {
								t.Errorf("nothing was lost")
							}
						})
					})
				}
			}
		}
	}
}

// TestGivingUpWhileTheClaimIsUnderWay: the record is made all the same, and goes with the node.
func TestGivingUpWhileTheClaimIsUnderWay(t *testing.T) {
	for _, reply := range []string{"slow", "lost"} {
		for _, crashed := range []bool{false, true} {
			t.Run(reply, func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
					if crashed {
						coordtest.Hold(t, detecting(b))
						expire(t, srv, b)
						time.Sleep(time.Second)
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					seen := false
					srv.Intercept(func(r zktest.Request) zktest.Action {
						if seen || !records(r) {
							return zktest.Pass()
						}
						seen = true
						if reply == "lost" {
							go cancel()
							return zktest.CutAfter()
						}
						time.AfterFunc(100*time.Millisecond, cancel)
						return zktest.Delay(200 * time.Millisecond)
					})
					acq := detecting(a).Acquire(ctx)
					<-acq.Done()
					time.Sleep(5 * time.Second)
					if !seen || len(srv.Children(lockPath)) > 0 || srv.Exists(recordPath) != crashed {
						t.Errorf("claimed: %v; left %v", seen, srv.Tree())
					}
					last, g := coordtest.Hold(t, detecting(b))
					if (g.Abandoned != nil) != crashed {
						t.Errorf("told %+v", g.Abandoned)
					}
					finish(t, last)
					leftInOrder(t, srv, detecting(b))
				})
			})
		}
	}
}

// TestTheRecordIsRemovedByHand: who releases then has nothing to remove.
func TestTheRecordIsRemovedByHand(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		first, second := coordtest.Queue(detecting(a)), coordtest.Queue(detecting(b))
		for _, acq := range []*coordinator.Acquisition{first, second} {
			coordtest.Soon(t, acq)
			if err := srv.Delete(recordPath); err != nil {
				t.Fatal(err)
			}
			finish(t, acq)
		}
		leftInOrder(t, srv, detecting(a))
	})
}

// TestTheRecordOutlivesTheDirectory: a lock that nobody asks for is removed, and the record is not.
func TestTheRecordOutlivesTheDirectory(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		coordtest.Hold(t, detecting(a))
		expire(t, srv, a)
		time.Sleep(time.Minute)
		for srv.Reap() > 0 {
		}
		synctest.Wait()
		if srv.Exists(lockPath) || !srv.Exists(recordPath) {
			t.Fatalf("left: %v", srv.Tree())
		}
		last, g := coordtest.Hold(t, detecting(b))
		if g.Abandoned == nil {
			t.Error("not told")
		}
		finish(t, last)
		for srv.Reap() > 0 {
		}
		if got := srv.Tree(); len(got) != 0 {
			t.Errorf("left: %v", got)
		}
	})
}

// TestRoundTripsOfALockThatTellsOfCrashes: one more than without, also in a loop, and none for a waiter who would claim.
func TestRoundTripsOfALockThatTellsOfCrashes(t *testing.T) {
	const cycles = 100
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		coordtest.Warm(t, cs[0])
		for name, wait := range map[string]bool{"awaited": true, "in a loop": false} {
			before := coordtest.Total(ms)
			for range cycles {
				a, _ := coordtest.Hold(t, detecting(cs[0]))
				a.Release()
				if wait {
					<-a.Done()
				}
			}
			synctest.Wait()
			// Who comes when the delete is not answered yet may see the node, and lists.
			if n := coordtest.Total(ms).Minus(before); wait && n.Requests != 3*cycles || n.Requests < 3*cycles || n.Requests > 8*cycles {
				t.Errorf("%s: %+v in %d cycles", name, n, cycles)
			}
		}
		holder, _ := coordtest.Hold(t, detecting(cs[0]))
		waiter := coordtest.Queue(detecting(cs[0]))
		before := coordtest.Total(ms)
		handOver(t, holder, waiter)
		if n := coordtest.Total(ms).Minus(before); n.Requests != 2 {
			t.Errorf("%+v in a handoff to the only one who waits", n)
		}
		finish(t, waiter)

		// A reader alone takes one more, too.
		rw := cs[0].ReadWrite("/locks/rw", coordinator.DetectCrash())
		for range 2 {
			r, _ := coordtest.Hold(t, rw.Read())
			finish(t, r)
		}
		before = coordtest.Total(ms)
		r, _ := coordtest.Hold(t, rw.Read())
		finish(t, r)
		if n := coordtest.Total(ms).Minus(before); n.Requests != 3 {
			t.Errorf("%+v for a reader", n)
		}
	})
}

// TestAReleaseThatNobodyHears: who releases while there is no connection has released, if the session is there when there is one
// again. Otherwise the next one is told of a crash that was none.
func TestAReleaseThatNobodyHears(t *testing.T) {
	for _, outage := range []time.Duration{2 * time.Second, time.Minute} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			holder, grant := coordtest.Hold(t, detecting(a))
			session := a.SessionID()
			srv.Mute(session, true)
			time.Sleep(time.Second)
			if !holder.Valid() {
				t.Error("it is lost already")
			}
			finish(t, holder)
			time.Sleep(outage)
			srv.Mute(session, false)
			last, got := coordtest.Hold(t, detecting(b))
			if ended := outage == time.Minute; (got.Abandoned != nil) != ended || ended && got.Abandoned.Node != grant.Node {
				t.Errorf("after %v: told %+v", outage, got.Abandoned)
			}
			finish(t, last)
			leftInOrder(t, srv, detecting(a))
		})
	}
}

// TestWhoGivesUpBeforeItHasEnteredAgainIsNoCrash: it has done nothing, and the others have released. When the session answers is
// for the scheduler to say, so there are many.
func TestWhoGivesUpBeforeItHasEnteredAgainIsNoCrash(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		l := detecting(a, coordinator.Reentrant())
		for range 500 {
			outer, _ := coordtest.Hold(t, l)
			var inner []*coordinator.Acquisition
			for i := range 50 {
				inner = append(inner, l.Acquire(outer.Context(context.Background())))
				if i >= 5 {
					inner[i-5].Release()
				}
			}
			for _, in := range inner {
				in.Release()
				<-in.Done()
			}
			finish(t, outer)
			last, grant := coordtest.Hold(t, detecting(b))
			finish(t, last)
			if grant.Abandoned != nil {
				t.Fatalf("told of %+v", grant.Abandoned)
			}
		}
		leftInOrder(t, srv, detecting(b))
	})
}

// TestALeaseThatEndsBetweenTheProofAndTheClaim: 1. A create proves that it is alone, and says so late; 2. its claim is under way when the
// lease of that proof runs out; 3. the claim is answered in time, and granted. Whoever is granted is told of his loss.
func TestALeaseThatEndsBetweenTheProofAndTheClaim(t *testing.T) {
	const timeout = 20 * time.Second
	granted := 0
	for lag := timeout / 8; lag < timeout/2; lag += timeout / 200 {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			network := coordtest.NewMeter(srv)
			c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(timeout), coordinator.WithDialer(network.Dial))
			coordtest.Warm(t, c)
			network.Lag(faultnet.Down, lag)
			time.Sleep(timeout)
			a := detecting(c).Acquire(t.Context())
			select {
			case <-a.Granted():
			case <-time.After(2 * timeout): // its claims are answered too late, one after the other
				return
			}
			granted++
			srv.MuteAll(true)
			select {
			case <-a.Lost():
			case <-time.After(timeout):
				t.Errorf("answers take %v: a timeout after the last sign of life there is no news of a loss", lag)
			}
			srv.MuteAll(false)
		})
	}
	if granted < 10 {
		t.Errorf("granted %d times", granted)
	}
}
