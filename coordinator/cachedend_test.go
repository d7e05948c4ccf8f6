package coordinator_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// How cached locks end: by a release, a revocation request, or Close. If another
// contender queues, it gets the lock after a bounded number of handoffs.

// TestANodeOfAnUnknownOutcomeIsNotHandedOn: the transaction of unknown outcome may still
// be executed.
func TestANodeOfAnUnknownOutcomeIsNotHandedOn(t *testing.T) {
	set := &zk.SetDataRequest{Path: "/ledger", Data: []byte("x"), Version: -1}
	type row struct {
		op   any
		fate zktest.Action
		want error
		goes bool
	}
	forEach(t, map[string]row{
		"transaction":         {set, zktest.Pass(), nil, false},
		"refused transaction": {&zk.DeleteRequest{Path: "/nothing", Version: -1}, zktest.Pass(), zk.ErrNoNode, false},
		"unknown outcome":     {set, zktest.CutAfter(), coordinator.ErrOutcomeUnknown, true},
	}, func(t *testing.T, srv *zktest.Server, c row) {
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
			expect(t, (next.Token != g.Token) == c.goes, "%+v after %+v, want another node: %v", next, g, c.goes)
		}
	})
}

// TestATransactionThatIsUnderWayDelaysTheNextTurn until it is answered.
func TestATransactionThatIsUnderWayDelaysTheNextTurn(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		eventstest.Must(t, srv.Create("/ledger", nil))
		l := kept(t, coordtest.Connect(t, srv))
		a, g := coordtest.Hold(t, l)
		next := coordtest.Queue(l)
		onEach(srv, zktest.Delay(500*time.Millisecond), zktest.OpMulti)
		set := &zk.SetDataRequest{Path: "/ledger", Data: []byte("x"), Version: -1}
		answered := inBackground(func() error { return txnErr(a.Txn(t.Context(), set)) })
		synctest.Wait()
		a.Release()
		time.Sleep(400 * time.Millisecond)
		expect(t, !next.Valid(), "the next turn is granted while a transaction of the one before is under way")
		eventstest.Must(t, <-answered)
		expectEqual(t, coordtest.Soon(t, next).Token, g.Token, "after the answer, the token of the next turn")
	})
}

// TestACachedLockIsRevoked: a revocation request deletes an idle node at once, and a
// held one at the release.
func TestACachedLockIsRevoked(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, operator := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		l := kept(t, c, coordinator.Revocable())
		a, g := coordtest.Hold(t, l)
		next := coordtest.Queue(l)
		done := revoking(t.Context(), operator, grace)
		r := eventstest.Receive(t, a.Revoked(), "the revocation")
		expect(t, r.ID == a.ID(), "the holder is told %+v, want its own number %d", r, a.ID())
		coordtest.End(a)
		eventstest.Must(t, <-done)
		got := inTurn(t, g, next)[0]
		expect(t, got.Token > g.Token, "%+v is granted after %+v, want another node", got, g)

		for range 3 {
			g = cycle(t, l)
		}
		began := time.Now()
		eventstest.Must(t, <-revoking(t.Context(), operator, grace))
		expect(t, time.Since(began) <= time.Second, "an idle node is given back after %v", time.Since(began))
		expect(t, !srv.Exists(g.Node), "an idle node that was asked back is there, want it gone")

		late, _ := coordtest.Hold(t, l)
		done = revoking(t.Context(), operator, grace)
		time.Sleep(grace + time.Second)
		expectEqual(t, coordtest.LossOf(t, late).Reason, events.ReasonRevoked, "the reason of the loss")
		eventstest.Must(t, <-done)
	})
}

// TestCloseGivesCachedLocksBack at once, or when the function under the lock has
// returned.
func TestCloseGivesCachedLocksBack(t *testing.T) {
	for state, waiting := range map[string]int{
		"idle": 0, "resting": 0, "held": 1, "waited for": 6, "behind a stranger": 5, "with a function": 3,
	} {
		coordtest.Case(t, state, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			paths := pathsOf(20)
			for _, path := range paths {
				keep(t, c.Mutex(path, coordinator.Cached()))
			}
			l := kept(t, c)
			left, most := 0, 100*time.Millisecond
			switch state {
			case "resting":
				time.Sleep(10 * time.Second)
			case "behind a stranger":
				outsider(t, srv)
				left = 1
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
			}
			all, began := waiters(l, waiting), time.Now()
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

// How a cached lock ends when its node, its session or its connection is lost.

// losses maps each way to lose a node to the reason that its holder receives.
var losses = map[string]struct {
	lose    func(srv *zktest.Server, held events.Grant)
	options []coordinator.Option
	want    error
}{
	"deleted": {func(s *zktest.Server, g events.Grant) {
		_ = s.Delete(g.Node)
	}, nil, coordinator.ErrNodeRemoved},
	"expired": {func(s *zktest.Server, g events.Grant) {
		_ = s.Expire(g.Session)
	}, nil, coordinator.ErrSessionExpired},
	"lease": {func(s *zktest.Server, g events.Grant) {
		s.Mute(g.Session, true)
		time.Sleep(8 * time.Second)
	}, nil, coordinator.ErrLeaseRanOut},
	"suspended": {func(s *zktest.Server, g events.Grant) {
		s.Cut(g.Session)
	}, []coordinator.Option{coordinator.WithLossOnSuspend()}, coordinator.ErrSuspended},
}

// TestALostNodeIsNotHandedOn: the holder receives the loss, and the waiters get another
// node.
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
				loss.lose(srv, g)
				synctest.Wait()
				lost := coordtest.LossOf(t, a)
				expectError(t, lost.Err, loss.want, "the loss")
				expect(t, lost.Token == g.Token && lost.ID == a.ID(), "told %+v, want that %v is lost", lost, g)
				expectError(t, coordtest.EndOf(t, a), loss.want, "the end")
				expect(t, !a.Valid(), "the lost lock is valid")
				for i, w := range waiting {
					expect(t, !w.Valid() || w.Grant().Node != g.Node, "waiter %d holds under the lost node", i)
				}
				srv.Mute(g.Session, false)
				if wanted {
					next := coordtest.GrantOf(t, other)
					expect(t, later(next, g), "after %+v the other contender is granted %+v", g, next)
					coordtest.End(other)
				}
				coordtest.GrantOf(t, waiting[0])
				for _, next := range inTurn(t, g, waiting...) {
					expect(t, next.Token != g.Token, "%+v is granted after %+v, want another node", next, g)
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
				c, logs := logged(t, srv, zap.WarnLevel, loss.options...)
				l := kept(t, c)
				g := cycle(t, l)
				time.Sleep(idle)
				stream := c.Events(t.Context())
				loss.lose(srv, g)
				synctest.Wait()
				srv.Mute(g.Session, false)
				if name != "deleted" { // the session notices this at once
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
				next := coordtest.GrantOf(t, l.Acquire(t.Context()))
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
		entered, finish := make(chan events.Grant, 1), make(chan struct{})
		left := inBackground(func() error {
			return l.Do(context.Background(), func(_ context.Context, g events.Grant) error {
				entered <- g
				<-finish
				return nil
			})
		})
		g := <-entered
		next := coordtest.Queue(l)
		srv.Cut(g.Session)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		expect(t, !next.Valid() && srv.Exists(g.Node), "while it runs the next one holds: %v", next.Valid())
		wantNodes(t, srv, 2, "while the function runs, its own and that of the next")
		close(finish)
		expectError(t, <-left, coordinator.ErrSuspended, "Do")
		got := inTurn(t, g, next)[0]
		expect(t, got.Token > g.Token, "%+v is granted after %+v, want another node", got, g)
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
		waits = append(waits, coordtest.Queue(l))
		for _, while := range []time.Duration{0, 2 * time.Second} {
			time.Sleep(while)
			expect(t, !waits[0].Valid() && !waits[2].Valid(), "without a connection a waiter is granted the turn")
		}
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
		expect(t, !waits.Valid(), "a turn is granted 2.5 intervals after the last answer, want none")
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
	const trip = 2100 * time.Millisecond
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		l := kept(t, c)
		time.Sleep(time.Second / 2)
		srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(trip) })
		for _, lock := range []*coordinator.Lock{c.Mutex("/plain"), l, l} {
			a, err := lock.Hold(within(t, 10*trip))
			eventstest.Must(t, err)
			coordtest.End(a)
		}
	})
}

// TestARefusedArmCostsTheNodeOnly: if the directory may not be read, nothing is cached.
func TestARefusedArmCostsTheNodeOnly(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := cachedAt(coordtest.Connect(t, srv))
		last := cycle(t, l)
		onEach(srv, zktest.Fail(zktest.NoAuth), zktest.OpGetChildren, zktest.OpGetChildren2)
		for range 5 {
			g := cycle(t, l)
			expect(t, later(g, last) && g.Turn == 0, "%+v is granted after %+v, want a node of its own", g, last)
			last = g
			wantNodes(t, srv, 0, "after the release")
		}
	})
}

// handsOn releases each holder after the given time and acquires again for it, until over
// reports true. It returns how many waiters had their turn.
func handsOn(
	t *testing.T, l *coordinator.Lock, holds time.Duration, over func() bool, all []*coordinator.Acquisition,
) int {
	t.Helper()
	for n := range 200 {
		holder := slices.IndexFunc(all, (*coordinator.Acquisition).Valid)
		if holder < 0 {
			t.Fatalf("after %d handoffs the lock has no holder", n)
		}
		time.Sleep(holds)
		a := all[holder]
		all = append(slices.Delete(all, holder, holder+1), l.Acquire(context.Background()))
		coordtest.End(a)
		if synctest.Wait(); over() {
			return n
		}
	}
	t.Fatal("after 200 handoffs it is not over")
	return 0
}

// ask returns an acquisition that cannot use the node of the coordinator's cached lock.
func ask(c *coordinator.Coordinator, what string) *coordinator.Acquisition {
	data := map[string][]byte{"other data": []byte("other"), "large data": make([]byte, 5000)}[what]
	lock := map[string]handle{
		"mutex": c.Mutex(lockPath), "read": c.ReadWrite(lockPath).Read(), "election": c.Election(lockPath),
		"other terms": cachedAt(c, coordinator.CacheHandoffs(7)), "other data": cachedAt(c),
		"multi": c.Multi(c.Mutex("/another"), c.Mutex(lockPath)), "large data": cachedAt(c),
	}[what]
	defer synctest.Wait()
	return lock.Acquire(context.Background(), coordinator.Data(data))
}

// TestAnotherContenderGetsACachedLockInTime, after the allowed handoffs, whatever its
// kind.
func TestAnotherContenderGetsACachedLockInTime(t *testing.T) {
	long, many := coordinator.CacheFor(time.Hour), coordinator.CacheHandoffs(1<<20)
	type terms = []coordinator.LockOption
	for name, c := range map[string]struct {
		terms terms
		holds time.Duration
		want  int
	}{
		"3 handoffs":    {terms{coordinator.CacheHandoffs(3), long}, 0, 3},
		"no handoffs":   {terms{coordinator.CacheHandoffs(0), long}, 0, 0},
		"by default":    {terms{nil}, 0, 64},
		"50 ms":         {nil, 12 * time.Millisecond, 4},
		"a second":      {terms{coordinator.CacheFor(time.Second), many}, 300 * time.Millisecond, 3},
		"no time":       {terms{coordinator.CacheFor(0), many}, 0, 0},
		"longer probes": {terms{coordinator.CacheFor(time.Minute), many}, 7 * time.Second, 8},
	} {
		for _, who := range []string{"another library", "another session", "mutex", "other terms", "multi"} {
			coordtest.Case(t, name+", "+who, func(t *testing.T, srv *zktest.Server) {
				ours, theirs := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				l := kept(t, ours, coordinator.Cached(c.terms...))
				holder, grant := coordtest.Hold(t, l)
				waiting := waiters(l, 70)
				var other *coordinator.Acquisition
				there := func() bool { return other.Valid() }
				most := c.want
				switch who {
				case "another library":
					node := outsider(t, srv)
					there = func() bool { return srv.Exists(node) && !srv.Exists(grant.Node) }
				case "another session":
					other = coordtest.Queue(theirs.Mutex(lockPath))
				default: // waiters that get no more turn may queue up before it
					most += 2 + c.want
					other = ask(ours, who)
				}
				expect(t, !there(), "it holds beside the holder")
				got := handsOn(t, l, c.holds, there, append(waiting, holder))
				expect(t, got >= c.want && got <= most, "%d handoffs come before it, want %d to %d", got, c.want, most)
				if who != "another library" {
					next := other.Grant()
					expect(t, who == "multi" || next.Token > grant.Token, "%+v is granted after %+v", next, grant)
				}
			})
		}
	}
}

// TestAnIdleNodeGoesAtOnce when another contender arrives, which waits for a few round
// trips.
func TestAnIdleNodeGoesAtOnce(t *testing.T) {
	const trip = time.Millisecond
	for _, idle := range []time.Duration{0, 30 * time.Second} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			l, other := kept(t, coordtest.Connect(t, srv)), coordtest.Connect(t, srv).Mutex(lockPath)
			time.Sleep(idle)
			srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(trip) })
			began := time.Now()
			a, g := coordtest.Hold(t, other)
			took := time.Since(began)
			expect(t, took <= 7*trip, "idle for %v, another contender waited for %v", idle, took)
			srv.Intercept(nil)
			coordtest.End(a)
			next := cycle(t, l)
			expect(t, next.Token > g.Token, "the next one is granted %+v after %+v", next, g)
		})
	}
}

// TestALocalContenderIsNotForgottenBeforeItQueuesUp, while the servers do not know it
// yet.
func TestALocalContenderIsNotForgottenBeforeItQueuesUp(t *testing.T) {
	for _, name := range []string{"mutex", "multi", "large data", "other data"} {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			l := kept(t, c, coordinator.Cached(coordinator.CacheHandoffs(0)))
			holder, g := coordtest.Hold(t, l)
			waits := coordtest.Queue(l)
			strike(srv, zktest.Fail(zktest.Throttled), coordtest.Creates)
			other := ask(c, name)
			holder.Release()
			synctest.Wait()
			expect(t, !waits.Valid(), "a waiter has the turn after %+v, and another contender was to queue up", g)
			srv.Intercept(nil)
			for range 2 { // either create may be the first
				time.Sleep(20 * time.Second)
				synctest.Wait()
				first, second := waits.Valid(), other.Valid()
				expect(t, first != second, "the waiter holds: %v, and the other: %v; want one of them", first, second)
				if first {
					coordtest.End(waits)
				} else {
					coordtest.End(other)
				}
			}
			expect(t, waits.Grant().Token > 0 && other.Grant().Token > 0, "one of both was never granted")
		})
	}
}

// TestWantedIsNotForgotten when the other contender leaves and a waiter withdraws.
func TestWantedIsNotForgotten(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		other := coordtest.Connect(t, srv).Mutex(lockPath)
		terms := coordinator.Cached(coordinator.CacheHandoffs(2), coordinator.CacheFor(time.Hour))
		l := kept(t, coordtest.Connect(t, srv), terms)
		all := waiters(l, 7)
		node := coordtest.Soon(t, all[0]).Node
		coordtest.End(coordtest.Queue(other))
		coordtest.End(all[6])
		next := coordtest.Queue(other)
		for i, a := range all[:3] { // the first one and two handoffs; the others have queued up by themselves
			expect(t, a.Valid() && a.Grant().Node == node, "waiter %d holds: %v, want the turn of one node", i, a.Valid())
			coordtest.End(a)
			synctest.Wait()
		}
		expect(t, !srv.Exists(node), "after two handoffs the node is there, want it gone")
		inTurn(t, all[2].Grant(), append(all[3:6:6], next)...)
	})
}

// TestDisplacedWaitersKeepTheirOrder when their node is given up, although there are two
// more nodes of the process.
func TestDisplacedWaitersKeepTheirOrder(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		l := kept(t, c, coordinator.Cached(coordinator.CacheHandoffs(2), coordinator.CacheFor(time.Hour)))
		all := waiters(l, 8)
		coordtest.Soon(t, all[0])
		other := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath)) // two waiters keep their turns, the others get a second node
		coordtest.Queue(c.Mutex(lockPath))                                  // three keep their turns there, the others get a third one
		eventstest.Must(t, all[0].SetData(t.Context(), []byte("new")))      // no other turn may follow under this node
		var places []int
		for _, a := range all[1:] {
			n, _ := a.Position()
			places = append(places, n)
		}
		n := places[3] // the third node may come before the other contender of the process
		expect(t, slices.Equal(places, []int{2, 3, 4, n, n + 1, n + 2, n + 3}) && (n == 3 || n == 4),
			"the positions are %v, want 2, 3 and 4 with the second node, and then 3 to 6, or 4 to 7", places)
		coordtest.End(all[0])
		inTurn(t, all[0].Grant(), append([]*coordinator.Acquisition{other}, all[1:4]...)...)
	})
}

// TestTwoThatAskAgainAndAgain delay another contender by a bounded number of handoffs.
func TestTwoThatAskAgainAndAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		terms := coordinator.Cached(coordinator.CacheHandoffs(5), coordinator.CacheFor(time.Hour))
		l := kept(t, coordtest.Connect(t, srv), terms)
		all := waiters(l, 2)
		other := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		expectEqual(t, handsOn(t, l, 0, other.Valid, all), 5, "handoffs before the other contender")
	})
}

// TestAnIdleNodeBlocksNoLocalAcquisition of another kind: it is granted at once.
func TestAnIdleNodeBlocksNoLocalAcquisition(t *testing.T) {
	for name := range strings.SplitSeq("mutex,read,election,multi,other terms,other data,large data", ",") {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			g := cycle(t, kept(t, c))
			began := time.Now()
			next := coordtest.GrantOf(t, ask(c, name))
			took := time.Since(began)
			expect(t, took == 0 && (next.Token > g.Token || name == "multi") && !srv.Exists(g.Node),
				"%v later %+v is granted after %+v, want it at once, in the idle node's place", took, next, g)
		})
	}
}

// TestAcquisitionsOfOneDataShareANode, which has their data.
func TestAcquisitionsOfOneDataShareANode(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := cachedAt(coordtest.Connect(t, srv))
		one, two := coordinator.Data([]byte("one")), coordinator.Data([]byte("two"))
		for range 3 {
			cycle(t, l, one)
		}
		a, first := coordtest.Hold(t, l, one)
		data, _ := srv.Data(first.Node)
		expect(t, string(data) == "one" && first.Turn == 2, "%+v with the data %q, want turn 2", first, data)
		other, same := l.Acquire(t.Context(), two), l.Acquire(t.Context(), one)
		synctest.Wait()
		coordtest.End(a)
		next := coordtest.Soon(t, same)
		expect(t, next.Token == first.Token, "with the same data %+v is granted after %+v", next, first)
		expect(t, !other.Valid(), "with other data it holds beside the holder")
		coordtest.End(same)
		second := coordtest.Soon(t, other)
		data, _ = srv.Data(second.Node)
		expect(t, string(data) == "two" && second.Token > first.Token && !srv.Exists(first.Node),
			"with other data it is granted %+v, and the node has %q; want one in the place of the first", second, data)
	})
}
