package coordinator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
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
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// Promise 2, behind followers that keep signs of life to themselves until the leader asks. The faults come in all phases of the
// leader's asking and of the client's pings and probes, on locks that were just granted and on locks that have been held for long.

// fault keeps the servers from hearing of a session.
type fault struct {
	name  string
	begin func(srv *zktest.Server, id int64)
	end   func(srv *zktest.Server, id int64)
}

// silences are faults from which the session does not come back before it expires.
func silences() []fault {
	stay := func(zktest.Request) zktest.Action { return zktest.Pass() }
	away := func(id int64) func(zktest.Request) zktest.Action {
		return func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpConnect && r.Session == id {
				return zktest.CutBefore()
			}
			return zktest.Pass()
		}
	}
	return []fault{
		{"follower without a leader", func(srv *zktest.Server, id int64) {
			srv.Intercept(away(id))
			srv.Strand(id, true)
		}, func(srv *zktest.Server, id int64) {
			srv.Strand(id, false)
			srv.Intercept(stay)
		}},
		{"mute", func(srv *zktest.Server, id int64) {
			srv.Mute(id, true)
			srv.Strand(id, true) // what the follower has heard of goes no further either
		}, func(srv *zktest.Server, id int64) {
			srv.Strand(id, false)
			srv.Mute(id, false)
		}},
		{"unreachable", func(srv *zktest.Server, id int64) {
			srv.Intercept(away(id))
			srv.Cut(id)
		}, func(srv *zktest.Server, _ int64) { srv.Intercept(stay) }},
		{"slow, then without a leader", func(srv *zktest.Server, id int64) {
			srv.Intercept(func(r zktest.Request) zktest.Action {
				if r.Session != id {
					return zktest.Pass()
				}
				if r.Op == zktest.OpConnect {
					return zktest.CutBefore()
				}
				return zktest.Delay(300 * time.Millisecond)
			})
			time.AfterFunc(1500*time.Millisecond, func() { srv.Strand(id, true) })
		}, func(srv *zktest.Server, id int64) {
			srv.Strand(id, false)
			srv.Intercept(stay)
		}},
	}
}

func TestLostComesBeforeTheExpiryBehindAFollower(t *testing.T) {
	const tick = time.Second
	const phases = 10
	quick := 0 // one phase of each combination, and in the end each of the phases
	for _, ticks := range []time.Duration{3, 12} {
		timeout := ticks * tick
		for _, f := range silences() {
			t.Run(fmt.Sprintf("%d ticks, %s", ticks, f.name), func(t *testing.T) {
				least, latest := time.Hour, time.Duration(0)
				for _, idle := range []time.Duration{0, time.Minute} {
					for _, held := range []time.Duration{0, timeout / 20, 3 * timeout / 10, timeout, time.Minute} {
						first, last := 0, phases
						if !eventstest.Full() {
							first, last = quick%phases, quick%phases+1
							quick += 3
						}
						for phase := first; phase < last; phase++ {
							// Of the phase 37 ms are a fraction of the tick that no period here is a multiple of.
							wait := idle + time.Duration(phase)*tick/time.Duration(phases) + 37*time.Millisecond
							lead, told := leadOfLost(t, f, tick, timeout, wait, held)
							least, latest = min(least, lead), max(latest, told)
						}
					}
				}
				t.Logf("lost at least %v before the session expired, and at most %v after the fault began", least, latest)
			})
		}
	}
}

// leadOfLost returns how long before the end of its session a holder was told, and how long after the beginning of the fault.
func leadOfLost(t *testing.T, f fault, tick, timeout, wait, held time.Duration) (lead, told time.Duration) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.Tick(tick), zktest.Followers())
		options := []coordinator.Option{coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick)}
		victim, next := coordtest.Connect(t, srv, options...), coordtest.Connect(t, srv, options...)
		time.Sleep(wait)
		a, grant := coordtest.Hold(t, victim.Mutex(lockPath))
		w := coordtest.Queue(next.Mutex(lockPath))
		time.Sleep(held)
		if !a.Valid() {
			t.Fatalf("waited %v, held %v: the lock is not valid before the fault, want it held", wait, held)
		}
		start := time.Now()
		f.begin(srv, grant.Session)
		lost := <-a.Lost()
		told = time.Since(start)
		if lost.Reason != events.ReasonLeaseRanOut || a.Valid() {
			t.Errorf("told of %+v, valid: %v; want that the lease ran out, and not valid", lost, a.Valid())
		}
		if !slices.Contains(srv.Sessions(), grant.Session) {
			t.Errorf("waited %v, held %v: told %v after the fault, and the session is over already; want it told before", wait, held, told)
		}
		if _, err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		lead = time.Since(start) - told
		if lead < timeout/25 {
			t.Errorf("waited %v, held %v: told %v after the fault, %v before the next grant; want at least %v before",
				wait, held, told, lead, timeout/25)
		}
		f.end(srv, grant.Session)
	})
	return lead, told
}

// A follower that loses its leader twice, with half a tick or less in between, passes its signs of life on in between
// or not at all; the lease tells the two apart.
func TestLostComesBeforeTheExpiryBehindAFollowerThatIsCutOffTwice(t *testing.T) {
	const tick, timeout = time.Second, 12 * time.Second
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	lost := 0
	trials := eventstest.Amount(30, 300)
	for range trials {
		first, between := time.Duration(rng.Int64N(int64(timeout))), time.Duration(rng.Int64N(int64(tick/2)))
		phase := time.Minute + time.Duration(rng.Int64N(int64(3*timeout)))
		eventstest.Bubble(t, func(t *testing.T) {
			srv := zktest.Start(t, zktest.Tick(tick), zktest.Followers())
			options := []coordinator.Option{coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick)}
			a, grant := coordtest.Hold(t, coordtest.Connect(t, srv, options...).Mutex(lockPath))
			next := coordtest.Queue(coordtest.Connect(t, srv, options...).Mutex(lockPath))
			time.Sleep(phase)
			srv.Intercept(func(r zktest.Request) zktest.Action {
				if r.Op == zktest.OpConnect && r.Session == grant.Session {
					return zktest.CutBefore() // it finds no other server
				}
				return zktest.Pass()
			})
			defer srv.Intercept(nil)
			srv.Strand(grant.Session, true)
			time.Sleep(first)
			srv.Strand(grant.Session, false)
			time.Sleep(between)
			if !a.Valid() {
				return // over before it began
			}
			srv.Strand(grant.Session, true)
			defer srv.Strand(grant.Session, false)
			if _, err := next.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if a.Valid() || len(a.Lost()) == 0 {
				t.Errorf("when the next one is granted: valid %v, told %v; want it lost, and told (seed %d: %v, then %v after %v)",
					a.Valid(), len(a.Lost()) == 1, seed, first, between, phase)
			}
			lost++
		})
	}
	if lost < trials/3 {
		t.Errorf("only %d of %d trials came to a loss, want a third (seed %d)", lost, trials, seed)
	}
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
				coordtest.End(a)
				if a.Err() != nil {
					t.Fatal(a.Err())
				}
			}
		})
	}
}

func TestAThousandLocksCostOneProbeASecond(t *testing.T) {
	length := time.Duration(eventstest.Amount(10, 60)) * time.Minute
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv) // the default timeout of 10 s
		var held []*coordinator.Acquisition
		for i := range 1000 {
			a, _ := coordtest.Hold(t, c.Mutex(fmt.Sprint("/locks/", i)))
			held = append(held, a)
		}
		before := srv.Requests(zktest.OpMulti)
		time.Sleep(length)
		synctest.Wait()
		if n := srv.Requests(zktest.OpMulti) - before; n != int(length/time.Second) {
			t.Errorf("%d probes in %v, want one a second", n, length)
		}
		for _, a := range held {
			if !a.Valid() {
				t.Fatalf("after %v a lock is not valid, want all of them", length)
			}
			coordtest.End(a)
		}
		waiting, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
		coordtest.Queue(c.Mutex(lockPath))
		before = srv.Requests(zktest.OpMulti)
		time.Sleep(length)
		synctest.Wait()
		if n := srv.Requests(zktest.OpMulti) - before; n != int(length/time.Second) {
			t.Errorf("%d probes in %v of two sessions, want one a second: a waiter needs none", n, length)
		}
		waiting.Release()
	})
}

// After a suspend of the machine Valid is right at once. The loss is told by the time of the next probe, with a connection or
// without.
func TestASuspendOfTheMachineEndsTheLease(t *testing.T) {
	for name, down := range map[string]bool{"connected": false, "no connection": true} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				var asleep atomic.Int64
				c := coordtest.Connect(t, srv, session.OptionFunc(func(cfg *session.Config) {
					cfg.Asleep = func() time.Duration { return time.Duration(asleep.Load()) }
				}))
				a, _ := coordtest.Hold(t, c.Mutex(lockPath))
				time.Sleep(time.Minute)
				srv.Down(down)
				synctest.Wait()
				left := time.Until(a.Deadline())
				asleep.Add(int64(left) - 1)
				if !a.Valid() || time.Until(a.Deadline()) != 1 {
					t.Errorf("a moment before the lease ends: valid %v, deadline in %v; want valid, and 1ns",
						a.Valid(), time.Until(a.Deadline()))
				}
				asleep.Add(1)
				if a.Valid() || time.Until(a.Deadline()) != 0 {
					t.Errorf("when the lease ends: valid %v, deadline in %v; want not valid, and 0s", a.Valid(), time.Until(a.Deadline()))
				}
				asleep.Add(int64(time.Hour))
				if a.Valid() || time.Until(a.Deadline()) != -time.Hour {
					t.Errorf("after an hour asleep: valid %v, deadline in %v; want not valid, and an hour ago",
						a.Valid(), time.Until(a.Deadline()))
				}
				select {
				case lost := <-a.Lost():
					if lost.Reason != events.ReasonLeaseRanOut {
						t.Errorf("told of %+v, want that the lease ran out", lost)
					}
				case <-time.After(time.Second + time.Millisecond):
					t.Fatal("no loss is told by the next probe's time, want one")
				}
				srv.Down(false)
				if b, _ := coordtest.Hold(t, c.Mutex(lockPath)); !b.Valid() {
					t.Error("a lock in a session that lives, for all the server knows, is not valid, want it held")
				}
			})
		})
	}
}

// The promises of the README, one test or more for each.

func TestGrantsFollowTheOrderOfTheQueueWithGrowingTokens(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var all []*coordinator.Acquisition
		cs := []*coordinator.Coordinator{coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)}
		for i := range 20 {
			all = append(all, coordtest.Queue(cs[i%len(cs)].Mutex(lockPath)))
		}
		grantedInOrder(t, all, func(node string) bool { return srv.Exists(node) })
	})
}

// grantedInOrder has each waiter of a queue hold the lock in turn, with a greater token than the one before. It is the only holder,
// and its node goes with it.
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
		if grant.Token <= last || grant.Path != lockPath || grant.ID != a.ID() || !exists(grant.Node) {
			t.Errorf("grant %d is %+v after the token %d, want a greater one, of acquisition %d at %s", i, grant, last, a.ID(), lockPath)
		}
		coordtest.NotLost(t, a)
		last = grant.Token
		a.Release()
		if err := coordtest.EndOf(t, a); err != nil || exists(grant.Node) {
			t.Errorf("released, %d ends with %v, its node there: %v; want nil, and no node", i, err, exists(grant.Node))
		}
	}
}

func TestTokensGrowWhenTheDirectoryIsRebornWithNumbersFromZero(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		a, before := coordtest.Hold(t, c.Mutex(lockPath))
		coordtest.End(a)
		eventstest.Must(t, srv.Delete(lockPath))
		_, after := coordtest.Hold(t, c.Mutex(lockPath))
		if after.Node[len(after.Node)-10:] != "0000000000" || after.Token <= before.Token {
			t.Errorf("in the directory that is reborn %+v is granted after %+v, want the number 0 and a greater token", after, before)
		}
	})
}

// TestNoNodeIsLeftWhateverReplyIsLost, or whatever request, of an acquisition and its release.
func TestNoNodeIsLeftWhateverReplyIsLost(t *testing.T) {
	const requests = 30 // more than the whole story takes
	atEachLoss(t, requests, func(t *testing.T, srv *zktest.Server, c *coordinator.Coordinator) {
		a, grant := coordtest.Hold(t, c.Mutex(lockPath))
		if got := srv.Children(lockPath); len(got) != 1 {
			t.Errorf("while the lock is held the nodes are %v, want one", got)
		}
		w := coordtest.Queue(c.Mutex(lockPath))
		time.Sleep(3 * time.Second)
		a.Release()
		next, err := w.Wait(t.Context())
		if err != nil || next.Token <= grant.Token {
			t.Fatalf("after the release %+v is granted, %v; want a token above %d", next, err, grant.Token)
		}
		w.Release()
		<-a.Done()
		<-w.Done()
		if a.Err() != nil || w.Err() != nil {
			t.Errorf("released, the two end with %v and %v, want nil", a.Err(), w.Err())
		}
	})
}

// atEachLoss plays the story of a coordinator with the connection cut at each of its requests, once before the server has executed
// it and once after, so that the reply is lost. No node is left at the end.
func atEachLoss(t *testing.T, requests int, story func(*testing.T, *zktest.Server, *coordinator.Coordinator)) {
	t.Helper()
	for name, action := range map[string]zktest.Action{"request": zktest.CutBefore(), "reply": zktest.CutAfter()} {
		for nth := 1; nth <= requests; nth++ {
			t.Run(fmt.Sprintf("%s %d", name, nth), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c := coordtest.Connect(t, srv)
					count := 0
					srv.Intercept(func(r zktest.Request) zktest.Action {
						if r.Op == zktest.OpPing || r.Op == zktest.OpConnect {
							return zktest.Pass()
						}
						if count++; count == nth {
							return action
						}
						return zktest.Pass()
					})
					story(t, srv, c)
					time.Sleep(3 * time.Second)
					if got := srv.Children(lockPath); len(got) != 0 {
						t.Errorf("in the end the nodes %v are left, want none", got)
					}
				})
			})
		}
	}
}

// trio is an ensemble of three as one session sees it: three addresses, each of which can fall silent without a reset.
type trio struct {
	server *zktest.Server
	ways   map[string]*faultnet.Network

	mu      sync.Mutex
	hung    map[string]bool // accepts connections, and takes nothing
	dialled []string
}

const trioServers = "one:1,two:2,three:3"

func newTrio(srv *zktest.Server) *trio {
	tr := &trio{server: srv, ways: map[string]*faultnet.Network{}, hung: map[string]bool{}}
	for _, address := range []string{"one:1", "two:2", "three:3"} {
		tr.ways[address] = faultnet.New(srv.DialContext, func(faultnet.Frame) faultnet.Verdict {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			if tr.hung[address] {
				return faultnet.Hold()
			}
			return faultnet.Pass()
		})
	}
	return tr
}

func (tr *trio) dial(ctx context.Context, network, address string) (net.Conn, error) {
	tr.mu.Lock()
	tr.dialled = append(tr.dialled, address)
	tr.mu.Unlock()
	return tr.ways[address].Dial(ctx, network, tr.server.Addr())
}

// dials returns how many connections were tried so far.
func (tr *trio) dials() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.dialled)
}

// hang halts the server at the address.
func (tr *trio) hang(address string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.hung[address] = true
}

// connect opens a session to the three servers.
func (tr *trio) connect(t *testing.T, options ...coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	return tr.connectTo(t, trioServers, options...)
}

// connectTo opens a session that knows only the servers named.
func (tr *trio) connectTo(t *testing.T, servers string, options ...coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), servers, append([]coordinator.Option{coordinator.WithDialer(tr.dial)}, options...)...)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() {
		for _, way := range tr.ways {
			way.Heal()
		}
		if err := c.Close(); err != nil {
			t.Logf("Close: %v", err)
		}
	})
	return c
}

// later returns the addresses that were dialled after the first n.
func (tr *trio) later(n int) []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Clone(tr.dialled[n:])
}

// present returns the address that the session is connected to, or none.
func (tr *trio) present() string {
	for address, way := range tr.ways {
		if way.Open() > 0 {
			return address
		}
	}
	return ""
}

// elsewhere waits until the session is connected to another address, or the lock is lost, and returns how long that took.
func (tr *trio) elsewhere(c *coordinator.Coordinator, a *coordinator.Acquisition, left string) time.Duration {
	begun := time.Now()
	for a.Valid() && (tr.present() == left || c.State() != coordinator.StateConnected) {
		time.Sleep(time.Millisecond)
	}
	return time.Since(begun)
}

// silences are the ways in which a server falls silent.
func silencesOfOne() map[string]func(*trio, string) {
	return map[string]func(*trio, string){
		"no power":            func(tr *trio, address string) { tr.ways[address].Partition() },
		"hangs":               (*trio).hang,
		"hears nothing":       func(tr *trio, address string) { tr.ways[address].Partition(faultnet.Up) },
		"is not heard itself": func(tr *trio, address string) { tr.ways[address].Partition(faultnet.Down) },
	}
}

// One silent server of three costs no lock, whatever the phase of the probes, from a timeout of two ticks on. The silent server is
// not tried again.
func TestASilentServerOfThreeCostsNoLock(t *testing.T) {
	trials := eventstest.Amount(4, 16)
	for name, silence := range silencesOfOne() {
		for _, of := range []struct{ timeout, tick, told time.Duration }{
			{time.Second, 500 * time.Millisecond, 500 * time.Millisecond},
			{6 * time.Second, 500 * time.Millisecond, 500 * time.Millisecond},
			{4 * time.Second, 2 * time.Second, 0},
			{5 * time.Second, 2 * time.Second, 0},
			{6 * time.Second, 2 * time.Second, 0},
		} {
			t.Run(fmt.Sprintf("%s, T = %v, tick %v, told %v", name, of.timeout, of.tick, of.told), func(t *testing.T) {
				kept, longest := 0, time.Duration(0)
				for trial := range trials {
					eventstest.Bubble(t, func(t *testing.T) {
						srv := zktest.Start(t, zktest.Tick(of.tick), zktest.Followers())
						tr := newTrio(srv)
						c := tr.connect(t, coordinator.WithSessionTimeout(of.timeout), coordinator.WithTickTime(of.told))
						a, _ := coordtest.Hold(t, c.Mutex(lockPath))
						session := c.SessionID()
						time.Sleep(3*of.timeout + of.timeout/10*time.Duration(trial)/time.Duration(trials) + 37*time.Microsecond)
						left, dials := tr.present(), tr.dials()
						silence(tr, left)
						longest = max(longest, tr.elsewhere(c, a, left))
						time.Sleep(3 * of.timeout)
						if a.Valid() && c.SessionID() == session {
							kept++
						}
						if later := tr.later(dials); len(later) != 1 || later[0] == left {
							t.Errorf("after the silence of %s %v are dialled, want one of the other two", left, later)
						}
					})
				}
				if most := of.timeout*3/10 + 100*time.Millisecond; kept != trials || longest > most {
					t.Errorf("%d of %d locks are kept, connected elsewhere after %v; want all, after %v at most", kept, trials, longest, most)
				}
			})
		}
	}
}

// The next server may be silent, too: its handshake has three tenths of the timeout. After a reset that is in time from two ticks
// on. After another silent server it is from two and a half ticks and a tenth of a second on.
func TestTwoSilentServersOfThreeCostNoLock(t *testing.T) {
	const trials, tick = 16, 500 * time.Millisecond
	for _, of := range []struct {
		name    string
		timeout time.Duration
		leave   func(tr *trio, address string)
	}{
		{"reset", 2 * tick, func(tr *trio, address string) { tr.ways[address].Refuse(true); tr.ways[address].Cut() }},
		{"silent", 5*tick/2 + 100*time.Millisecond, (*trio).hang},
	} {
		t.Run(of.name, func(t *testing.T) {
			kept, mute := 0, 0
			for trial := range trials {
				eventstest.Bubble(t, func(t *testing.T) {
					srv := zktest.Start(t, zktest.Tick(tick), zktest.Followers())
					tr := newTrio(srv)
					c := tr.connect(t, coordinator.WithSessionTimeout(of.timeout), coordinator.WithTickTime(tick))
					a, _ := coordtest.Hold(t, c.Mutex(lockPath))
					time.Sleep(3*of.timeout + of.timeout/10*time.Duration(trial)/trials + 37*time.Microsecond)
					left, dials := tr.present(), tr.dials()
					for address := range tr.ways {
						if address != left { // one of the other two
							tr.hang(address)
							break
						}
					}
					of.leave(tr, left)
					time.Sleep(3 * of.timeout)
					if a.Valid() {
						kept++
					}
					mute += len(tr.later(dials)) - 1
				})
			}
			if kept != trials || mute == 0 {
				t.Errorf("%d of %d locks are kept, %d handshakes with a silent server; want all, and some", kept, trials, mute)
			}
		})
	}
}

// Right after a Grant that ended a long wait the lease counts from a ping. It still outlives a silence from two and a quarter ticks
// on.
func TestASilentServerRightBehindAGrant(t *testing.T) {
	const (
		trials  = 16
		tick    = 500 * time.Millisecond
		timeout = 9 * tick / 4
	)
	kept := 0
	for trial := range trials {
		eventstest.Bubble(t, func(t *testing.T) {
			srv := zktest.Start(t, zktest.Tick(tick), zktest.Followers())
			held, _ := coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))
			tr := newTrio(srv)
			c := tr.connect(t, coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick))
			w := coordtest.Queue(c.Mutex(lockPath))
			time.Sleep(time.Minute + timeout/3*time.Duration(trial)/trials + 37*time.Microsecond)
			held.Release()
			if _, err := w.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			tr.hang(tr.present())
			time.Sleep(3 * timeout)
			if w.Valid() {
				kept++
			}
		})
	}
	if kept != trials {
		t.Errorf("%d of %d locks are kept, want all", kept, trials)
	}
}

// slow delays everything that the servers at the addresses say.
func (tr *trio) slow(by time.Duration, addresses ...string) {
	for _, address := range addresses {
		tr.ways[address].Lag(faultnet.Down, by)
	}
}

// A session leaves a slow server once for another one, and stays if all are slow. It does not hang up while it holds nothing, with
// one server, or where a lost connection is a loss.
func TestSlowServersAreNoReconnectStorm(t *testing.T) {
	const timeout, tick = 10 * time.Second, 500 * time.Millisecond
	all := []string{"one:1", "two:2", "three:3"}
	for _, c := range []struct {
		name    string
		part    float64 // of the timeout: how late they answer
		one     bool    // only the server that the session is connected to
		holds   bool
		loses   bool // the lease does not stand that, and the lock is asked for again and again
		servers string
		options []coordinator.Option
		want    int // connections, in 20 timeouts
	}{
		{name: "1.5 intervals", part: 0.15, holds: true},
		{name: "2.2 intervals", part: 0.22, holds: true, want: 1},
		{name: "3 intervals, one of them", part: 0.3, one: true, holds: true, want: 1},
		{name: "2.9 intervals", part: 0.29, holds: true, loses: true, want: 1}, // a handshake may take no more
		{name: "2.9 intervals, and nothing is held", part: 0.29},
		{name: "2.2 intervals, one server", part: 0.22, holds: true, servers: "one:1"},
		{name: "2.2 intervals, suspended is lost", part: 0.22, holds: true, options: []coordinator.Option{coordinator.WithLossOnSuspend()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				srv := zktest.Start(t, zktest.Tick(tick))
				tr := newTrio(srv)
				if c.servers == "" {
					c.servers = trioServers
				}
				co := tr.connectTo(t, c.servers, append(c.options, coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick))...)
				var a *coordinator.Acquisition
				if c.holds {
					a, _ = coordtest.Hold(t, co.Mutex(lockPath))
				}
				time.Sleep(3 * timeout)
				late := all
				if c.one {
					late = []string{tr.present()}
				}
				before := tr.dials()
				tr.slow(time.Duration(c.part*float64(timeout)), late...)
				for end := time.Now().Add(20 * timeout); time.Now().Before(end); time.Sleep(timeout / 10) {
					switch {
					case !c.holds || a.Valid() || !coordtest.IsClosed(a.Done()) && c.loses:
					case c.loses:
						a = co.Mutex(lockPath).Acquire(t.Context())
					default:
						t.Fatalf("the lock is lost (%v), want it held", a.Err())
					}
				}
				if n := tr.dials() - before; n != c.want {
					t.Errorf("%d connections are made in 20 timeouts, want %d", n, c.want)
				}
				tr.slow(0, all...)
			})
		})
	}
}

// Servers that are slow now and then, and quick in between, make a session hang up at most twice in ten timeouts.
func TestAReconnectStormHasABound(t *testing.T) {
	const timeout, tick = 10 * time.Second, 500 * time.Millisecond
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.Tick(tick))
		tr := newTrio(srv)
		c := tr.connect(t, coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick))
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		time.Sleep(3 * timeout)
		before := tr.dials()
		for range 20 {
			tr.slow(timeout/4, "one:1", "two:2", "three:3")
			time.Sleep(timeout / 2)
			tr.slow(0, "one:1", "two:2", "three:3")
			time.Sleep(timeout / 2)
		}
		if n := tr.dials() - before; n < 2 || n > 4 || !a.Valid() {
			t.Errorf("%d connections are made in 20 timeouts, the lock valid: %v; want 2 to 4, and the lock held", n, a.Valid())
		}
	})
}

// A session notices a silence in time also with the rarest allowed probes.
func TestASilentServerIsNoticedWithRareProbes(t *testing.T) {
	const timeout, tick = 6 * time.Second, 500 * time.Millisecond
	for phase := range 8 {
		eventstest.Bubble(t, func(t *testing.T) {
			srv := zktest.Start(t, zktest.Tick(tick), zktest.Followers())
			tr := newTrio(srv)
			c := tr.connect(t, coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick), coordinator.WithProbeInterval(timeout/4))
			a, _ := coordtest.Hold(t, c.Mutex(lockPath))
			time.Sleep(3*timeout + timeout/4*time.Duration(phase)/8 + 37*time.Microsecond)
			left := tr.present()
			tr.hang(left)
			w := coordtest.Queue(c.Mutex("/locks/other")) // the first request that is not answered
			took := tr.elsewhere(c, a, left)
			w.Release()
			if most := timeout/5 + 50*time.Millisecond; took > most || !a.Valid() {
				t.Errorf("phase %d: connected elsewhere after %v, the lock valid: %v; want after %v at most, and the lock held", phase, took, a.Valid(), most)
			}
		})
	}
}

// Requests to the silent server are repeated: a claim that it has swallowed is granted as soon as the session is connected
// elsewhere.
func TestAClaimThatASilentServerSwallowsIsMadeAgain(t *testing.T) {
	const timeout = 6 * time.Second
	eventstest.Bubble(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.Tick(500*time.Millisecond))
		other := coordtest.Connect(t, srv)
		wanted, _ := coordtest.Hold(t, other.Mutex("/locks/wanted"))
		tr := newTrio(srv)
		c := tr.connect(t, coordinator.WithSessionTimeout(timeout))
		held, _ := coordtest.Hold(t, c.Mutex(lockPath))
		w := coordtest.Queue(c.Mutex("/locks/wanted"))
		time.Sleep(3 * timeout)
		tr.ways[tr.present()].Partition(faultnet.Up) // the event still comes
		begun := time.Now()
		coordtest.End(wanted)
		if _, err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > timeout*3/10+200*time.Millisecond || !held.Valid() {
			t.Errorf("granted after %v, the other lock valid: %v; want soon after three intervals, and both held", took, held.Valid())
		}
	})
}
