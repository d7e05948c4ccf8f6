package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// How a cached lock ends when its node, its session or its connection is lost.

// losses are ways to lose a node, with the reasons that holders are told.
var losses = map[string]struct {
	lose    func(t *testing.T, srv *zktest.Server, session int64, node string)
	options []coordinator.Option
	want    error
}{
	"deleted": {func(t *testing.T, srv *zktest.Server, _ int64, node string) { eventstest.Must(t, srv.Delete(node)) }, nil, coordinator.ErrNodeRemoved},
	"expired": {func(t *testing.T, srv *zktest.Server, session int64, _ string) {
		eventstest.Must(t, srv.Expire(session))
	}, nil, coordinator.ErrSessionExpired},
	"lease": {func(_ *testing.T, srv *zktest.Server, session int64, _ string) {
		srv.Mute(session, true)
		time.Sleep(8 * time.Second)
	}, nil, coordinator.ErrLeaseRanOut},
	"suspended": {
		func(_ *testing.T, srv *zktest.Server, session int64, _ string) { srv.Cut(session) },
		[]coordinator.Option{coordinator.WithLossOnSuspend()}, coordinator.ErrSuspended,
	},
}

// TestALostNodeIsNotHandedOn: the holder is told of the loss. The waiters queue again, and get another node.
func TestALostNodeIsNotHandedOn(t *testing.T) {
	for name, loss := range losses {
		for _, wanted := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", wanted"}[wanted], func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c := coordtest.Connect(t, srv, loss.options...)
					l := kept(t, c)
					a, g := coordtest.Hold(t, l)
					time.Sleep(3 * time.Second) // its node is watched by then
					waiting := waiters(l, 3)
					var other *coordinator.Acquisition
					if wanted {
						other = coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
					}
					loss.lose(t, srv, g.Session, g.Node)
					synctest.Wait()
					select {
					case lost := <-a.Lost():
						if !errors.Is(lost.Err, loss.want) || lost.Token != g.Token || lost.ID != a.ID() {
							t.Errorf("told %+v, want that %v is lost because of %v", lost, g, loss.want)
						}
					default:
						t.Errorf("the holder was not told; it is valid: %v", a.Valid())
					}
					<-a.Done()
					if err := a.Err(); !errors.Is(err, loss.want) || a.Valid() {
						t.Errorf("it ends with %v, valid: %v; want %v", err, a.Valid(), loss.want)
					}
					for i, w := range waiting {
						if w.Valid() && w.Grant().Node == g.Node {
							t.Errorf("waiter %d holds under the node that was lost", i)
						}
					}
					srv.Mute(g.Session, false)
					if wanted {
						next, err := other.Wait(t.Context())
						if err != nil || !later(next, g) {
							t.Errorf("after %+v the other contender is granted %+v, %v", g, next, err)
						}
						coordtest.End(other)
					}
					last := g
					for i, w := range waiting {
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						next, err := w.Wait(ctx)
						cancel()
						if err != nil || !later(next, last) || next.Token == g.Token {
							t.Fatalf("after %+v waiter %d is granted %+v, %v", last, i, next, err)
						}
						last = next
						coordtest.End(w)
					}
				})
			})
		}
	}
}

// TestAnIdleNodeIsLostInSilence: without an event or a warning. The next acquisition gets another node.
func TestAnIdleNodeIsLostInSilence(t *testing.T) {
	for name, loss := range losses {
		for _, idle := range []time.Duration{0, 10 * time.Second} {
			t.Run(name+", "+idle.String(), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					core, logs := observer.New(zap.WarnLevel)
					c := coordtest.Connect(t, srv, append([]coordinator.Option{coordinator.WithLogger(zap.New(core))}, loss.options...)...)
					l := kept(t, c)
					g := cycle(t, l)
					time.Sleep(idle)
					stream := c.Events(t.Context())
					loss.lose(t, srv, g.Session, g.Node)
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
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					a := l.Acquire(t.Context())
					next, err := a.Wait(ctx)
					if err != nil || next.Token <= g.Token && name != "lease" && name != "suspended" || !later(next, g) {
						t.Errorf("after %+v the next one is granted %+v, %v", g, next, err)
					}
					coordtest.End(a)
				})
			})
		}
	}
}

// TestALostNodeWithAFunctionUnderIt: it stays until the function returns, though the waiters have queued again.
func TestALostNodeWithAFunctionUnderIt(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithLossOnSuspend())
		l := kept(t, c)
		entered, finish, left := make(chan events.Grant, 1), make(chan struct{}), make(chan error, 1)
		go func() {
			left <- l.Do(context.Background(), func(ctx context.Context, g events.Grant) error {
				entered <- g
				<-ctx.Done()
				<-finish
				return nil
			})
		}()
		g := <-entered
		next := coordtest.Queue(l)
		srv.Cut(g.Session)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if next.Valid() || !srv.Exists(g.Node) {
			t.Errorf("while the function runs the next one is valid: %v, and the node there: %v", next.Valid(), srv.Exists(g.Node))
		}
		if n := len(nodesBelow(srv, lockPath)); n != 2 {
			t.Errorf("while the function runs there are %d nodes, want that of the function and that of the next", n)
		}
		close(finish)
		if err := <-left; !errors.Is(err, coordinator.ErrSuspended) {
			t.Errorf("Do returns %v, want the loss", err)
		}
		if got := coordtest.Soon(t, next); got.Token <= g.Token {
			t.Errorf("the next one is granted %+v after %+v, want another node", got, g)
		}
		coordtest.End(next)
	})
}

// TestAnOutageOfACachedLock: a holder keeps it, an idle node goes, and a waiter is granted no turn before the connection is back.
func TestAnOutageOfACachedLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		l := kept(t, c)
		a, g := coordtest.Hold(t, l)
		waits := waiters(l, 2)
		srv.Down(true)
		synctest.Wait()
		coordtest.End(a)
		synctest.Wait()
		if waits[0].Valid() {
			t.Error("without a connection a waiter is granted the turn")
		}
		during := coordtest.Queue(l)
		time.Sleep(2 * time.Second)
		if waits[0].Valid() || during.Valid() {
			t.Error("without a connection a waiter is granted the turn after a while")
		}
		srv.Down(false)
		last := g
		for _, w := range append(waits, during) {
			next := coordtest.Soon(t, w)
			if !later(next, last) {
				t.Errorf("after %+v %+v is granted", last, next)
			}
			last = next
			coordtest.End(w)
		}
		synctest.Wait()
		held, g := coordtest.Hold(t, l)
		srv.Cut(g.Session)
		time.Sleep(2 * time.Second)
		coordtest.NotLost(t, held)
		coordtest.End(held)
	})
}

// TestAContenderThatComesInAnOutageIsHeardOf: the directory is listed again on each connection, whatever the node is used for then.
func TestAContenderThatComesInAnOutageIsHeardOf(t *testing.T) {
	for _, state := range []string{"idle", "resting", "held", "waited for"} {
		t.Run(state, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv).Mutex(lockPath)
				l := kept(t, c, coordinator.Cached(coordinator.CacheHandoffs(1), coordinator.CacheFor(time.Minute)))
				a, g := coordtest.Hold(t, l)
				var waiting []*coordinator.Acquisition
				switch state {
				case "idle":
					coordtest.End(a)
				case "resting":
					coordtest.End(a)
					time.Sleep(20 * time.Second)
				case "waited for":
					waiting = waiters(l, 5)
				}
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if r.Session == g.Session && r.Op == zktest.OpConnect {
						return zktest.CutBefore()
					}
					return zktest.Pass()
				})
				srv.Cut(g.Session)
				next := coordtest.Queue(other)
				srv.Intercept(nil)
				time.Sleep(2 * time.Second)
				turns := 0
				if len(waiting) > 0 {
					waiting = append([]*coordinator.Acquisition{a}, waiting...)
				} else {
					waiting = []*coordinator.Acquisition{a}
				}
				for i := 0; i < 5 && !next.Valid(); i++ {
					for _, w := range waiting {
						if w.Valid() {
							turns++
							coordtest.End(w)
							break
						}
					}
					time.Sleep(time.Second)
				}
				if !next.Valid() || turns > 2 {
					t.Errorf("%s: after %d turns the contender that came in the outage is valid: %v; want it after the holder and one handoff at most",
						state, turns, next.Valid())
				}
				coordtest.End(next)
				for _, w := range waiting {
					w.Release()
				}
			})
		})
	}
}

// TestNoTurnIsGrantedWithoutProof: while the servers do not answer, another contender may have come.
func TestNoTurnIsGrantedWithoutProof(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv).Mutex(lockPath)
		l := kept(t, c, coordinator.Cached(coordinator.CacheHandoffs(0)))
		a, g := coordtest.Hold(t, l)
		waits := waiters(l, 1)[0]
		srv.Mute(g.Session, true) // the connection stays
		next := coordtest.Queue(other)
		time.Sleep(2500 * time.Millisecond)
		if !a.Valid() {
			t.Fatal("it is lost before half of the lease")
		}
		coordtest.End(a)
		synctest.Wait()
		if waits.Valid() {
			t.Error("a turn is granted two intervals and a half after the last answer, want none")
		}
		time.Sleep(time.Second)
		srv.Mute(g.Session, false)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if !next.Valid() {
			t.Error("the other contender does not hold, want it before the waiter")
		}
		coordtest.End(next)
		w, err := waits.Wait(t.Context())
		eventstest.Must(t, err)
		if w.Token <= next.Grant().Token {
			t.Errorf("the waiter is granted %+v after %+v", w, next.Grant())
		}
		coordtest.End(waits)
	})
}

// TestAnArmThatMissesAContender:
//
//  1. A contender comes after the directory was read and before the answer.
//  2. The event of the watch comes with the answer. If the answer is read first, the waiter has its turn, because the last probe is
//     not old.
//  3. The next turn is the new contender's.
func TestAnArmThatMissesAContender(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		l := cachedAt(c, coordinator.CacheHandoffs(0))
		cycle(t, l)
		a, g := coordtest.Hold(t, l)
		waits := waiters(l, 1)[0]
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Session == g.Session && slices.Contains([]zktest.Op{zktest.OpGetChildren, zktest.OpGetChildren2}, r.Op) {
				return zktest.Delay(time.Second)
			}
			return zktest.Pass()
		})
		a.Release() // the directory is listed
		time.Sleep(500 * time.Millisecond)
		_, node := outsider(t, srv)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		first := waits.Valid()
		if first {
			coordtest.End(waits)
			synctest.Wait()
		}
		if waits.Valid() || srv.Exists(g.Node) || !srv.Exists(node) {
			t.Errorf("the waiter has had its turn: %v, our node is there: %v; want it to be the new contender's turn", first, srv.Exists(g.Node))
		}
		eventstest.Must(t, srv.Delete(node))
		if !first {
			coordtest.Soon(t, waits)
			coordtest.End(waits)
		}
	})
}

// TestARefusedArmCostsTheNodeOnly: where the directory may not be read, the lock works as without a cache.
func TestARefusedArmCostsTheNodeOnly(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := cachedAt(coordtest.Connect(t, srv))
		cycle(t, l)
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if slices.Contains([]zktest.Op{zktest.OpGetChildren, zktest.OpGetChildren2}, r.Op) {
				return zktest.Fail(zktest.NoAuth)
			}
			return zktest.Pass()
		})
		var last events.Grant
		for range 5 {
			g := cycle(t, l)
			if !later(g, last) || g.Turn != 0 {
				t.Errorf("granted %+v after %+v, want a node of its own each time", g, last)
			}
			last = g
			wantNodes(t, srv, 0, "after the release")
		}
	})
}
