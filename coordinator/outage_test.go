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
)

// An acquisition that is given up before it was sent is never sent, and nothing of it
// stays.

// inTheOutage is where the locks are that are tried for in vain.
const inTheOutage = "/outage/"

// trier is a way to ask for a lock that is given up before a server hears of it.
type trier struct {
	lock    func(c *coordinator.Coordinator, at string) handle
	options []coordinator.AcquireOption
	ends    func(a *coordinator.Acquisition, cancel context.CancelFunc) // nil: with its wait
}

// try asks for the lock at the path, gives up, and waits for the end.
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
	released := func(a *coordinator.Acquisition, _ context.CancelFunc) {
		synctest.Wait() // it has asked for what it begins with
		a.Release()
	}
	atOnce := func(a *coordinator.Acquisition, _ context.CancelFunc) { a.Release() }
	cancelled := func(_ *coordinator.Acquisition, cancel context.CancelFunc) { cancel() }
	brief, try := []coordinator.AcquireOption{coordinator.MaxWait(time.Millisecond)}, []coordinator.AcquireOption{coordinator.Try()}
	return map[string]trier{
		"a bounded wait":       {mutex, brief, nil},
		"the end of a context": {mutex, nil, cancelled},
		"a release":            {mutex, nil, released},
		"a release at once":    {mutex, nil, atOnce},
		"a try":                {mutex, try, released},
		"permits":              {permits, nil, released},
		"permits, a try":       {permits, try, released},
		"a reader": {func(c *coordinator.Coordinator, at string) handle {
			return c.ReadWrite(at).Read()
		}, nil, released},
		"a multi-lock": {func(c *coordinator.Coordinator, at string) handle {
			return c.Multi(c.Mutex(at+"a"), c.Mutex(at+"b"))
		}, nil, released},
		"an unfair lock": {func(c *coordinator.Coordinator, at string) handle {
			return c.Unfair(at)
		}, nil, released},
		"a lock that detects": {func(c *coordinator.Coordinator, at string) handle {
			return c.Mutex(at, coordinator.DetectCrash())
		}, nil, released},
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

// TestATryInAnOutageLeavesNothing: while no server can be reached a caller asks for
// locks, and gives each up. Afterwards nothing of that is left: no memory, and no request
// at the next connection.
func TestATryInAnOutageLeavesNothing(t *testing.T) {
	tries := eventstest.Many(1000, 20_000)
	const most = 100 // bytes
	forEach(t, triers(), func(t *testing.T, srv *zktest.Server, x trier) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		held, _ := coordtest.Hold(t, c.Mutex(lockPath))
		requests := noted(srv)
		srv.Down(true)
		synctest.Wait()
		tryFor := func(n int) {
			for i := range n {
				x.try(c, fmt.Sprint(inTheOutage, i%10))
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
		coordtest.Hold(t, c.Mutex("/locks/fresh"))
		time.Sleep(time.Second)
		if got := requests(); got > 0 {
			t.Errorf("%d requests are made for locks that were given up, want none", got)
		}
		coordtest.NotLost(t, held)
	})
}

// TestATryBehindABurstLeavesNothing: the same with a connection, for acquisitions of
// which the requests wait for room.
func TestATryBehindABurstLeavesNothing(t *testing.T) {
	const rtt = time.Second
	forEach(t, triers(), func(t *testing.T, srv *zktest.Server, x trier) {
		c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(time.Minute))
		coordtest.Hold(t, c.Mutex(lockPath))
		srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(rtt) })
		start := time.Now()
		all := burst(c, 200)
		synctest.Wait()
		requests := noted(srv)
		for i := range 100 {
			x.try(c, fmt.Sprint(inTheOutage, i))
		}
		if took := time.Since(start); took > rtt/2 {
			t.Errorf("they are done after %v, want it before any answer", took)
		}
		granted(t, all)
		if got := requests(); got > 0 {
			t.Errorf("%d requests are made for locks that were given up, want none", got)
		}
	})
}

// TestReleasedWhileItIsSent: an acquire that is given up after it was sent leaves no node
// either, whether its answer comes or not.
func TestReleasedWhileItIsSent(t *testing.T) {
	forEach(t, map[string]zktest.Action{
		"answered late": zktest.Delay(time.Second), "answer lost": zktest.CutAfter(), "request lost": zktest.CutBefore(),
	}, func(t *testing.T, srv *zktest.Server, lost zktest.Action) {
		c := coordtest.Connect(t, srv)
		coordtest.Warm(t, c)
		strike(srv, lost, func(r zktest.Request) (meant bool) {
			if meant = coordtest.Creates(r); meant {
				srv.Intercept(nil)
			}
			return meant
		})
		a := c.Mutex(lockPath).Acquire(context.Background())
		coordtest.End(a)
		time.Sleep(5 * time.Second)
		if got := srv.Children(lockPath); len(got) > 0 {
			t.Errorf("%v is left, want nothing", got)
		}
	})
}

// TestAReleaseWithoutTheAcquireBehindIt: a lock is released and asked for again, which
// would be one request. The second acquire is given up. The release is made, and another
// acquire has the place in the request.
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
