package coordinator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A cached lock is wanted when another contender queues: that contender's turn comes a bounded number of handoffs later.

// grantedBefore hands the lock on among the waiters, each of which holds it for so long, until the other contender holds. A holder
// asks again after its release. It returns how many waiters had their turn before.
func grantedBefore(t *testing.T, other func() bool, again func() *coordinator.Acquisition, holder *coordinator.Acquisition, waiting *[]*coordinator.Acquisition, holds time.Duration) (n int) {
	t.Helper()
	for {
		time.Sleep(holds)
		*waiting = append(*waiting, again())
		coordtest.End(holder)
		synctest.Wait()
		if other() {
			return n
		}
		holder = nil
		for _, a := range *waiting {
			if a.Valid() {
				holder = a
			}
		}
		if holder == nil {
			t.Fatalf("after %d handoffs the lock has no holder", n)
		}
		n++
	}
}

// TestAnotherContenderGetsACachedLockInTime: it waits for the holder and for at most the allowed local handoffs, whatever kind of
// contender it is.
func TestAnotherContenderGetsACachedLockInTime(t *testing.T) {
	long, many := coordinator.CacheFor(time.Hour), coordinator.CacheHandoffs(1<<20)
	for name, c := range map[string]struct {
		terms []coordinator.CacheOption
		holds time.Duration
		want  int
	}{
		"3 handoffs":    {[]coordinator.CacheOption{coordinator.CacheHandoffs(3), long}, 0, 3},
		"no handoffs":   {[]coordinator.CacheOption{coordinator.CacheHandoffs(0), long}, 0, 0},
		"by default":    {nil, 0, 64},
		"50 ms":         {nil, 12 * time.Millisecond, 4},
		"a second":      {[]coordinator.CacheOption{coordinator.CacheFor(time.Second), many}, 300 * time.Millisecond, 3},
		"no time":       {[]coordinator.CacheOption{coordinator.CacheFor(0), many}, 0, 0},
		"longer probes": {[]coordinator.CacheOption{coordinator.CacheFor(time.Minute), many}, 7 * time.Second, 8},
	} {
		for _, who := range []string{"another library", "another session", "the same session", "a cached one of other terms", "a multi-lock"} {
			t.Run(name+", "+who, func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					ours, theirs := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
					l := kept(t, ours, coordinator.Cached(c.terms...))
					holder, grant := coordtest.Hold(t, l)
					waiting := waiters(l, 70)
					var other *coordinator.Acquisition
					there := func() bool { return other.Valid() }
					switch who {
					case "another library":
						_, node := outsider(t, srv)
						there = func() bool { return srv.Exists(node) && !srv.Exists(grant.Node) }
					case "another session":
						other = coordtest.Queue(theirs.Mutex(lockPath))
					case "the same session":
						other = coordtest.Queue(ours.Mutex(lockPath))
					case "a cached one of other terms":
						other = coordtest.Queue(cachedAt(ours, coordinator.CacheHandoffs(7)))
					case "a multi-lock":
						other = coordtest.Queue(ours.Multi(ours.Mutex("/another"), ours.Mutex(lockPath)))
					}
					if there() {
						t.Error("it holds beside the holder")
					}
					most := c.want
					if who != "another library" && who != "another session" { // those that have no turn any more may queue up before it
						most += 2 + c.want
					}
					again := func() *coordinator.Acquisition { return l.Acquire(context.Background()) }
					if got := grantedBefore(t, there, again, holder, &waiting, c.holds); got < c.want || got > most {
						t.Errorf("%d local handoffs come before it, want %d, and %d at most", got, c.want, most)
					}
					if other == nil {
						return
					}
					if g := other.Grant(); who != "a multi-lock" && g.Token <= grant.Token {
						t.Errorf("it is granted %+v, want a token above that of %+v", g, grant)
					}
					coordtest.End(other)
					for left := 70; left > 0; {
						left = 0
						for _, a := range waiting {
							if a.Valid() {
								coordtest.End(a)
							}
							if !coordtest.IsClosed(a.Done()) {
								left++
							}
						}
						synctest.Wait()
						time.Sleep(time.Second)
					}
				})
			})
		}
	}
}

// TestAnIdleNodeGoesAtOnce when another contender comes: it waits for a few round trips.
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
			if most := 7 * trip; took > most {
				t.Errorf("idle for %v, another contender waited for %v, want %v at most", idle, took, most)
			}
			srv.Intercept(nil)
			coordtest.End(a)
			next := cycle(t, l)
			if next.Token <= g.Token {
				t.Errorf("the next one is granted %+v after %+v", next, g)
			}
		})
	}
}

// TestALocalContenderIsNotForgottenBeforeItQueuesUp: the node goes for a contender of the process that the servers do not know yet.
func TestALocalContenderIsNotForgottenBeforeItQueuesUp(t *testing.T) {
	for name, queue := range map[string]func(c *coordinator.Coordinator) *coordinator.Acquisition{
		"mutex": func(c *coordinator.Coordinator) *coordinator.Acquisition { return coordtest.Queue(c.Mutex(lockPath)) },
		"multi": func(c *coordinator.Coordinator) *coordinator.Acquisition {
			return coordtest.Queue(c.Multi(c.Mutex("/z"), c.Mutex(lockPath)))
		},
		"large data": func(c *coordinator.Coordinator) *coordinator.Acquisition {
			return coordtest.Queue(cachedAt(c), coordinator.WithData(make([]byte, 5000)))
		},
		"other data": func(c *coordinator.Coordinator) *coordinator.Acquisition {
			return coordtest.Queue(cachedAt(c, coordinator.CacheHandoffs(0)), coordinator.WithData([]byte("other")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				l := kept(t, c, coordinator.Cached(coordinator.CacheHandoffs(0)))
				holder, g := coordtest.Hold(t, l)
				waits := waiters(l, 1)[0]
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if coordtest.Creates(r) {
						return zktest.Fail(zktest.Throttled)
					}
					return zktest.Pass()
				})
				other := queue(c)
				holder.Release()
				synctest.Wait()
				if waits.Valid() {
					t.Errorf("a waiter has the turn after %+v, and another contender was about to queue up", g)
				}
				srv.Intercept(nil)
				both := map[*coordinator.Acquisition]bool{waits: true, other: true}
				for range 2 { // the create of either is the first
					time.Sleep(20 * time.Second)
					synctest.Wait()
					for a := range both {
						if a.Valid() {
							coordtest.End(a)
							delete(both, a)
							break
						}
					}
				}
				if len(both) > 0 {
					t.Errorf("%d of both were never granted", len(both))
				}
			})
		})
	}
}

// TestAChildThatIsNoContender neither ends the cache nor prevents it.
func TestAChildThatIsNoContender(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv))
		first := cycle(t, l)
		var last events.Grant
		for i := range 10 {
			eventstest.Must(t, srv.Create(fmt.Sprintf("%s/note-%c", lockPath, 'a'+i), nil))
			synctest.Wait()
			traffic := coordtest.Traffic(srv)
			for range 5 {
				last = cycle(t, l)
			}
			if got := traffic.Load(); got > 1 {
				t.Errorf("beside %d such children 5 acquisitions take %d requests, want one at most", i+1, got)
			}
		}
		if last.Token != first.Token || last.Turn != first.Turn+50 {
			t.Errorf("beside such children the last Grant is %+v, want that of one node, 50 after %+v", last, first)
		}
		other := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		coordtest.Soon(t, other)
	})
}

// TestWantedIsNotForgotten: the other contender leaves, and the next one still comes when the bound is reached.
func TestWantedIsNotForgotten(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		other := coordtest.Connect(t, srv).Mutex(lockPath)
		l := kept(t, coordtest.Connect(t, srv), coordinator.Cached(coordinator.CacheHandoffs(2), coordinator.CacheFor(time.Hour)))
		holder, g := coordtest.Hold(t, l)
		all := waiters(l, 6)
		gone := coordtest.Queue(other)
		coordtest.End(gone)
		all[5].Release()
		synctest.Wait()
		next := coordtest.Queue(other)
		again := func() *coordinator.Acquisition { return gone } // it is over
		if got := grantedBefore(t, func() bool { return !srv.Exists(g.Node) }, again, holder, &all, 0); got != 2 {
			t.Errorf("%d handoffs came before the node went, want 2", got)
		}
		for _, a := range all[2:5] { // they queued up when the first came
			coordtest.Soon(t, a)
			coordtest.End(a)
		}
		coordtest.Soon(t, next)
		coordtest.End(next)
	})
}

// TestTwoThatAskAgainAndAgain delay another contender by the bounded number of handoffs only.
func TestTwoThatAskAgainAndAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		l := kept(t, coordtest.Connect(t, srv), coordinator.Cached(coordinator.CacheHandoffs(5), coordinator.CacheFor(time.Hour)))
		holder, _ := coordtest.Hold(t, l)
		all := waiters(l, 1)
		other := coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		for range 20 {
			all = append(all, waiters(l, 1)...)
			coordtest.End(holder)
			synctest.Wait()
			if other.Valid() {
				break
			}
			holder, all = all[0], all[1:]
		}
		if got := holder.Grant().Turn; !other.Valid() || got != 1+5 {
			t.Errorf("the other contender is valid: %v, after the turn %d; want it after turn 6", other.Valid(), got)
		}
		coordtest.End(other)
		for _, a := range all {
			coordtest.End(a)
		}
	})
}

// TestTwoCachesAlternate: two coordinators take the lock in a random order. The fence of each Grant is greater than the one before.
func TestTwoCachesAlternate(t *testing.T) {
	for seed := range uint64(eventstest.Amount(3, 30)) {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			random := rand.New(rand.NewPCG(seed, 1))
			ls := []*coordinator.Lock{cachedAt(coordtest.Connect(t, srv)), cachedAt(coordtest.Connect(t, srv))}
			var last events.Grant
			turns := 0
			for i := range 300 {
				all := waiters(ls[random.IntN(2)], 1+random.IntN(3))
				if random.IntN(4) == 0 {
					all = append(all, waiters(ls[random.IntN(2)], 1)...)
				}
				for len(all) > 0 {
					synctest.Wait()
					holding := -1
					for j, a := range all {
						if a.Valid() {
							if holding >= 0 {
								t.Fatalf("seed %d, step %d: two hold", seed, i)
							}
							holding = j
						}
					}
					if holding < 0 {
						time.Sleep(10 * time.Millisecond)
						continue
					}
					g := all[holding].Grant()
					if !later(g, last) {
						t.Fatalf("seed %d, step %d: granted %+v after %+v", seed, i, g, last)
					}
					if last = g; g.Turn > 0 {
						turns++
					}
					time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
					coordtest.End(all[holding])
					all = append(all[:holding], all[holding+1:]...)
				}
				if random.IntN(10) == 0 {
					time.Sleep(time.Duration(random.IntN(90)) * time.Second)
				}
			}
			if turns < 100 {
				t.Errorf("seed %d: %d grants of the second turn and later, want 100 at least", seed, turns)
			}
		})
	}
}

// TestAnIdleNodeBlocksNoLocalAcquisition: any other kind of acquisition of the same coordinator at the path is granted at once.
func TestAnIdleNodeBlocksNoLocalAcquisition(t *testing.T) {
	for name, ask := range map[string]func(c *coordinator.Coordinator) *coordinator.Acquisition{
		"mutex": func(c *coordinator.Coordinator) *coordinator.Acquisition {
			return c.Mutex(lockPath).Acquire(context.Background())
		},
		"read": func(c *coordinator.Coordinator) *coordinator.Acquisition {
			return c.ReadWrite(lockPath).Read().Acquire(context.Background())
		},
		"election": func(c *coordinator.Coordinator) *coordinator.Acquisition {
			return c.Election(lockPath).Campaign(context.Background())
		},
		"multi": func(c *coordinator.Coordinator) *coordinator.Acquisition {
			return c.Multi(c.Mutex(lockPath), c.Mutex("/another")).Acquire(context.Background())
		},
		"other data": func(c *coordinator.Coordinator) *coordinator.Acquisition {
			return cachedAt(c).Acquire(context.Background(), coordinator.WithData([]byte("other")))
		},
		"large data": func(c *coordinator.Coordinator) *coordinator.Acquisition {
			return cachedAt(c).Acquire(context.Background(), coordinator.WithData(make([]byte, 5000)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				l := kept(t, c)
				g := cycle(t, l)
				began := time.Now()
				a := ask(c)
				next, err := a.Wait(t.Context())
				if took := time.Since(began); err != nil || took > 0 || next.Token <= g.Token {
					t.Fatalf("after %+v it is granted %+v (%v) after %v, want a node of its own at once", g, next, err, took)
				}
				if srv.Exists(g.Node) {
					t.Error("the idle node is there still")
				}
				coordtest.End(a)
			})
		})
	}
}

// TestAcquisitionsOfOneDataShareANode: the node has their data.
func TestAcquisitionsOfOneDataShareANode(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		l := cachedAt(c)
		one, two := coordinator.WithData([]byte("one")), coordinator.WithData([]byte("two"))
		for _, data := range []coordinator.AcquireOption{one, one, one} {
			cycle(t, l, data)
		}
		first := cycle(t, l, one)
		if data, _ := srv.Data(first.Node); string(data) != "one" || first.Turn != 2 {
			t.Errorf("granted %+v, with the data %q; want the third turn of the node, with their data", first, data)
		}
		second := cycle(t, l, two)
		if second.Token <= first.Token || srv.Exists(first.Node) {
			t.Errorf("with other data it is granted %+v after %+v, want another node in the place of the first", second, first)
		}
		a, g := coordtest.Hold(t, l, one)
		other := l.Acquire(t.Context(), two)
		same := l.Acquire(t.Context(), one)
		synctest.Wait()
		coordtest.End(a)
		if next := coordtest.Soon(t, same); next.Token != g.Token {
			t.Errorf("with the same data %+v is granted, want the next turn after %+v", next, g)
		}
		if other.Valid() {
			t.Error("with other data it holds beside the holder")
		}
		coordtest.End(same)
		next := coordtest.Soon(t, other)
		if data, _ := srv.Data(next.Node); string(data) != "two" || next.Token <= g.Token {
			t.Errorf("with other data it is granted %+v, and the node has %q; want one of its own", next, data)
		}
		coordtest.End(other)
	})
}
