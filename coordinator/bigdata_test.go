package coordinator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Contenders with much data of their own, which each look at them reads.

// TestAWalkLeavesTheLinkToLocks: a walk through much data on a narrow link costs no
// lease.
func TestAWalkLeavesTheLinkToLocks(t *testing.T) {
	const length, locks, link, timeout = 90 << 10, 90, 6 << 20 / 10, 10 * time.Second
	for what, has := range map[string]struct {
		short int
		node  string
	}{
		"locks":              {0, "/locks/%03d/lock-0000000000"},
		"a queue":            {0, "/locks/queue/lock-%010d"},
		"a queue in a crowd": {30, "/locks/queue/lock-%010d"},
	} {
		coordtest.Case(t, what, func(t *testing.T, srv *zktest.Server) {
			for i := range has.short {
				eventstest.Must(t, srv.Create(fmt.Sprintf("/locks/%03d/lock-0000000000", i), nil))
			}
			for i := range locks {
				eventstest.Must(t, srv.Create(fmt.Sprintf(has.node, i), make([]byte, length)))
			}
			narrow := coordinator.WithDialer(newNarrow(srv.DialContext, link).Dial)
			c := coordtest.Connect(t, srv, coordinator.WithSessionTimeout(timeout), narrow)
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
				expect(t, found == has.short+locks && bytes == locks*length,
					"the walk finds %d contenders with %d bytes, want %d with %d",
					found, bytes, has.short+locks, locks*length)
			}()
			for walking := true; walking; {
				select {
				case <-walked:
					walking = false
				case <-time.After(10 * time.Millisecond):
					least = min(least, time.Until(held.Deadline()))
				case loss := <-held.Lost():
					t.Fatalf("the lock is lost: %+v", loss)
				}
			}
			expect(t, least >= timeout/2,
				"%v of a lease of %v were left, want half of it at the least", least, timeout)
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
			coordtest.Queue(c.Mutex("/locks/poll"), coordinator.Data(make([]byte, size)))
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
			got := srv.Requests(zktest.OpGetData) - before
			expect(t, got == want && slices.Equal(seen, sizes),
				"a walk reads %d nodes, and finds waiters with %v bytes; want %d and %v", got, seen, want, sizes)
		}
	})
}
