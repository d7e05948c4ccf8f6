package coordinator_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Contenders with much data of their own, which each look at them reads.

// TestAWalkLeavesTheLinkToLocks: a session that walks through locks with much data on a narrow link keeps its own lock. Its lease
// is as long as with few answers on the link at a time.
func TestAWalkLeavesTheLinkToLocks(t *testing.T) {
	const (
		length  = 90 << 10
		locks   = 90
		link    = 6 << 20 / 10
		timeout = 10 * time.Second
	)
	big := make([]byte, length)
	for what, has := range map[string]struct {
		short int
		node  string
	}{
		"locks":              {0, "/locks/%03d/lock-0000000000"},
		"a queue":            {0, "/locks/queue/lock-%010d"},
		"a queue in a crowd": {30, "/locks/queue/lock-%010d"},
	} {
		t.Run(what, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				for i := range has.short {
					eventstest.Must(t, srv.Create(fmt.Sprintf("/locks/%03d/lock-0000000000", i), nil))
				}
				for i := range locks {
					eventstest.Must(t, srv.Create(fmt.Sprintf(has.node, i), big))
				}
				c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(timeout), coordinator.WithDialer(newNarrow(srv, link).Dial))
				held, _ := coordtest.Hold(t, c.Mutex("/held"))
				least, walked := timeout, make(chan struct{})
				go func() {
					defer close(walked)
					found, bytes := 0, 0
					for info, err := range c.Locks(t.Context(), "/locks") {
						eventstest.Check(t, err)
						for _, contender := range info.Contenders {
							found++
							bytes += len(contender.Data)
						}
					}
					if found != has.short+locks || bytes != locks*length {
						t.Errorf("the walk finds %d contenders with %d bytes, want %d with %d", found, bytes, has.short+locks, locks*length)
					}
				}()
				start := time.Now()
				for walking := true; walking; {
					select {
					case <-walked:
						walking = false
					case <-time.After(10 * time.Millisecond):
						least = min(least, time.Until(held.Deadline()))
					case loss := <-held.Lost():
						t.Fatalf("the lock is lost %v after the walk has begun: %+v", time.Since(start), loss)
					}
				}
				t.Logf("the walk took %v, and %v of the lease were left at the least", time.Since(start), least)
				if least < timeout/2 {
					t.Errorf("%v of a lease of %v were left, want half of it at the least", least, timeout)
				}
			})
		})
	}
}

// TestPollKeepsNoLongData: only a waiter with more data than 4 KiB is read again.
func TestPollKeepsNoLongData(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		const most = 4 << 10
		c := coordtest.Connect(t, srv)
		coordtest.Hold(t, c.Mutex("/locks/poll"))
		sizes := []int{0, 1, most - 512, most + 1, 900 << 10}
		for _, size := range sizes {
			c.Mutex("/locks/poll").Acquire(t.Context(), coordinator.WithData(make([]byte, size)))
			synctest.Wait()
		}
		walk := c.Poll("/locks")
		for _, want := range []int{1 + len(sizes), 1 + 2, 1 + 2} {
			before, seen := srv.Requests(zktest.OpGetData), []int{}
			for info, err := range walk(t.Context()) {
				eventstest.Check(t, err)
				for _, contender := range info.Contenders[1:] {
					seen = append(seen, len(contender.Data))
				}
			}
			if got := srv.Requests(zktest.OpGetData) - before; got != want || !slices.Equal(seen, sizes) {
				t.Errorf("a walk reads %d nodes, and finds waiters with %v bytes; want %d and %v", got, seen, want, sizes)
			}
		}
	})
}
