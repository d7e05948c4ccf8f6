package coordinator_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

const (
	semPath   = "/limits/exports"
	semQueue  = semPath + "/locks"
	semLeases = semPath + "/leases"
	semSize   = semPath + "/size"
)

// take returns acquisitions that requested these permits, one after the other.
func take(t *testing.T, s *coordinator.Semaphore, permits ...int) (all []*coordinator.Acquisition) {
	t.Helper()
	for _, n := range permits {
		all = append(all, s.Acquire(context.Background(), coordinator.Permits(n)))
		synctest.Wait()
	}
	return all
}

// wantNothing checks that only the size is left.
func wantNothing(t *testing.T, srv *zktest.Server) {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	expectNone(t, slices.Concat(srv.Children(semQueue), srv.Children(semLeases)), "nodes when all have released")
}

// permitStorm makes 100 callers in four sessions acquire one to three of eleven permits
// each, several times. At most these are held at once, and at some time all of them.
func permitStorm(t *testing.T, s *site) {
	t.Helper()
	const size, callers, rounds = 11, 100, 5
	var sems []*coordinator.Semaphore
	for range 4 {
		sems = append(sems, s.connect().Semaphore(semPath, size))
	}
	var held, most atomic.Int64
	var wait sync.WaitGroup
	for i := range callers {
		sem := sems[i%len(sems)]
		wait.Go(func() {
			for round := range rounds {
				n := 1 + (i+round)%3
				err := sem.Do(t.Context(), func(ctx context.Context, _ events.Grant) error {
					now := held.Add(int64(n))
					defer held.Add(int64(-n))
					expect(t, now <= size && ctx.Err() == nil, "caller %d, round %d: %d of %d permits are held; "+
						"the lock has ended: %v", i, round, now, size, ctx.Err())
					for seen := most.Load(); seen < now && !most.CompareAndSwap(seen, now); {
						seen = most.Load()
					}
					time.Sleep(rand.N(10 * time.Millisecond))
					return nil
				}, coordinator.Permits(n))
				expect(t, err == nil, "caller %d, round %d: %v, want nil", i, round, err)
			}
		})
	}
	wait.Wait()
	expect(t, most.Load() == size, "%d permits were held at most, want all %d", most.Load(), size)
}

func TestNoMorePermitsThanThereAre(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		permitStorm(t, onTheDouble(t, srv))
		wantNothing(t, srv)
	})
}

// TestAContextThatCarriesAPermitTwice counts it once, as when a function under Do uses
// the Context of its own acquisition.
func TestAContextThatCarriesAPermitTwice(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 2)
		one, _ := coordtest.Hold(t, s)
		two := s.Acquire(one.Context(one.Context(t.Context())))
		coordtest.Soon(t, two)
		three := s.Acquire(one.Context(two.Context(one.Context(t.Context()))))
		expectError(t, three.Err(), coordinator.ErrDeadlock, "a third of two permits")
	})
}

// TestResizeBesideAcquire: an acquisition concurrent with Resize, from the same handle,
// is not refused for its size. A Resize also works after the servers have lost all data
// and restarted their transaction numbers.
func TestResizeBesideAcquire(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 1)
		take(t, s, 1)
		for size := 2; size < 12; size++ {
			all := []*coordinator.Acquisition{s.Acquire(t.Context())}
			resized := inBackground(func() error { return s.Resize(t.Context(), size) })
			all = append(all, s.Acquire(t.Context()))
			eventstest.Must(t, <-resized)
			all = append(all, s.Acquire(t.Context()))
			for _, a := range all {
				synctest.Wait()
				waitsOrHolds(t, a)
			}
		}
		srv.Wipe()
		eventstest.Must(t, s.Resize(t.Context(), 3))
		wantRoom(t, s, 3)
	})
}

// TestResizeSetsNoSizeOnceItHasReturned, even if an answer comes later.
func TestResizeSetsNoSizeOnceItHasReturned(t *testing.T) {
	forEach(t, map[string]zktest.Op{
		"the transaction": zktest.OpMulti, "the create": zktest.OpCreate, "the parent": zktest.OpCreateContainer,
	}, func(t *testing.T, srv *zktest.Server, op zktest.Op) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 1)
		if op == zktest.OpMulti { // otherwise its parent is missing, too
			eventstest.Must(t, srv.Create(semPath, nil))
		}
		late := striking(srv, zktest.Delay(2*time.Second), isA(op))
		expectError(t, s.Resize(within(t, time.Second), 5), context.DeadlineExceeded, "Resize")
		time.Sleep(time.Minute)
		expect(t, late.Load() > 0 && !srv.Exists(semSize),
			"%d answers came late, and the size is there: %v; want some, and no size", late.Load(), srv.Exists(semSize))
	})
}

// TestTheSizeThatWasWrittenLastCounts: after two concurrent calls of Resize, a handle
// keeps the size that the servers have, even if the other call returns later.
func TestTheSizeThatWasWrittenLastCounts(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 1)
		take(t, s, 1)
		ctx := lateContext{t.Context(), make(chan struct{})}
		late := inBackground(func() error { return s.Resize(ctx, 2) })
		synctest.Wait()
		expectData(t, srv, semSize, "2") // written before the call returns
		eventstest.Must(t, s.Resize(t.Context(), 3))
		close(ctx.reads)
		eventstest.Must(t, <-late)
		wantRoom(t, s, 3)
		eventstest.Must(t, s.Resize(t.Context(), 4))
		wantRoom(t, s, 4)
	})
}

// wantRoom checks that the servers and the handle have this size.
func wantRoom(t *testing.T, s *coordinator.Semaphore, size int) {
	t.Helper()
	waitsOrHolds(t, take(t, s, size)[0])
}

// waitsOrHolds checks that an acquisition was not refused, and ends it.
func waitsOrHolds(t *testing.T, a *coordinator.Acquisition) {
	t.Helper()
	expect(t, !coordtest.IsClosed(a.Done()), "the acquisition ended with %v, want it to wait or hold", a.Err())
	coordtest.End(a)
}

// lateContext blocks the caller that waits for it until reads is closed.
type lateContext struct {
	context.Context
	reads chan struct{}
}

func (c lateContext) Done() <-chan struct{} {
	<-c.reads
	return c.Context.Done()
}

// The faults of a semaphore, and how they are reported.

// TestAPermitThatMayNotBeTaken leaves nothing behind.
func TestAPermitThatMayNotBeTaken(t *testing.T) {
	forEach(t, map[string]func(zktest.Request) bool{
		"the size":   func(r zktest.Request) bool { return r.Op == zktest.OpGetData && r.Path == semSize },
		"the leases": func(r zktest.Request) bool { return r.Op == zktest.OpGetData && r.Path == semLeases },
		"to enter":   func(r zktest.Request) bool { return r.Op == zktest.OpMulti && len(r.Parts) > 2 },
	}, func(t *testing.T, srv *zktest.Server, denied func(zktest.Request) bool) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 2)
		strike(srv, zktest.Fail(zktest.NoAuth), denied)
		expectError(t, coordtest.EndOf(t, s.Acquire(t.Context())), coordinator.ErrNoAuth, "the acquisition ended")
		wantNothing(t, srv)
		srv.Intercept(nil)
		coordtest.Soon(t, take(t, s, 2)[0])
		expectEqual(t, len(srv.Children(semLeases)), 2, "leases of two permits")
	})
}

// TestAPermitOutOfTurnIsSeenInTime:
//
//  1. The first in the queue reads the leases.
//  2. Another client creates a lease. Curator's InterProcessSemaphoreV2 does so if its
//     session ended while it created a lease: it retries in the next session.
//  3. The first counts once more, gives way, and takes its permit once that lease is
//     gone.
//
// The same holds if the answer to its transaction is lost, and if the directory of the
// leases is not ours.
func TestAPermitOutOfTurnIsSeenInTime(t *testing.T) {
	const stray = semLeases + "/_c_00000000-0000-4000-8000-000000000000-lease-9999999999"
	type row struct {
		theirs, lost bool
		options      []coordinator.AcquireOption
	}
	forEach(t, map[string]row{
		"in our directory": {}, "in theirs": {theirs: true}, "the answer is lost": {lost: true},
		"a try": {options: []coordinator.AcquireOption{coordinator.Try()}},
	}, func(t *testing.T, srv *zktest.Server, x row) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 1)
		if x.theirs {
			eventstest.Must(t, srv.Create(semPath, nil))
			eventstest.Must(t, srv.Create(semLeases, nil))
		}
		coordtest.End(take(t, s, 1)[0]) // from here on the directories exist, and are known
		action := zktest.Pass()
		if x.lost {
			action = zktest.CutAfter()
		}
		strike(srv, action, func(r zktest.Request) bool {
			return r.Op == zktest.OpMulti && len(r.Parts) > 2 && srv.Create(stray, nil) == nil
		})
		a := s.Acquire(t.Context(), x.options...)
		time.Sleep(5 * time.Second)
		if got := srv.Children(semLeases); a.Valid() || len(got) != 1 || !strings.HasSuffix(stray, got[0]) {
			t.Fatalf("beside a lease out of turn it holds: %v; the leases are %v, want the other one", a.Valid(), got)
		}
		if x.options != nil {
			expectError(t, coordtest.EndOf(t, a), coordinator.ErrNotAcquired, "the try ends")
			return
		}
		srv.Intercept(nil)
		eventstest.Must(t, srv.Delete(stray))
		coordtest.Soon(t, a)
		coordtest.End(a)
		wantNothing(t, srv)
	})
}

// The costs of a semaphore, counted as in cost_test.go.

// warmPermits makes each coordinator hold a permit, so that it knows that the queue's
// directory is ours.
func warmPermits(t *testing.T, size int, cs ...*coordinator.Coordinator) {
	t.Helper()
	for range 2 {
		for _, c := range cs {
			holdAgainAndAgain(t, c.Semaphore(semPath, size), 1)
		}
	}
}

// TestAFreePermitTakesOneRoundTrip, for any number of permits, and their release another
// one. A session that knows that the semaphore is busy does not try.
func TestAFreePermitTakesOneRoundTrip(t *testing.T) {
	const cycles, size, lag = 100, 5, 10 * time.Millisecond
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 2)
		warmPermits(t, size, cs...)
		for _, permits := range []int{1, 3} {
			cycle := func() (granted, released time.Duration) {
				start := time.Now()
				a, _ := coordtest.HoldReal(t, cs[0].Semaphore(semPath, size), coordinator.Permits(permits))
				granted = time.Since(start)
				coordtest.End(a)
				return granted, time.Since(start) - granted
			}
			before := coordtest.Total(ms)
			for range cycles {
				cycle()
			}
			n := coordtest.Total(ms).Minus(before)
			expect(t, n.Requests == 2*cycles && n.Events == 0, "%d cycles of %d permits took %+v, want 2 each",
				cycles, permits, n)
			ms[0].Lag(faultnet.Up, lag)
			granted, released := cycle()
			expect(t, granted == lag && released == lag, "%d permits granted after %v, given back after %v, want %v",
				permits, granted, released, lag)
			ms[0].Lag(faultnet.Up, 0)
		}
		take(t, cs[0].Semaphore(semPath, size), size)
		for i, want := range []int{7, 6} { // at first the session expects free permits
			before := ms[1].Read().Requests
			waiting := cs[1].Semaphore(semPath, size).Acquire(t.Context())
			time.Sleep(time.Second)
			expectEqual(t, ms[1].Read().Requests-before, want, "requests of wait %d", i)
			coordtest.End(waiting)
		}
	})
}

// TestPermitsThatAreGivenBack: a contender that expects a free semaphore but finds a
// waiter never holds, and no queue shows it as a holder.
func TestPermitsThatAreGivenBack(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 3)
		warmPermits(t, 2, cs...)
		held := take(t, cs[0].Semaphore(semPath, 2), 1)
		waiting := cs[1].Semaphore(semPath, 2).Acquire(t.Context(), coordinator.Permits(2))
		time.Sleep(time.Second)
		ms[2].Lag(faultnet.Down, 10*time.Second)
		late := cs[2].Semaphore(semPath, 2).Acquire(t.Context())
		time.Sleep(time.Second) // its permit exists, but its session does not know yet
		expectEqual(t, len(srv.Children(semLeases)), 2, "permits, with one to be given back")
		queue, err := cs[0].Semaphore(semPath, 2).Queue(t.Context())
		expect(t, err == nil && len(queue) == 2 && queue[0].Holding && !queue[1].Holding,
			"the queue is %+v, %v; want one holder and one that waits", queue, err)
		ms[2].Lag(faultnet.Down, 0)
		time.Sleep(20 * time.Second)
		coordtest.End(held[0])
		coordtest.GrantOf(t, waiting)
		expect(t, !late.Valid(), "a latecomer holds beside a contender that has all permits")
		coordtest.End(waiting)
		coordtest.GrantOf(t, late)
	})
}

// TestAReturnedPermitWakesTheFirst of many waiters, and the second, at the same cost as
// in a short queue.
func TestAReturnedPermitWakesTheFirst(t *testing.T) {
	const permits, rounds = 11, 10
	for _, sessions := range []int{1, 5} {
		var costs []coordtest.Count
		for _, waiters := range []int{20, eventstest.Amount(300, 1000)} {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				cs, ms := coordtest.Metered(t, srv, sessions)
				warmPermits(t, permits, cs...)
				var all []*coordinator.Acquisition
				for i := range permits + waiters {
					all = append(all, take(t, cs[i%sessions].Semaphore(semPath, permits), 1)...)
				}
				all[0].Release() // the first in the queue did not wait for a release
				synctest.Wait()
				before := coordtest.Total(ms)
				for i := range rounds {
					all[1+i].Release()
					synctest.Wait()
					if next := all[permits+1+i]; !next.Valid() || all[permits+2+i].Valid() {
						t.Fatalf("round %d: want %d to hold, and not %d", i, permits+1+i, permits+2+i)
					}
				}
				costs = append(costs, coordtest.Total(ms).Minus(before))
			})
		}
		t.Logf("%d sessions: %d rounds behind 20 and behind many: %+v", sessions, rounds, costs)
		for i, c := range costs {
			c.Bytes = costs[0].Bytes
			expect(t, c == costs[0] && c.Events <= 3*rounds && c.Requests <= 12*rounds, "%d sessions, queue %d: %+v, "+
				"want as in queue 0, %d events and %d requests at most", sessions, i, c, 3*rounds, 12*rounds)
		}
	}
}

// TestATransactionNeedsAllPermits, not only the first one.
func TestATransactionNeedsAllPermits(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, grant := coordtest.Hold(t, coordtest.Connect(t, srv).Semaphore(semPath, 2), coordinator.Permits(2))
		create := &zk.CreateRequest{Path: "/x", Acl: zk.WorldACL(zk.PermAll)}
		for _, permit := range srv.Children(semLeases) {
			if permit != path.Base(grant.Node) {
				eventstest.Must(t, srv.Delete(semLeases+"/"+permit))
			}
		}
		_, err := a.Txn(t.Context(), create)
		lost := new(coordinator.LostError)
		expect(t, errors.As(err, &lost) && !srv.Exists("/x"), "Txn = %v, and its node exists: %v; want a loss, and nothing written", err, srv.Exists("/x"))
	})
}

// TestNoPermitStays: the reply to the request that took permits is lost, and a server
// refuses to read them.
func TestNoPermitStays(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		sem := coordtest.Connect(t, srv).Semaphore(semPath, 3)
		holdAgainAndAgain(t, sem, 1)
		lost := 0
		srv.Intercept(func(q zktest.Request) zktest.Action {
			switch {
			case q.Op == zktest.OpMulti && lost == 0:
				lost++
				return zktest.CutAfter()
			case q.Op == zktest.OpGetData && lost > 0 && path.Dir(q.Path) == semLeases:
				return zktest.Fail(zktest.NoAuth)
			}
			return zktest.Pass()
		})
		err := coordtest.EndOf(t, sem.Acquire(t.Context(), coordinator.Permits(2)))
		expect(t, errors.Is(err, coordinator.ErrNoAuth) && lost == 1, "%v, and %d replies were lost; want ErrNoAuth and one", err, lost)
		synctest.Wait()
		waiters, permits := srv.Children(semQueue), srv.Children(semLeases)
		expect(t, len(waiters)+len(permits) == 0, "left are the waiters %q and the permits %q, want none", waiters, permits)
		srv.Intercept(nil)
		coordtest.Hold(t, sem, coordinator.Permits(3))
	})
}
