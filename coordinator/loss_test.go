package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Promise 2, on followers that report a session's signs of life only when the leader
// asks. The faults begin in all phases of the leader's asking and of the client's pings
// and probes, on locks just granted and on locks held for long.

// silences keep the servers from hearing from a session, so that it does not return
// before it expires.
var silences = map[string]func(srv *zktest.Server, id int64){
	"follower without a leader": func(srv *zktest.Server, id int64) {
		strike(srv, zktest.CutBefore(), func(r zktest.Request) bool {
			return r.Op == zktest.OpConnect && r.Session == id
		})
		srv.Strand(id, true)
	},
	"mute": func(srv *zktest.Server, id int64) {
		srv.Mute(id, true)
		srv.Strand(id, true) // the follower passes nothing on to the leader either
	},
	"unreachable": unreachable,
	"slow, then without a leader": func(srv *zktest.Server, id int64) {
		srv.Intercept(func(r zktest.Request) zktest.Action {
			switch {
			case r.Session != id:
				return zktest.Pass()
			case r.Op == zktest.OpConnect:
				return zktest.CutBefore()
			}
			return zktest.Delay(300 * time.Millisecond)
		})
		time.AfterFunc(1500*time.Millisecond, func() { srv.Strand(id, true) })
	},
}

func TestLostComesBeforeTheExpiryBehindAFollower(t *testing.T) {
	const tick = time.Second
	const phases = 10
	quick := 0 // one phase per combination, so that all phases are used in the end
	for _, ticks := range []time.Duration{3, 12} {
		timeout := ticks * tick
		for _, name := range slices.Sorted(maps.Keys(silences)) {
			t.Run(fmt.Sprintf("%d ticks, %s", ticks, name), func(t *testing.T) {
				least, latest := time.Hour, time.Duration(0)
				for _, idle := range []time.Duration{0, time.Minute} {
					for _, held := range []time.Duration{0, timeout / 20, 3 * timeout / 10, timeout, time.Minute} {
						for i := range eventstest.Amount(1, phases) {
							// 37 ms of the phase are a fraction of the tick that none of
							// the periods here divides.
							phase := time.Duration((quick + i) % phases)
							wait := idle + phase*tick/phases + 37*time.Millisecond
							lead, told := leadOfLost(t, silences[name], tick, timeout, wait, held)
							least, latest = min(least, lead), max(latest, told)
						}
						quick += 3
					}
				}
				t.Logf("lost at least %v before the session expired, and at most %v after the fault began", least, latest)
			})
		}
	}
}

// leadOfLost returns how long before the end of its session a holder received Lost, and
// how long after the fault began.
func leadOfLost(t *testing.T, begin func(*zktest.Server, int64), tick, timeout, wait, held time.Duration) (lead, told time.Duration) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.Tick(tick), zktest.Followers())
		options := []coordinator.Option{coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick)}
		victim, next := coordtest.Connect(t, srv, options...), coordtest.Connect(t, srv, options...)
		time.Sleep(wait)
		a, grant := coordtest.Hold(t, victim.Mutex(lockPath))
		w := coordtest.Queue(next.Mutex(lockPath))
		time.Sleep(held)
		coordtest.NotLost(t, a)
		start := time.Now()
		begin(srv, grant.Session)
		lost := <-a.Lost()
		told = time.Since(start)
		expect(t, lost.Reason == events.ReasonLeaseRanOut && !a.Valid(),
			"told of %+v, valid: %v; want that the lease ran out, and not valid", lost, a.Valid())
		expect(t, slices.Contains(srv.Sessions(), grant.Session),
			"waited %v, held %v: told %v after the fault, when the session is over", wait, held, told)
		_, err := w.Wait(t.Context())
		eventstest.Must(t, err)
		lead = time.Since(start) - told
		expect(t, lead >= timeout/25,
			"waited %v, held %v: told %v after the fault, %v before the next grant; want at least %v before",
			wait, held, told, lead, timeout/25)
	})
	return lead, told
}

// A lock is not lost on a healthy follower, whatever the phase of its grant.
func TestNothingIsLostOnAHealthyFollower(t *testing.T) {
	const tick = time.Second
	for _, ticks := range []time.Duration{2, 3, 12} {
		eventstest.Bubble(t, func(t *testing.T) {
			srv := zktest.Start(t, zktest.Tick(tick), zktest.Followers())
			c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(ticks*tick), coordinator.WithTickTime(tick))
			for range eventstest.Amount(12, 50) {
				time.Sleep(7*time.Minute + 137*time.Millisecond)
				a, _ := coordtest.Hold(t, c.Mutex(lockPath))
				for range 500 {
					if !a.Valid() {
						t.Fatalf("with a timeout of %d ticks the lock is not valid, want it held", ticks)
					}
					time.Sleep(ticks * tick / 50)
				}
				finish(t, a)
			}
		})
	}
}

// TestDoTellsOfALossOnce, even if its function returns the cause of its context, as it
// should.
func TestDoTellsOfALossOnce(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		err := c.Mutex(lockPath).Do(t.Context(), func(ctx context.Context, _ events.Grant) error {
			expire(t, srv, c)
			<-ctx.Done()
			return fmt.Errorf("the work: %w", context.Cause(ctx))
		})
		lost := new(coordinator.LostError)
		one := errors.As(err, &lost) && strings.Count(err.Error(), "lost") == 1
		expect(t, one, "Do returns %q, want one LostError", err)
	})
}

func TestAThousandLocksCostOneProbeASecond(t *testing.T) {
	length := time.Duration(eventstest.Amount(10, 60)) * time.Minute
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		wantProbes := func(when string) {
			t.Helper()
			before := srv.Requests(zktest.OpMulti)
			time.Sleep(length)
			synctest.Wait()
			expectEqual(t, srv.Requests(zktest.OpMulti)-before, int(length/time.Second), "%s: probes", when)
		}
		c := coordtest.Connect(t, srv) // the default timeout of 10 s
		held := burst(c, 1000)
		granted(t, held)
		wantProbes("with a thousand locks")
		for _, a := range held {
			coordtest.NotLost(t, a)
			coordtest.End(a)
		}
		coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
		coordtest.Queue(c.Mutex(lockPath))
		time.Sleep(21 * time.Second / 2) // see TestTheOnlyOneWaitingAsksNothing
		wantProbes("with a holder, and a waiter in another session, which needs none any more")
	})
}

// After the machine was suspended, Valid is right at once. The loss is delivered by the
// time of the next probe, with or without a connection.
func TestASuspendOfTheMachineEndsTheLease(t *testing.T) {
	downs := map[string]bool{"connected": false, "no connection": true}
	forEach(t, downs, func(t *testing.T, srv *zktest.Server, down bool) {
		var asleep atomic.Int64
		c := coordtest.Connect(t, srv, session.OptionFunc(func(cfg *session.Config) {
			cfg.Asleep = func() time.Duration { return time.Duration(asleep.Load()) }
		}))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		time.Sleep(time.Minute)
		srv.Down(down)
		synctest.Wait()
		sleeps := func(d, left time.Duration) {
			t.Helper()
			asleep.Add(int64(d))
			expect(t, a.Valid() == (left > 0) && time.Until(a.Deadline()) == left,
				"asleep for another %v: valid %v, deadline in %v; want it in %v",
				d, a.Valid(), time.Until(a.Deadline()), left)
		}
		sleeps(time.Until(a.Deadline())-1, 1)
		sleeps(1, 0)
		sleeps(time.Hour, -time.Hour)
		select {
		case lost := <-a.Lost():
			expectEqual(t, lost.Reason, events.ReasonLeaseRanOut, "the reason of the loss")
		case <-time.After(time.Second + time.Millisecond):
			t.Fatal("no loss is told by the next probe's time, want one")
		}
		srv.Down(false)
		b, _ := coordtest.Hold(t, c.Mutex(lockPath)) // the session is still alive for the server
		coordtest.NotLost(t, b)
	})
}

func TestGrantsFollowTheOrderOfTheQueueWithGrowingTokens(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, all := sessions(t, srv, 3, 20)
		grantedInOrder(t, all, srv.Exists)
	})
}

// grantedInOrder lets each waiter of a queue hold the lock in turn, with a greater token
// than the one before. It must be the only holder, and its node must be deleted on
// release.
func grantedInOrder(t *testing.T, queue []*coordinator.Acquisition, exists func(node string) bool) {
	t.Helper()
	var last int64
	for i, a := range queue {
		grant := coordtest.GrantOf(t, a)
		for j, later := range queue[i+1:] {
			if later.Valid() || len(later.Granted()) > 0 {
				t.Fatalf("%d is granted while %d holds, want one at a time", i+1+j, i)
			}
		}
		expect(t, grant.Token > last && grant.Path == lockPath && grant.ID == a.ID() && exists(grant.Node),
			"grant %d is %+v after the token %d, want a greater one, and of acquisition %d", i, grant, last, a.ID())
		coordtest.NotLost(t, a)
		last = grant.Token
		finish(t, a)
		expect(t, !exists(grant.Node), "the node of %d is there after its release, want it gone", i)
	}
}

func TestTokensGrowWhenTheDirectoryIsRebornWithNumbersFromZero(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		a, before := coordtest.Hold(t, c.Mutex(lockPath))
		coordtest.End(a)
		eventstest.Must(t, srv.Delete(lockPath))
		_, after := coordtest.Hold(t, c.Mutex(lockPath))
		expect(t, after.Node[len(after.Node)-10:] == "0000000000" && after.Token > before.Token,
			"in the directory that is reborn %+v is granted after %+v, want the number 0 and a greater token",
			after, before)
	})
}
