package coordinator_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestAnIdleNodeIsNotListedAtEachChange: children that are no contenders come and go in
// the directory of an idle node. That costs two reads a probe interval at most.
func TestAnIdleNodeIsNotListedAtEachChange(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		kept(t, c)
		time.Sleep(3 * time.Second)
		reads := func() int {
			return srv.Requests(zktest.OpExists) + srv.Requests(zktest.OpGetData) + srv.Requests(zktest.OpGetChildren) + srv.Requests(zktest.OpGetChildren2)
		}
		before := reads()
		for i := range 1000 { // in 2 s
			child := fmt.Sprint(lockPath, "/note-", i)
			if err := srv.Create(child, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			if err := srv.Delete(child); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if n := reads() - before; n > 6 {
			t.Errorf("%d reads in two seconds of other children, want 6 at most", n)
		}
	})
}

// TestAPathThatWasNeverAcquiredIsForgotten: with WithCacheSize(0), acquisitions whose
// context has ended, each at a new path, keep nothing.
func TestAPathThatWasNeverAcquiredIsForgotten(t *testing.T) {
	const paths = 20_000
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv, coordinator.WithCacheSize(0))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		ask := func(from, to int) {
			for i := from; i < to; i++ {
				<-c.Mutex(fmt.Sprint(lockPath, "/", i), coordinator.Cached()).Acquire(ended).Done()
			}
		}
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		ask(0, paths/10)
		before := heap()
		ask(paths, 2*paths)
		if after := heap(); after > before+paths*100 {
			t.Errorf("%d bytes a path are kept, want none", (after-before)/paths)
		}
		runtime.KeepAlive(c)
	})
}

// TestEverDifferentDataCostNoWalk: acquisitions of one cached lock, each with data of its
// own, cost the same after a thousand as at first.
func TestEverDifferentDataCostNoWalk(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		lock, n := c.Mutex(lockPath, coordinator.Cached()), 0
		bytes := func(acquisitions int) uint64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range acquisitions {
				n++
				a := lock.Acquire(t.Context(), coordinator.Data(fmt.Append(nil, n)))
				coordtest.Soon(t, a)
				coordtest.End(a)
			}
			runtime.ReadMemStats(&after)
			return (after.TotalAlloc - before.TotalAlloc) / uint64(acquisitions)
		}
		bytes(20)
		first := bytes(20)
		bytes(1000)
		if later := bytes(20); later > first*5/4 {
			t.Errorf("%d bytes an acquisition at first, %d after a thousand with other data; want as many", first, later)
		}
	})
}
