package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// How cached locks end: by a release after which the node goes, by a wish, and by Close.

// TestANodeOfAnUnknownOutcomeIsNotHandedOn: the transaction may still be executed.
func TestANodeOfAnUnknownOutcomeIsNotHandedOn(t *testing.T) {
	set := &zk.SetDataRequest{Path: "/ledger", Data: []byte("x"), Version: -1}
	for name, c := range map[string]struct {
		op   any
		fate zktest.Action
		want error
		goes bool
	}{
		"transaction":         {set, zktest.Pass(), nil, false},
		"refused transaction": {&zk.DeleteRequest{Path: "/nothing", Version: -1}, zktest.Pass(), zk.ErrNoNode, false},
		"unknown outcome":     {set, zktest.CutAfter(), coordinator.ErrOutcomeUnknown, true},
	} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			eventstest.Must(t, srv.Create("/ledger", nil))
			l := kept(t, coordtest.Connect(t, srv))
			a, g := coordtest.Hold(t, l)
			waits := waiters(l, 2)
			onEach(srv, c.fate, zktest.OpMulti)
			_, err := a.Txn(t.Context(), c.op)
			srv.Intercept(nil)
			expectError(t, err, c.want, "the transaction")
			time.Sleep(2 * time.Second)
			coordtest.NotLost(t, a)
			coordtest.End(a)
			for _, next := range inTurn(t, g, waits...) {
				expect(t, (next.Token != g.Token) == c.goes,
					"after %+v %+v is granted, want another node: %v", g, next, c.goes)
			}
		})
	}
}

// TestATransactionThatIsUnderWayDelaysTheNextTurn until it is answered.
func TestATransactionThatIsUnderWayDelaysTheNextTurn(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		eventstest.Must(t, srv.Create("/ledger", nil))
		l := kept(t, coordtest.Connect(t, srv))
		a, g := coordtest.Hold(t, l)
		next := coordtest.Queue(l)
		onEach(srv, zktest.Delay(500*time.Millisecond), zktest.OpMulti)
		answered := make(chan error, 1)
		go func() {
			_, err := a.Txn(t.Context(), &zk.SetDataRequest{Path: "/ledger", Data: []byte("x"), Version: -1})
			answered <- err
		}()
		synctest.Wait()
		a.Release()
		time.Sleep(400 * time.Millisecond)
		expect(t, !next.Valid(), "the next turn is granted while a transaction of the one before is under way")
		eventstest.Must(t, <-answered)
		got := coordtest.Soon(t, next)
		expect(t, got.Token == g.Token, "after the answer %+v is granted, want the next turn of the node", got)
	})
}

// TestACachedLockIsAskedBack: the node goes with the holder's release, and at once if it
// is idle.
func TestACachedLockIsAskedBack(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		l := kept(t, c, coordinator.Revocable())
		a, g := coordtest.Hold(t, l)
		next := coordtest.Queue(l)
		done := revoking(t.Context(), operator, grace)
		r := eventstest.Receive(t, a.Revoked(), "the wish")
		expect(t, r.ID == a.ID(), "the holder is told %+v, want its own number %d", r, a.ID())
		coordtest.End(a)
		eventstest.Must(t, <-done)
		got := inTurn(t, g, next)[0]
		expect(t, got.Token > g.Token,
			"after the wish %+v is granted, want another node than that of %+v", got, g)

		for range 3 {
			g = cycle(t, l)
		}
		began := time.Now()
		eventstest.Must(t, <-revoking(t.Context(), operator, grace))
		expect(t, time.Since(began) <= time.Second && !srv.Exists(g.Node),
			"an idle node is given back after %v, there: %v; want it to go at once",
			time.Since(began), srv.Exists(g.Node))

		late, _ := coordtest.Hold(t, l)
		done = revoking(t.Context(), operator, grace)
		time.Sleep(grace + time.Second)
		lost := coordtest.LossOf(t, late)
		expect(t, lost.Reason == events.ReasonRevoked,
			"a holder that does not give it back is told %+v, want a revocation", lost)
		eventstest.Must(t, <-done)
	})
}

// TestCloseGivesCachedLocksBack at once, or when the function under the lock has returned.
func TestCloseGivesCachedLocksBack(t *testing.T) {
	for _, state := range []string{"idle", "resting", "held", "waited for", "behind a stranger", "with a function"} {
		coordtest.Case(t, state, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			var paths []string
			for i := range 20 {
				paths = append(paths, fmt.Sprint("/many/", i))
				idle := c.Mutex(paths[i], coordinator.Cached())
				cycle(t, idle)
				cycle(t, idle)
			}
			l := kept(t, c)
			var all []*coordinator.Acquisition
			left, most := 0, 100*time.Millisecond
			switch state {
			case "resting":
				time.Sleep(10 * time.Second)
			case "held":
				all = waiters(l, 1)
			case "waited for":
				all = waiters(l, 6)
			case "behind a stranger":
				outsider(t, srv)
				left, all = 1, waiters(l, 5)
			case "with a function":
				most += time.Second
				go func() {
					_ = l.Do(context.Background(), func(ctx context.Context, _ events.Grant) error {
						<-ctx.Done()
						time.Sleep(time.Second)
						expect(t, len(nodesBelow(srv, lockPath)) > 0, "the node is gone while the function runs")
						return nil
					})
				}()
				synctest.Wait()
				all = waiters(l, 3)
			}
			began := time.Now()
			eventstest.Check(t, c.Shutdown(context.Background()))
			expect(t, time.Since(began) <= most, "Shutdown took %v, want %v at most", time.Since(began), most)
			for _, a := range append(all, l.Acquire(t.Context())) {
				expect(t, coordtest.IsClosed(a.Done()), "after Shutdown an acquisition is not over")
				expectError(t, a.Err(), coordinator.ErrClosed, "after Shutdown")
			}
			wantNodes(t, srv, left, "after Shutdown")
			expect(t, len(nodesBelow(srv, paths...)) == 0, "after Shutdown %v is left", nodesBelow(srv, paths...))
		})
	}
}

// TestAWaiterOfACachedLockHoldsNothing: the queue shows the one node, and that it is
// cached.
func TestAWaiterOfACachedLockHoldsNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv))
		_, g := coordtest.Hold(t, l)
		w := coordtest.Queue(l)
		queue, err := l.Queue(t.Context())
		eventstest.Must(t, err)
		expect(t, len(queue) == 1 && queue[0].Cached && queue[0].Holding && queue[0].Token == g.Token,
			"the queue is %+v; want one contender that holds and is cached", queue)
		ahead, ok := w.Position()
		expect(t, !ok || ahead > 0, "the waiter has %d ahead", ahead)
		expect(t, !w.Valid() && w.Deadline().IsZero() && w.Grant().Node == "" && w.Err() == nil,
			"valid %v, deadline %v, Grant %+v, Err %v; want none of it", w.Valid(), w.Deadline(), w.Grant(), w.Err())
	})
}

// TestDoUnderACachedLock: a panic gives the lock to the next one, as a return does.
func TestDoUnderACachedLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv))
		traffic := coordtest.Traffic(srv)
		for _, want := range []error{nil, errors.New("failed"), nil} {
			err := l.Do(t.Context(), func(context.Context, events.Grant) error { return want })
			expectError(t, err, want, "Do")
			func() {
				defer func() { expect(t, recover() == "boom", "Do does not panic as its function does") }()
				_ = l.Do(t.Context(), func(context.Context, events.Grant) error { panic("boom") })
			}()
		}
		expect(t, traffic.Load() == 0, "6 functions took %d requests, want none", traffic.Load())
	})
}

// How a cached lock ends when its node, its session or its connection is lost.

// losses are ways to lose a node, with the reasons that holders are told.
var losses = map[string]struct {
	lose    func(t *testing.T, srv *zktest.Server, held events.Grant)
	options []coordinator.Option
	want    error
}{
	"deleted": {func(t *testing.T, srv *zktest.Server, held events.Grant) {
		eventstest.Must(t, srv.Delete(held.Node))
	}, nil, coordinator.ErrNodeRemoved},
	"expired": {func(t *testing.T, srv *zktest.Server, held events.Grant) {
		eventstest.Must(t, srv.Expire(held.Session))
	}, nil, coordinator.ErrSessionExpired},
	"lease": {func(_ *testing.T, srv *zktest.Server, held events.Grant) {
		srv.Mute(held.Session, true)
		time.Sleep(8 * time.Second)
	}, nil, coordinator.ErrLeaseRanOut},
	"suspended": {func(_ *testing.T, srv *zktest.Server, held events.Grant) {
		srv.Cut(held.Session)
	}, []coordinator.Option{coordinator.WithLossOnSuspend()}, coordinator.ErrSuspended},
}

// TestALostNodeIsNotHandedOn: the holder is told, and the waiters get another node.
func TestALostNodeIsNotHandedOn(t *testing.T) {
	for name, loss := range losses {
		for also, wanted := range map[string]bool{"": false, ", wanted": true} {
			coordtest.Case(t, name+also, func(t *testing.T, srv *zktest.Server) {
				l := kept(t, coordtest.Connect(t, srv, loss.options...))
				a, g := coordtest.Hold(t, l)
				time.Sleep(3 * time.Second) // its node is watched by then
				waiting := waiters(l, 3)
				var other *coordinator.Acquisition
				if wanted {
					other = coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
				}
				loss.lose(t, srv, g)
				synctest.Wait()
				lost := coordtest.LossOf(t, a)
				expectError(t, lost.Err, loss.want, "the loss")
				expect(t, lost.Token == g.Token && lost.ID == a.ID(), "told %+v, want that %v is lost", lost, g)
				expectError(t, coordtest.EndOf(t, a), loss.want, "the end")
				expect(t, !a.Valid(), "the lost lock is valid")
				for i, w := range waiting {
					expect(t, !w.Valid() || w.Grant().Node != g.Node,
						"waiter %d holds under the node that was lost", i)
				}
				srv.Mute(g.Session, false)
				if wanted {
					next := coordtest.GrantOf(t, other)
					expect(t, later(next, g), "after %+v the other contender is granted %+v", g, next)
					coordtest.End(other)
				}
				coordtest.GrantOf(t, waiting[0])
				for _, next := range inTurn(t, g, waiting...) {
					expect(t, next.Token != g.Token,
						"after %+v a waiter is granted %+v, want another node", g, next)
				}
			})
		}
	}
}

// TestAnIdleNodeIsLostInSilence: without an event or a warning.
func TestAnIdleNodeIsLostInSilence(t *testing.T) {
	for name, loss := range losses {
		for _, idle := range []time.Duration{0, 10 * time.Second} {
			coordtest.Case(t, name+", "+idle.String(), func(t *testing.T, srv *zktest.Server) {
				core, logs := observer.New(zap.WarnLevel)
				c := coordtest.Connect(t, srv, append(loss.options[:len(loss.options):len(loss.options)],
					coordinator.WithLogger(zap.New(core)))...)
				l := kept(t, c)
				g := cycle(t, l)
				time.Sleep(idle)
				stream := c.Events(t.Context())
				loss.lose(t, srv, g)
				synctest.Wait()
				srv.Mute(g.Session, false)
				if name != "deleted" { // of which the session hears at once
					time.Sleep(time.Second)
				}
				for _, ev := range told(stream) {
					switch ev.(type) {
					case events.Lost, events.Ended, events.Grant:
						t.Errorf("the stream says %#v, want nothing of a lock", ev)
					}
				}
				for _, entry := range logs.All() {
					if entry.ContextMap()["holders"] != nil || entry.ContextMap()["lock"] != nil {
						t.Errorf("the log says %q with %v", entry.Message, entry.ContextMap())
					}
				}
				a := l.Acquire(t.Context())
				next := coordtest.GrantOf(t, a)
				expect(t, later(next, g) && (next.Token > g.Token || name == "lease" || name == "suspended"),
					"after %+v the next one is granted %+v", g, next)
			})
		}
	}
}

// TestALostNodeWithAFunctionUnderIt stays until the function returns.
func TestALostNodeWithAFunctionUnderIt(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv, coordinator.WithLossOnSuspend()))
		entered, finish, left := make(chan events.Grant, 1), make(chan struct{}), make(chan error, 1)
		go func() {
			left <- l.Do(context.Background(), func(_ context.Context, g events.Grant) error {
				entered <- g
				<-finish
				return nil
			})
		}()
		g := <-entered
		next := coordtest.Queue(l)
		srv.Cut(g.Session)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		expect(t, !next.Valid() && srv.Exists(g.Node),
			"while the function runs the next one is valid: %v, and the node there: %v",
			next.Valid(), srv.Exists(g.Node))
		wantNodes(t, srv, 2, "while the function runs, its own and that of the next")
		close(finish)
		expectError(t, <-left, coordinator.ErrSuspended, "Do")
		got := inTurn(t, g, next)[0]
		expect(t, got.Token > g.Token, "the next one is granted %+v after %+v, want another node", got, g)
	})
}

// TestAnOutageOfACachedLock: a holder keeps it, and no turn is granted until it is over.
func TestAnOutageOfACachedLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv))
		a, g := coordtest.Hold(t, l)
		waits := waiters(l, 2)
		srv.Down(true)
		synctest.Wait()
		coordtest.End(a)
		synctest.Wait()
		expect(t, !waits[0].Valid(), "without a connection a waiter is granted the turn")
		waits = append(waits, coordtest.Queue(l))
		time.Sleep(2 * time.Second)
		expect(t, !waits[0].Valid() && !waits[2].Valid(),
			"without a connection a waiter is granted the turn after a while")
		srv.Down(false)
		inTurn(t, g, waits...)
		held, g := coordtest.Hold(t, l)
		srv.Cut(g.Session)
		time.Sleep(2 * time.Second)
		coordtest.NotLost(t, held)
	})
}

// TestNoTurnIsGrantedWithoutProof that no other contender has come.
func TestNoTurnIsGrantedWithoutProof(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv).Mutex(lockPath)
		l := kept(t, c, coordinator.Cached(coordinator.CacheHandoffs(0)))
		a, g := coordtest.Hold(t, l)
		waits := coordtest.Queue(l)
		srv.Mute(g.Session, true) // the connection stays
		next := coordtest.Queue(other)
		time.Sleep(2500 * time.Millisecond)
		coordtest.NotLost(t, a) // it is less than half of the lease
		coordtest.End(a)
		synctest.Wait()
		expect(t, !waits.Valid(), "a turn is granted two intervals and a half after the last answer, want none")
		time.Sleep(time.Second)
		srv.Mute(g.Session, false)
		time.Sleep(30 * time.Second)
		expect(t, next.Valid(), "the other contender does not hold, want it before the waiter")
		last := next.Grant()
		coordtest.End(next)
		w := coordtest.GrantOf(t, waits)
		expect(t, w.Token > last.Token, "the waiter is granted %+v after %+v", w, last)
	})
}

// TestACachedLockFarFromItsServers is granted like any other lock, also if a round trip
// takes more than two probe intervals: then no answered write is recent.
func TestACachedLockFarFromItsServers(t *testing.T) {
	for name, c := range map[string]struct {
		trip    time.Duration
		options []coordinator.Option
	}{
		"150 ms, a probe every 50 ms": {150 * time.Millisecond,
			[]coordinator.Option{coordinator.WithProbeInterval(50 * time.Millisecond)}},
		"2.1 s, by default": {2100 * time.Millisecond, nil},
	} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			conn := coordtest.Connect(t, srv, c.options...)
			l := kept(t, conn)
			time.Sleep(time.Second / 2)
			srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(c.trip) })
			defer srv.Intercept(nil)
			locks := [...]*coordinator.Lock{conn.Mutex("/plain"), l, l}
			for i, lock := range locks {
				ctx, cancel := context.WithTimeout(t.Context(), 10*c.trip)
				began := time.Now()
				a, err := lock.Hold(ctx)
				cancel()
				if err != nil {
					t.Fatalf("lock %d: %v after %v, want the Grant after a few round trips", i, err, time.Since(began))
				}
				coordtest.End(a)
			}
		})
	}
}

// TestARefusedArmCostsTheNodeOnly: if the directory may not be read, nothing is cached.
func TestARefusedArmCostsTheNodeOnly(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := cachedAt(coordtest.Connect(t, srv))
		last := cycle(t, l)
		onEach(srv, zktest.Fail(zktest.NoAuth), zktest.OpGetChildren, zktest.OpGetChildren2)
		for range 5 {
			g := cycle(t, l)
			expect(t, later(g, last) && g.Turn == 0,
				"granted %+v after %+v, want a node of its own each time", g, last)
			last = g
			wantNodes(t, srv, 0, "after the release")
		}
	})
}
