package coordinator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealFreshPathsLeaveFewDirectories: one session takes a lock at an ever fresh path, 890 a second for 20 s, on a server that looks
// for empty containers once a minute and removes at most 10,000 of them.
func TestRealFreshPathsLeaveFewDirectories(t *testing.T) {
	eventstest.NeedsServers(t)
	const aSecond, most = 890, 2000
	seconds := eventstest.Amount(3, 20)
	e := ensemble.Start(t, 1, ensemble.Property("znode.container.checkIntervalMs", "60000"))
	c := coordtest.ConnectReal(t, e.Connect())
	raw := coordtest.RawClient(t, e.Connect())
	left := func() int {
		names, _, err := raw.Children("/locks")
		if err != nil {
			t.Logf("/locks: %v", err)
		}
		return len(names)
	}
	var callers sync.WaitGroup
	var took sync.Mutex
	var longest time.Duration
	begin := time.Now()
	room := make(chan struct{}, 64)
	for i := range aSecond * seconds {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / aSecond)))
		room <- struct{}{}
		callers.Go(func() {
			defer func() { <-room }()
			asked := time.Now()
			a := c.Mutex(fmt.Sprintf("/locks/order-%d", i)).Acquire(context.Background())
			coordtest.GrantOf(t, a)
			took.Lock()
			longest = max(longest, time.Since(asked))
			took.Unlock()
			coordtest.End(a)
		})
	}
	callers.Wait()
	ran := time.Since(begin)
	atEnd := left()
	deadline := time.Now().Add(15 * time.Second)
	for left() > 0 && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	n := left()
	t.Logf("%d locks at fresh paths in %v, the longest wait %v: %d directories at the end, %d within 15 s of it",
		aSecond*seconds, ran.Round(time.Millisecond), longest.Round(time.Millisecond), atEnd, n)
	if n > most {
		t.Errorf("%d directories are left, want at most %d", n, most)
	}
}
