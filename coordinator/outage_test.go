package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// An acquisition that is given up before it was sent is never sent, and nothing of it stays.

// inTheOutage is where the locks are that are tried for in vain.
const inTheOutage = "/outage/"

// triers are the ways to ask for a lock that is given up before a server hears of it.
func triers() map[string]func(c *coordinator.Coordinator, at string) *coordinator.Acquisition {
	background := context.Background()
	later := func(a *coordinator.Acquisition) *coordinator.Acquisition {
		synctest.Wait() // it has asked for what it begins with
		a.Release()
		return a
	}
	released := func(l *coordinator.Lock, options ...coordinator.AcquireOption) *coordinator.Acquisition {
		return later(l.Acquire(background, options...))
	}
	return map[string]func(c *coordinator.Coordinator, at string) *coordinator.Acquisition{
		"a bounded wait": func(c *coordinator.Coordinator, at string) *coordinator.Acquisition {
			return c.Mutex(at).Acquire(background, coordinator.WithMaxWait(time.Millisecond))
		},
		"the end of a context": func(c *coordinator.Coordinator, at string) *coordinator.Acquisition {
			ctx, cancel := context.WithCancel(background)
			a := c.Mutex(at).Acquire(ctx)
			cancel()
			return a
		},
		"a release": func(c *coordinator.Coordinator, at string) *coordinator.Acquisition { return released(c.Mutex(at)) },
		"a release at once": func(c *coordinator.Coordinator, at string) *coordinator.Acquisition {
			a := c.Mutex(at).Acquire(background)
			a.Release()
			return a
		},
		"a try": func(c *coordinator.Coordinator, at string) *coordinator.Acquisition {
			return released(c.Mutex(at), coordinator.Try())
		},
		"a reader": func(c *coordinator.Coordinator, at string) *coordinator.Acquisition {
			return released(c.ReadWrite(at).Read())
		},
		"a multi-lock": func(c *coordinator.Coordinator, at string) *coordinator.Acquisition {
			return released(c.Multi(c.Mutex(at+"a"), c.Mutex(at+"b")))
		},
		"an unfair lock": func(c *coordinator.Coordinator, at string) *coordinator.Acquisition { return released(c.Unfair(at)) },
		"a lock that detects": func(c *coordinator.Coordinator, at string) *coordinator.Acquisition {
			return released(c.Mutex(at, coordinator.DetectCrash()))
		},
		"permits": func(c *coordinator.Coordinator, at string) *coordinator.Acquisition {
			return later(c.Semaphore(at, 2).Acquire(background))
		},
		"permits, a try": func(c *coordinator.Coordinator, at string) *coordinator.Acquisition {
			return later(c.Semaphore(at, 2).Acquire(background, coordinator.Try()))
		},
	}
}

// heap returns what is in use.
func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// noted notes the requests for the tried locks, and returns a function that reads them.
func noted(srv *zktest.Server) (read func() int) {
	var n atomic.Int32
	srv.Intercept(func(r zktest.Request) zktest.Action {
		paths := []string{r.Path}
		for _, p := range r.Parts {
			paths = append(paths, p.Path)
		}
		if slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, inTheOutage) }) {
			n.Add(1)
		}
		return zktest.Pass()
	})
	return func() int { return int(n.Load()) }
}

// TestATryInAnOutageLeavesNothing: while no server can be reached a caller asks for locks, and gives each up. Afterwards nothing of
// that is left: no memory, and no request at the next connection.
func TestATryInAnOutageLeavesNothing(t *testing.T) {
	tries := eventstest.Many(1000, 20_000)
	const most = 100 // bytes
	for name, try := range triers() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
				held, _ := coordtest.Hold(t, c.Mutex(lockPath))
				requests := noted(srv)
				srv.Down(true)
				synctest.Wait()
				tryFor := func(n int) {
					for i := range n {
						a := try(c, fmt.Sprint(inTheOutage, i%10))
						<-a.Done()
					}
					synctest.Wait()
				}
				tryFor(tries / 10) // what a first try makes is kept
				kept := most + 1
				for again := 3; kept > most && again > 0; again-- { // the runtime may keep something for itself, but not each time
					before := heap()
					tryFor(tries)
					kept = (heap() - before) / tries
				}
				if kept > most {
					t.Errorf("each of %d tries keeps %d bytes when it is done, want at most %d", tries, kept, most)
				}
				srv.Down(false)
				fresh, _ := coordtest.Hold(t, c.Mutex("/locks/fresh"))
				time.Sleep(time.Second)
				if got := requests(); got > 0 {
					t.Errorf("%d requests are made for locks that were given up, want none", got)
				}
				if !held.Valid() {
					t.Error("a lock is lost in a short outage")
				}
				fresh.Release()
				held.Release()
			})
		})
	}
}

// TestATryBehindABurstLeavesNothing: the same with a connection, for acquisitions of which the requests wait for room.
func TestATryBehindABurstLeavesNothing(t *testing.T) {
	const rtt = time.Second
	for name, try := range triers() {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
				coordtest.Hold(t, c.Mutex(lockPath))
				srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(rtt) })
				start := time.Now()
				all := burst(c, 200)
				synctest.Wait()
				requests := noted(srv)
				for i := range 100 {
					<-try(c, fmt.Sprint(inTheOutage, i)).Done()
				}
				if took := time.Since(start); took > rtt/2 {
					t.Errorf("they are done after %v, want it before any answer", took)
				}
				for _, a := range all {
					if _, err := a.Wait(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if got := requests(); got > 0 {
					t.Errorf("%d requests are made for locks that were given up, want none", got)
				}
			})
		})
	}
}

// TestReleasedWhileItIsSent: an acquire that is given up after it was sent leaves no node either, whether its answer comes or not.
func TestReleasedWhileItIsSent(t *testing.T) {
	for name, lost := range map[string]func() zktest.Action{
		"answered late": func() zktest.Action { return zktest.Delay(time.Second) }, "answer lost": zktest.CutAfter, "request lost": zktest.CutBefore,
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				c := coordtest.Connect(t, srv)
				coordtest.Warm(t, c)
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if coordtest.Creates(r) {
						srv.Intercept(nil)
						return lost()
					}
					return zktest.Pass()
				})
				a := c.Mutex(lockPath).Acquire(context.Background())
				a.Release()
				<-a.Done()
				time.Sleep(5 * time.Second)
				if got := srv.Children(lockPath); len(got) > 0 {
					t.Errorf("%v is left, want nothing", got)
				}
			})
		})
	}
}

// TestAReleaseWithoutTheAcquireBehindIt: a lock is released and asked for again, which would be one request. The second acquire is
// given up. The release is made, and another acquire has the place in the request.
func TestAReleaseWithoutTheAcquireBehindIt(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		coordtest.Warm(t, c)
		held, _ := coordtest.Hold(t, c.Mutex(lockPath))
		srv.Down(true)
		synctest.Wait()
		held.Release()
		given := coordtest.Queue(c.Mutex(lockPath))
		given.Release()
		<-given.Done()
		next := coordtest.Queue(c.Mutex(lockPath))
		var creates, multis atomic.Int32
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpMulti {
				multis.Add(1)
			}
			if coordtest.Creates(r) {
				creates.Add(1)
			}
			return zktest.Pass()
		})
		srv.Down(false)
		grant := coordtest.Soon(t, next)
		if got := srv.Children(lockPath); len(got) != 1 || !strings.HasSuffix(grant.Node, got[0]) {
			t.Errorf("%v are there, want the node of %+v", got, grant)
		}
		if creates.Load() != 0 || multis.Load() != 1 {
			t.Errorf("%d transactions and %d creates of their own are made, want one that releases and makes the next one's node", multis.Load(), creates.Load())
		}
	})
}

// A cutter is a network of which all connections break at once. While it is down none is made.
type cutter struct {
	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

var errDown = errors.New("the network is down")

func (b *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, errDown
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		b.conns = append(b.conns, conn)
	}
	return conn, err
}

// breaks closes all connections. If down it makes no new ones.
func (b *cutter) breaks(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
	for _, conn := range b.conns {
		_ = conn.Close()
	}
	b.conns = nil
}

// TestRealTriesInAnOutage: on a real server, a fresh lock is granted at once when the connection is back, however many tries for
// others there were meanwhile.
func TestRealTriesInAnOutage(t *testing.T) {
	eventstest.NeedsServers(t)
	tries := eventstest.Many(5_000, 100_000)
	e := largeServer(t)
	network := &cutter{}
	c := coordtest.ConnectReal(t, e.Addr(0), coordinator.WithSessionTimeout(30*time.Second), coordinator.WithDialer(network.dial))
	coordtest.GrantOf(t, c.Mutex("/real/outage/warm").Acquire(context.Background()))
	network.breaks(true)
	eventstest.Eventually(t, "the connection is lost", func() bool { return c.State() == coordinator.StateSuspended })
	before := heap()
	for i := range tries {
		a := c.Mutex(fmt.Sprint("/real/outage/", i%100)).Acquire(context.Background())
		a.Release()
		<-a.Done()
	}
	kept := (heap() - before) / tries
	var took time.Duration
	toll := coordtest.RealToll(t, e, func() {
		network.breaks(false)
		eventstest.Eventually(t, "the connection is back", func() bool { return c.State() == coordinator.StateConnected })
		start := time.Now()
		coordtest.GrantOf(t, c.Mutex("/real/outage/fresh").Acquire(context.Background()))
		took = time.Since(start)
	})
	t.Logf("%d tries keep %d bytes each; a fresh lock is granted %v after the connection is back, for %.0f packets", tries, kept, took, toll.Packets)
	if most := 100; kept > most || toll.Packets > 100 {
		t.Errorf("each of %d tries keeps %d bytes, and %.0f packets are sent up to the first grant; want at most %d bytes, and 100 packets", tries, kept, toll.Packets, most)
	}
}
