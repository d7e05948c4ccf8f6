package coordinator_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// trio is an ensemble of three as one session sees it: three addresses, each of which can fall silent without a reset.
type trio struct {
	server *zktest.Server
	ways   map[string]*faultnet.Network

	mu      sync.Mutex
	hung    map[string]bool // accepts connections, and takes nothing
	dialled []string        // where sessions were asked for
	asked   []string        // where it was asked whether the server serves
}

const trioServers = "one:1,two:2,three:3"

func newTrio(srv *zktest.Server) *trio {
	tr := &trio{server: srv, ways: map[string]*faultnet.Network{}, hung: map[string]bool{}}
	for _, address := range []string{"one:1", "two:2", "three:3"} {
		tr.ways[address] = faultnet.New(srv.DialContext, func(f faultnet.Frame) faultnet.Verdict {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			switch {
			case f.Direction != faultnet.Up:
			case f.Op == zktest.OpConnect:
				tr.dialled = append(tr.dialled, address)
			case f.Op == faultnet.OpWord:
				tr.asked = append(tr.asked, address)
			}
			if tr.hung[address] {
				return faultnet.Hold()
			}
			return faultnet.Pass()
		})
	}
	return tr
}

func (tr *trio) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return tr.ways[address].Dial(ctx, network, tr.server.Addr())
}

// dials returns how many sessions were asked for, or asked for again, so far.
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

// questions returns how often a server was asked so far whether it serves.
func (tr *trio) questions() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.asked)
}

// later returns the addresses where sessions were asked for after the first n.
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

// The next server may be silent, too. After a reset its handshake has three tenths of the timeout, and that is in time from two ticks
// on. After another silent server it is not tried: it does not say that it serves.
func TestTwoSilentServersOfThreeCostNoLock(t *testing.T) {
	const trials, tick = 16, 500 * time.Millisecond
	for _, of := range []struct {
		name  string
		leave func(tr *trio, address string)
		tried bool // the next server, which is silent
	}{
		{"reset", func(tr *trio, address string) { tr.ways[address].Refuse(true); tr.ways[address].Cut() }, true},
		{"silent", (*trio).hang, false},
	} {
		t.Run(of.name, func(t *testing.T) {
			const timeout = 2 * tick
			kept, mute, asked := 0, 0, 0
			for trial := range trials {
				eventstest.Bubble(t, func(t *testing.T) {
					srv := zktest.Start(t, zktest.Tick(tick), zktest.Followers())
					tr := newTrio(srv)
					c := tr.connect(t, coordinator.WithSessionTimeout(timeout), coordinator.WithTickTime(tick))
					a, _ := coordtest.Hold(t, c.Mutex(lockPath))
					time.Sleep(3*timeout + timeout/10*time.Duration(trial)/trials + 37*time.Microsecond)
					left, dials, questions := tr.present(), tr.dials(), tr.questions()
					for address := range tr.ways {
						if address != left { // one of the other two
							tr.hang(address)
							break
						}
					}
					of.leave(tr, left)
					time.Sleep(3 * timeout)
					if a.Valid() {
						kept++
					}
					mute += len(tr.later(dials)) - 1
					asked += tr.questions() - questions - 1
				})
			}
			if kept != trials || (mute > 0) != of.tried || asked <= 0 && !of.tried {
				t.Errorf("%d of %d locks are kept, %d handshakes with a silent server (wanted: %v), and it was asked %d times; want all",
					kept, trials, mute, of.tried, asked)
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

// A session leaves a slow server for a quick one, and stays if all are slow. It does not hang up while it holds nothing, with
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
		{name: "2.2 intervals", part: 0.22, holds: true},
		{name: "3.5 intervals", part: 0.35, holds: true},
		{name: "3 intervals, one of them", part: 0.3, one: true, holds: true, want: 1},
		{name: "5 intervals", part: 0.5, holds: true, loses: true},
		{name: "2.9 intervals, and nothing is held", part: 0.29},
		{name: "2.2 intervals, one server", part: 0.22, holds: true, servers: "one:1"},
		{name: "3 intervals, one of them, suspended is lost", part: 0.3, one: true, holds: true, options: []coordinator.Option{coordinator.WithLossOnSuspend()}},
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
// Whichever it is connected to is the slow one.
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
			tr.slow(timeout/4, tr.present())
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
