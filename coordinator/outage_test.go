package coordinator_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// An acquisition that is given up before it was sent is never sent, and leaves nothing
// behind.

// inTheOutage is the parent of the locks that are acquired in vain.
const inTheOutage = "/outage/"

// trier is a way to request a lock and give it up before a server receives the request.
type trier struct {
	lock    func(c *coordinator.Coordinator, at string) handle
	options []coordinator.AcquireOption
	ends    func(a *coordinator.Acquisition, cancel context.CancelFunc) // nil: its wait ends
}

func (x trier) try(c *coordinator.Coordinator, at string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a := x.lock(c, at).Acquire(ctx, x.options...)
	if x.ends != nil {
		x.ends(a, cancel)
	}
	<-a.Done()
}

func triers() map[string]trier {
	mutex := func(c *coordinator.Coordinator, at string) handle { return c.Mutex(at) }
	permits := func(c *coordinator.Coordinator, at string) handle { return c.Semaphore(at, 2) }
	reader := func(c *coordinator.Coordinator, at string) handle { return c.ReadWrite(at).Read() }
	multi := func(c *coordinator.Coordinator, at string) handle { return mutexes(c, at+"a", at+"b") }
	unfair := func(c *coordinator.Coordinator, at string) handle { return c.Unfair(at) }
	crash := coordinator.DetectCrash()
	detects := func(c *coordinator.Coordinator, at string) handle { return c.Mutex(at, crash) }
	released := func(a *coordinator.Acquisition, _ context.CancelFunc) {
		synctest.Wait() // its first request is queued
		a.Release()
	}
	atOnce := func(a *coordinator.Acquisition, _ context.CancelFunc) { a.Release() }
	cancelled := func(_ *coordinator.Acquisition, cancel context.CancelFunc) { cancel() }
	brief := []coordinator.AcquireOption{coordinator.MaxWait(time.Millisecond)}
	try := []coordinator.AcquireOption{coordinator.Try()}
	return map[string]trier{
		"a bounded wait":       {mutex, brief, nil},
		"the end of a context": {mutex, nil, cancelled},
		"a release":            {mutex, nil, released},
		"a release at once":    {mutex, nil, atOnce},
		"a try":                {mutex, try, released},
		"permits":              {permits, nil, released},
		"permits, a try":       {permits, try, released},
		"a reader":             {reader, nil, released},
		"a multi-lock":         {multi, nil, released},
		"an unfair lock":       {unfair, nil, released},
		"a lock that detects":  {detects, nil, released},
	}
}

func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

func isTried(r zktest.Request) bool {
	return slices.ContainsFunc(append(r.Parts, zktest.Part{Path: r.Path}), func(p zktest.Part) bool {
		return strings.HasPrefix(p.Path, inTheOutage)
	})
}

// TestATryInAnOutageLeavesNothing: no memory, and no request on the next connection.
func TestATryInAnOutageLeavesNothing(t *testing.T) {
	tries := eventstest.Many(1000, 20_000)
	const most = 100 // bytes
	forEach(t, triers(), func(t *testing.T, srv *zktest.Server, x trier) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		held, _ := coordtest.Hold(t, c.Mutex(lockPath))
		requests := counting(srv, isTried)
		srv.Down(true)
		synctest.Wait()
		tryFor := func(n int) {
			for i := range n {
				x.try(c, fmt.Sprint(inTheOutage, i%10))
			}
			synctest.Wait()
		}
		tryFor(tries / 10) // the first tries allocate what is kept
		kept := most + 1
		for again := 3; kept > most && again > 0; again-- { // the runtime may keep something for itself, but not every time
			before := heap()
			tryFor(tries)
			kept = (heap() - before) / tries
		}
		expect(t, kept <= most, "each of %d tries keeps %d bytes afterwards, want at most %d", tries, kept, most)
		srv.Down(false)
		coordtest.Hold(t, c.Mutex("/locks/fresh"))
		time.Sleep(time.Second)
		expect(t, requests.Load() == 0, "%d requests for locks that were given up, want none", requests.Load())
		coordtest.NotLost(t, held)
	})
}

// TestATryBehindABurstLeavesNothing checks the same during a connection, for acquisitions
// whose requests wait for room.
func TestATryBehindABurstLeavesNothing(t *testing.T) {
	const rtt = time.Second
	forEach(t, triers(), func(t *testing.T, srv *zktest.Server, x trier) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		coordtest.Hold(t, c.Mutex(lockPath))
		srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(rtt) })
		start := time.Now()
		all := burst(c, 200)
		synctest.Wait()
		requests := counting(srv, isTried)
		for i := range 100 {
			x.try(c, fmt.Sprint(inTheOutage, i))
		}
		expect(t, time.Since(start) <= rtt/2, "they are done after %v, want before any answer", time.Since(start))
		granted(t, all)
		expect(t, requests.Load() == 0, "%d requests for locks that were given up, want none", requests.Load())
	})
}

// TestReleasedWhileItIsSent: an acquisition that is given up after its create was sent
// leaves no node either, whether the answer arrives or not.
func TestReleasedWhileItIsSent(t *testing.T) {
	forEach(t, map[string]zktest.Action{
		"answered late": zktest.Delay(time.Second), "answer lost": zktest.CutAfter(), "request lost": zktest.CutBefore(),
	}, func(t *testing.T, srv *zktest.Server, lost zktest.Action) {
		c := coordtest.Connect(t, srv)
		coordtest.Warm(t, c)
		once(srv, lost, coordtest.Creates)
		coordtest.End(c.Mutex(lockPath).Acquire(context.Background()))
		time.Sleep(5 * time.Second)
		expect(t, len(srv.Children(lockPath)) == 0, "%v is left, want nothing", srv.Children(lockPath))
	})
}

// TestAReleaseWithoutTheAcquireBehindIt: a lock is released and acquired again, which
// would be one request. The second acquisition is given up. The release is still sent,
// combined with a third acquisition.
func TestAReleaseWithoutTheAcquireBehindIt(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		coordtest.Warm(t, c)
		held, _ := coordtest.Hold(t, c.Mutex(lockPath))
		srv.Down(true)
		synctest.Wait()
		held.Release()
		coordtest.End(coordtest.Queue(c.Mutex(lockPath)))
		next := coordtest.Queue(c.Mutex(lockPath))
		multis, alone := srv.Requests(zktest.OpMulti), counting(srv, coordtest.Creates)
		srv.Down(false)
		grant := coordtest.Soon(t, next)
		got := srv.Children(lockPath)
		expect(t, len(got) == 1 && strings.HasSuffix(grant.Node, got[0]), "%v are there, granted %+v", got, grant)
		multis = srv.Requests(zktest.OpMulti) - multis
		expect(t, alone.Load() == 0 && multis == 1, "%d transactions and %d creates of their own are made, "+
			"want one that releases and makes the next one's node", multis, alone.Load())
	})
}

// TestAWithdrawnCreateMakesNoNodeLater: an acquisition is released while its directories
// are being made, and a fault follows. Its caller acquires the lock again. From then on,
// the only nodes are those of the second acquisition.
func TestAWithdrawnCreateMakesNoNodeLater(t *testing.T) {
	const lag = 20 * time.Millisecond // each way
	kinds := map[string]struct {
		of    func(c *coordinator.Coordinator, dir string) handle
		nodes int
	}{
		"mutex":     {func(c *coordinator.Coordinator, dir string) handle { return c.Mutex(dir + "/a") }, 1},
		"semaphore": {func(c *coordinator.Coordinator, dir string) handle { return c.Semaphore(dir+"/s", 1) }, 1},
		"multi":     {func(c *coordinator.Coordinator, d string) handle { return mutexes(c, d+"/b", d+"/c") }, 2},
	}
	type fault struct {
		direction faultnet.Direction
		verdict   faultnet.Verdict
		cut       time.Duration // the connection ends this much later; 0: never
	}
	swallowed, dropped := faultnet.Swallow(), faultnet.Drop()
	faults := []fault{
		{faultnet.Up, swallowed, 0}, {faultnet.Up, dropped, time.Second},
		{faultnet.Down, swallowed, 0}, {faultnet.Down, dropped, time.Second},
		{faultnet.Down, faultnet.CutBefore(), 0}, {faultnet.Down, faultnet.CutAfter(), 0},
	}
	play := func(t *testing.T, srv *zktest.Server, kind string, dir string, released time.Duration, f fault, nth int32) {
		of, most := kinds[kind].of, kinds[kind].nodes
		nodes := func() (n int) {
			for _, node := range srv.Tree() {
				if srv.Owner(node) != 0 {
					n++
				}
			}
			return n
		}
		var phase, frames atomic.Int32 // phase: 1 acquiring, 2 released, 3 acquiring again
		var network *faultnet.Network
		network = faultnet.New(srv.DialContext, func(x faultnet.Frame) faultnet.Verdict {
			expect(t, phase.Load() != 3 || nodes() <= most, "%d nodes, want %d at most", nodes(), most)
			// A frame upwards is judged when it is sent, and one downwards when it
			// arrives. A request that the client sends after the end of a connection
			// waits in its queue, and cannot be taken back.
			if x.Op == zktest.OpPing || x.Direction != f.direction || phase.Load() < int32(f.direction) || frames.Add(1) != nth {
				return faultnet.Pass()
			}
			if f.cut > 0 {
				time.AfterFunc(f.cut, network.Cut)
			}
			return f.verdict
		})
		c := coordtest.Connect(t, srv, coordinator.WithDialer(network.Dial))
		holdAgainAndAgain(t, c.Mutex("/locks/first"), 1) // from now on the session knows that the server has containers
		network.Lag(faultnet.Up, lag)
		network.Lag(faultnet.Down, lag)
		phase.Store(1)
		first := of(c, dir).Acquire(context.Background())
		time.Sleep(released)
		phase.Store(2)
		coordtest.End(first)
		for nodes() > 0 {
			time.Sleep(lag)
		}
		phase.Store(3)
		holdAgainAndAgain(t, of(c, dir), 1)
		time.Sleep(time.Minute)
		expect(t, nodes() == 0, "%d nodes are left, want none", nodes())
	}
	for kind := range kinds {
		for _, f := range faults {
			if kind != "mutex" && f.verdict != faultnet.CutAfter() {
				continue
			}
			for nth := int32(1); nth <= 4; nth++ {
				for _, dir := range []string{"/locks", "/more"} {
					for _, released := range []time.Duration{lag / 2, lag/2 + 2*lag} {
						name := fmt.Sprintf("%s in %s, released after %v, frame %d %v: %v", kind, dir, released, nth, f.direction, f.verdict)
						coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) {
							play(t, srv, kind, dir, released, f, nth)
						})
					}
				}
			}
		}
	}
}
