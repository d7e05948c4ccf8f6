package coordinator_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealQueue looks at queues through each of three servers, whose counters say that
// nothing came of it.
func TestRealQueue(t *testing.T) {
	t.Parallel()
	const dir, foreigners = "/locks/looked", 500
	e := ensemble.Start(t, 3)
	raw := coordtest.RawClient(t, e.Addr(0))
	holder, waiter := coordtest.ConnectReal(t, e.Connect()+"/app"), coordtest.ConnectReal(t, e.Connect()+"/app")
	held := holder.Mutex(dir).Acquire(t.Context(), coordinator.WithData([]byte("holder")))
	grant := coordtest.GrantOf(t, held)
	coordtest.Queued(t, raw, "/app"+dir, 1)
	waiter.Mutex(dir).Acquire(t.Context(), coordinator.WithData([]byte("waiter")))
	coordtest.Queued(t, raw, "/app"+dir, 2)
	made := make(chan error, foreigners)
	for i := range foreigners {
		go func() {
			_, err := raw.CreateProtectedEphemeralSequential("/app"+dir+"/lock-", fmt.Appendf(nil, "%d", i), zk.WorldACL(zk.PermAll))
			made <- err
		}()
	}
	for range foreigners {
		if err := <-made; err != nil {
			t.Fatal(err)
		}
	}
	if _, err := raw.Create("/app"+dir+"/notes", nil, 0, zk.WorldACL(0)); err != nil { // which nobody may read
		t.Fatal(err)
	}
	for i := range 3 {
		onlooker := coordtest.ConnectReal(t, e.Addr(i)+"/app")
		var queue []events.Contender
		eventstest.Eventually(t, "the server has caught up", func() bool {
			var err error
			if queue, err = onlooker.Mutex(dir).Queue(coordtest.RealContext(t)); err != nil {
				t.Fatal(err)
			}
			return len(queue) == 2+foreigners
		})
		for j, want := range []struct {
			data    string
			session int64
		}{{"holder", holder.SessionID()}, {"waiter", waiter.SessionID()}, {"", raw.SessionID()}} {
			got := queue[j]
			if want.data != "" && string(got.Data) != want.data || got.Session != want.session || got.Holding != (j == 0) ||
				got.Kind != events.KindLock || time.Since(got.Since).Abs() > coordtest.RealMax {
				t.Errorf("server %d: %d is %+v, want %+v", i, j, got, want)
			}
		}
		if queue[0].Node != grant.Node {
			t.Errorf("server %d: %+v holds, granted %+v", i, queue[0], grant)
		}
		if none, err := onlooker.Mutex("/locks/none").Queue(coordtest.RealContext(t)); err != nil || len(none) != 0 {
			t.Errorf("server %d: of nothing: %v, %v", i, none, err)
		}
	}
	if exists, _, err := raw.Exists("/app/locks/none"); err != nil || exists {
		t.Errorf("a look has made a directory: %v, %v", exists, err)
	}
	if _, err := raw.Create("/app"+dir+"/lock-0000009999", nil, 0, zk.WorldACL(0)); err != nil {
		t.Fatal(err)
	}
	eventstest.Eventually(t, "a refusal because of one that nobody may read", func() bool { // the holder's server may not know of it yet
		queue, err := holder.Mutex(dir).Queue(coordtest.RealContext(t))
		if err != nil && queue != nil {
			t.Errorf("%d contenders with %v", len(queue), err)
		}
		return errors.Is(err, coordinator.ErrNoAuth)
	})
	coordtest.NotLost(t, held)
	held.Release()
}
