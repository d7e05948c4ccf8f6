package coordinator_test

import (
	"cmp"
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

var trioAddresses = []string{"one:1", "two:2", "three:3"}

// trio is an ensemble of three servers as a session sees it: three addresses, each of
// which can fall silent without a reset.
type trio struct {
	server *zktest.Server
	ways   map[string]*faultnet.Network
	c      *coordinator.Coordinator
	a      *coordinator.Acquisition // the lock that c holds

	left         string // the session's server when the test began
	dials, asked int    // handshakes and health checks before the test began

	mu     sync.Mutex
	hung   map[string]bool // accepts connections, but handles no request
	dialed []string        // the addresses of all handshakes
	words  int             // how many health checks were sent
}

// shape is the setup of a session of three servers.
type shape struct {
	timeout, tick, told time.Duration // tick: the servers' tickTime; told: the session's WithTickTime
	servers             string        // in its connect string; empty: all three
	options             []coordinator.Option
	idle                bool // it holds no lock
}

// play lets a session hold a lock for three timeouts and the phase, and then runs the
// test.
func (x shape) play(t *testing.T, phase time.Duration, test func(t *testing.T, tr *trio)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		tr := &trio{server: zktest.Start(t, zktest.Tick(x.tick), zktest.Followers())}
		tr.ways, tr.hung = map[string]*faultnet.Network{}, map[string]bool{}
		for _, address := range trioAddresses {
			tr.ways[address] = faultnet.New(tr.server.DialContext, func(f faultnet.Frame) faultnet.Verdict { return tr.carry(address, f) })
		}
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			return tr.ways[address].Dial(ctx, network, tr.server.Addr())
		}
		var err error
		tr.c, err = coordinator.Connect(t.Context(), cmp.Or(x.servers, "one:1,two:2,three:3"), append(x.options,
			coordinator.WithDialer(dial), coordinator.WithSessionTimeout(x.timeout), coordinator.WithTickTime(x.told))...)
		eventstest.Must(t, err)
		t.Cleanup(func() {
			for _, way := range tr.ways {
				way.Heal()
			}
			_ = tr.c.Close() // its servers may be gone
		})
		if !x.idle {
			tr.a, _ = coordtest.Hold(t, tr.c.Mutex(lockPath))
		}
		time.Sleep(3*x.timeout + phase + 37*time.Microsecond)
		tr.left, tr.dials, tr.asked = tr.present(), len(tr.dialed), tr.words
		test(t, tr)
		tr.slow(0, trioAddresses...)
	})
}

// carry counts what the server at the address is asked, and decides the fate of the
// frame.
func (tr *trio) carry(address string, f faultnet.Frame) faultnet.Verdict {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	switch {
	case f.Direction != faultnet.Up:
	case f.Op == zktest.OpConnect:
		tr.dialed = append(tr.dialed, address)
	case f.Op == faultnet.OpWord:
		tr.words++
	}
	if tr.hung[address] {
		return faultnet.Hold()
	}
	return faultnet.Pass()
}

// hang halts the server at the address.
func (tr *trio) hang(address string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.hung[address] = true
}

// slow delays everything that the servers at these addresses send.
func (tr *trio) slow(by time.Duration, addresses ...string) {
	for _, address := range addresses {
		tr.ways[address].Lag(faultnet.Down, by)
	}
}

// others returns the addresses of the servers that the session was not connected to when
// the test began.
func (tr *trio) others() []string {
	return slices.DeleteFunc(slices.Clone(trioAddresses), func(address string) bool { return address == tr.left })
}

// later returns the addresses of the handshakes since the test began, and the number of
// health checks since then.
func (tr *trio) later() (dialed []string, asked int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Clone(tr.dialed[tr.dials:]), tr.words - tr.asked
}

// wantKept checks that the lock is held, and how many times the session has reconnected.
func (tr *trio) wantKept(t *testing.T, what string, least, most int) {
	t.Helper()
	dialed, _ := tr.later()
	expect(t, len(dialed) >= least && len(dialed) <= most && (tr.a == nil || tr.a.Valid()),
		"%s the session connects again at %v, want %d to %d times, and the lock held", what, dialed, least, most)
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

// elsewhere waits until the session is connected to another address or the lock is lost,
// and returns how long that took.
func (tr *trio) elsewhere() time.Duration {
	begun := time.Now()
	for tr.a.Valid() && (tr.present() == tr.left || tr.c.State() != coordinator.StateConnected) {
		time.Sleep(time.Millisecond)
	}
	return time.Since(begun)
}

const halfSecond = 500 * time.Millisecond

// phased returns the nth of the phases of a probe interval, which is a tenth of the
// timeout.
func phased(timeout time.Duration, nth, phases int) time.Duration {
	return timeout / 10 * time.Duration(nth) / time.Duration(phases)
}

// One silent server of three costs no lock from a timeout of two ticks on, whatever the
// phase of the probes. The silent server is not tried again.
func TestASilentServerOfThreeCostsNoLock(t *testing.T) {
	trials := eventstest.Amount(4, 16)
	for name, silence := range map[string]func(*trio, string){
		"no power":            func(tr *trio, address string) { tr.ways[address].Partition() },
		"hangs":               (*trio).hang,
		"hears nothing":       func(tr *trio, address string) { tr.ways[address].Partition(faultnet.Up) },
		"is not heard itself": func(tr *trio, address string) { tr.ways[address].Partition(faultnet.Down) },
	} {
		for _, x := range []shape{
			{timeout: time.Second, tick: halfSecond, told: halfSecond}, {timeout: 6 * time.Second, tick: halfSecond, told: halfSecond},
			{timeout: 4 * time.Second, tick: 2 * time.Second}, {timeout: 5 * time.Second, tick: 2 * time.Second},
			{timeout: 6 * time.Second, tick: 2 * time.Second},
		} {
			t.Run(fmt.Sprintf("%s, T = %v, tick %v, told %v", name, x.timeout, x.tick, x.told), func(t *testing.T) {
				for trial := range trials {
					x.play(t, phased(x.timeout, trial, trials), func(t *testing.T, tr *trio) {
						session := tr.c.SessionID()
						silence(tr, tr.left)
						took := tr.elsewhere()
						time.Sleep(3 * x.timeout)
						most := x.timeout*3/10 + 100*time.Millisecond
						expect(t, took <= most && tr.c.SessionID() == session, "elsewhere after %v, in the session %#x; "+
							"want after %v at most, and %#x", took, tr.c.SessionID(), most, session)
						tr.wantKept(t, "after a silence", 1, 1)
						dialed, _ := tr.later()
						expect(t, !slices.Contains(dialed, tr.left), "%s is dialled again, want one of the others", tr.left)
					})
				}
			})
		}
	}
}

// The next server may be silent, too. After a reset, its handshake may take three tenths
// of the timeout, which is in time from two ticks on. After another silent server, it is
// not tried, because it does not answer the health check.
func TestTwoSilentServersOfThreeCostNoLock(t *testing.T) {
	const trials = 16
	x := shape{timeout: 2 * halfSecond, tick: halfSecond, told: halfSecond}
	for name, leave := range map[string]func(tr *trio, address string){
		"reset":  func(tr *trio, address string) { tr.ways[address].Refuse(true); tr.ways[address].Cut() },
		"silent": (*trio).hang,
	} {
		t.Run(name, func(t *testing.T) {
			mute, asked := 0, 0
			for trial := range trials {
				x.play(t, phased(x.timeout, trial, trials), func(t *testing.T, tr *trio) {
					tr.hang(tr.others()[trial%2])
					leave(tr, tr.left)
					time.Sleep(3 * x.timeout)
					tr.wantKept(t, "with two silent servers", 1, 2)
					dialed, words := tr.later()
					mute, asked = mute+len(dialed)-1, asked+words-1
				})
			}
			tried := name == "reset"
			expect(t, (mute > 0) == tried && (asked > 0 || tried),
				"%d handshakes with a silent server (wanted: %v), and it was asked %d times", mute, tried, asked)
		})
	}
}

// Right after a Grant that ended a long wait, the lease counts from a ping. It still
// outlives a silence from two and a quarter ticks on.
func TestASilentServerRightBehindAGrant(t *testing.T) {
	const trials = 16
	x := shape{timeout: 9 * halfSecond / 4, tick: halfSecond, told: halfSecond, idle: true}
	for trial := range trials {
		x.play(t, 0, func(t *testing.T, tr *trio) {
			held, _ := coordtest.Hold(t, coordtest.Connect(t, tr.server).Mutex(lockPath))
			w := coordtest.Queue(tr.c.Mutex(lockPath))
			time.Sleep(time.Minute + x.timeout/3*time.Duration(trial)/trials)
			held.Release()
			coordtest.Soon(t, w)
			tr.hang(tr.present())
			time.Sleep(3 * x.timeout)
			coordtest.NotLost(t, w)
		})
	}
}

// A session leaves a slow server for a quick one, and stays if all are slow. It does not
// hang up while it holds nothing, if there is only one server, or if a lost connection is
// a loss.
func TestSlowServersAreNoReconnectStorm(t *testing.T) {
	const timeout = 10 * time.Second
	strict := []coordinator.Option{coordinator.WithLossOnSuspend()}
	for name, c := range map[string]struct {
		shape

		part  float64 // of the timeout: how late they answer
		one   bool    // only the session's server is slow
		loses bool    // the lease runs out, and the lock is acquired again and again
		want  int     // connections in 20 timeouts
	}{
		"1.5 intervals":                               {part: 0.15},
		"2.2 intervals":                               {part: 0.22},
		"3.5 intervals":                               {part: 0.35},
		"3 intervals, one of them":                    {part: 0.3, one: true, want: 1},
		"5 intervals":                                 {part: 0.5, loses: true},
		"2.9 intervals, and nothing is held":          {part: 0.29, shape: shape{idle: true}},
		"2.2 intervals, one server":                   {part: 0.22, shape: shape{servers: "one:1"}},
		"3 intervals, one of them, suspended is lost": {part: 0.3, one: true, shape: shape{options: strict}},
		"2.2 intervals, suspended is lost":            {part: 0.22, shape: shape{options: strict}},
	} {
		t.Run(name, func(t *testing.T) {
			c.timeout, c.tick, c.told = timeout, halfSecond, halfSecond
			c.play(t, 0, func(t *testing.T, tr *trio) {
				late := trioAddresses
				if c.one {
					late = []string{tr.left}
				}
				tr.slow(time.Duration(c.part*float64(timeout)), late...)
				for end := time.Now().Add(20 * timeout); time.Now().Before(end); time.Sleep(timeout / 10) {
					if c.loses && coordtest.IsClosed(tr.a.Done()) {
						tr.a = tr.c.Mutex(lockPath).Acquire(t.Context())
					}
				}
				if c.loses {
					tr.a = nil
				}
				tr.wantKept(t, "in 20 timeouts", c.want, c.want)
			})
		})
	}
}

// If servers are slow now and then, and quick in between, a session hangs up at most
// twice in ten timeouts. Its current server is always the slow one.
func TestAReconnectStormHasABound(t *testing.T) {
	x := shape{timeout: 10 * time.Second, tick: halfSecond, told: halfSecond}
	x.play(t, 0, func(t *testing.T, tr *trio) {
		for range 20 {
			tr.slow(x.timeout/4, tr.present())
			time.Sleep(x.timeout / 2)
			tr.slow(0, trioAddresses...)
			time.Sleep(x.timeout / 2)
		}
		tr.wantKept(t, "in 20 timeouts", 2, 4)
	})
}

// A session notices a silence in time even with the rarest allowed probes.
func TestASilentServerIsNoticedWithRareProbes(t *testing.T) {
	const timeout = 6 * time.Second
	x := shape{timeout: timeout, tick: halfSecond, told: halfSecond, options: []coordinator.Option{coordinator.WithProbeInterval(timeout / 4)}}
	for phase := range 8 {
		x.play(t, timeout/4*time.Duration(phase)/8, func(t *testing.T, tr *trio) {
			tr.hang(tr.left)
			w := coordtest.Queue(tr.c.Mutex("/locks/other")) // the first request that is not answered
			took := tr.elsewhere()
			w.Release()
			const most = timeout/5 + 50*time.Millisecond
			expect(t, took <= most && tr.a.Valid(), "phase %d: connected elsewhere after %v, the lock valid: %v; "+
				"want after %v at most, and the lock held", phase, took, tr.a.Valid(), most)
		})
	}
}

// Requests to the silent server are repeated: if it has swallowed a claim, the lock is
// granted as soon as the session is connected elsewhere.
func TestAClaimThatASilentServerSwallowsIsMadeAgain(t *testing.T) {
	x := shape{timeout: 6 * time.Second, tick: halfSecond}
	x.play(t, 0, func(t *testing.T, tr *trio) {
		wanted, _ := coordtest.Hold(t, coordtest.Connect(t, tr.server).Mutex("/locks/wanted"))
		w := coordtest.Queue(tr.c.Mutex("/locks/wanted"))
		time.Sleep(3 * x.timeout)
		tr.ways[tr.left].Partition(faultnet.Up) // the event still comes
		begun := time.Now()
		coordtest.End(wanted)
		coordtest.Soon(t, w)
		took := time.Since(begun)
		expect(t, took <= x.timeout*3/10+200*time.Millisecond && tr.a.Valid(),
			"granted after %v, the other lock valid: %v; want after three intervals, both held", took, tr.a.Valid())
	})
}

// keptWith reports whether the lock is kept for 20 timeouts in which all answers of all
// servers are late by this much. If it is lost, the session must still be alive when the
// loss is delivered.
func (x shape) keptWith(t *testing.T, late, phase time.Duration) (kept bool) {
	t.Helper()
	x.play(t, phase, func(t *testing.T, tr *trio) {
		session := tr.c.SessionID()
		tr.slow(late, trioAddresses...)
		select {
		case <-tr.a.Lost():
			expect(t, slices.Contains(tr.server.Sessions(), session),
				"with answers %v late the loss is told when the session is over, want it before", late)
		case <-time.After(20 * x.timeout):
			kept = tr.a.Valid()
		}
	})
	return kept
}

// TestSlowAnswersCostNoLock up to (0.95 T - 5/8 tick - 2 probe intervals) / 2, with one
// server or three. If the lock is lost, the loss is delivered in time.
func TestSlowAnswersCostNoLock(t *testing.T) {
	trials := eventstest.Amount(5, 20)
	const ms = time.Millisecond
	for _, of := range []struct {
		shape

		late, lost time.Duration
	}{
		{shape{timeout: 10 * time.Second, tick: 2 * time.Second}, 3100 * ms, 3600 * ms},
		{shape{timeout: 10 * time.Second, tick: halfSecond, told: halfSecond}, 3550 * ms, 4600 * ms},
		{shape{timeout: 4 * time.Second, tick: 2 * time.Second}, 850 * ms, 1300 * ms}, // two ticks
	} {
		for _, of.servers = range []string{"one:1", "one:1,two:2,three:3"} {
			t.Run(fmt.Sprintf("T = %v, tick %v, told %v, %s", of.timeout, of.tick, of.told, of.servers), func(t *testing.T) {
				for trial := range trials {
					phase := phased(of.timeout, trial, trials)
					expect(t, of.keptWith(t, of.late, phase),
						"phase %v: the lock is lost with answers %v late, want it kept", phase, of.late)
					expect(t, !of.keptWith(t, of.lost, phase),
						"phase %v: the lock is kept with answers %v late; is the documented latency too small?", phase, of.lost)
				}
			})
		}
	}
}

// TestAHaltOfTheOnlyServerThatAnswers, 2.6 s long, costs no connection, no lock and no
// extra time: the other two servers do not answer, so hanging up would not help.
func TestAHaltOfTheOnlyServerThatAnswers(t *testing.T) {
	x := shape{timeout: 10 * time.Second, tick: 2 * time.Second}
	for name, refuse := range map[string]func(tr *trio, address string){
		"refuse":        func(tr *trio, address string) { tr.ways[address].Refuse(true) },
		"are silent":    (*trio).hang,
		"do not answer": func(tr *trio, address string) { tr.ways[address].Partition() },
	} {
		t.Run(name, func(t *testing.T) {
			trials := eventstest.Amount(5, 60)
			for trial := range trials {
				x.play(t, phased(x.timeout, trial, trials), func(t *testing.T, tr *trio) {
					for _, address := range tr.others() {
						refuse(tr, address)
					}
					tr.ways[tr.left].Partition()
					time.Sleep(2600 * time.Millisecond)
					tr.ways[tr.left].Heal()
					begun := time.Now()
					coordtest.Hold(t, tr.c.Mutex("/locks/other"))
					took := time.Since(begun)
					expect(t, took <= x.timeout/100, "after the halt a lock is granted after %v, want at once", took)
					time.Sleep(3 * x.timeout)
					tr.wantKept(t, "after a halt", 0, 0)
				})
			}
		})
	}
}

// TestALateWordOfAnotherServer: in one silence the other servers are asked, and it ends
// before one answers. The answer arrives in the next silence, and does not count: a
// server that answers that late need not be quicker than the silent one.
func TestALateWordOfAnotherServer(t *testing.T) {
	x := shape{timeout: 10 * time.Second, tick: 2 * time.Second}
	x.play(t, 0, func(t *testing.T, tr *trio) {
		tr.slow(x.timeout*3/10, tr.others()...)
		for asked := 0; asked == 0; _, asked = tr.later() { // the first silence ends a moment after the health check
			tr.ways[tr.left].Partition(faultnet.Down)
			time.Sleep(x.timeout / 100)
		}
		tr.ways[tr.left].Heal()
		tr.slow(x.timeout*3/10, tr.others()...)
		time.Sleep(x.timeout / 20)
		tr.slow(x.timeout*27/100, tr.left)
		time.Sleep(2 * x.timeout)
		tr.wantKept(t, "after a late word", 0, 0)
	})
}
