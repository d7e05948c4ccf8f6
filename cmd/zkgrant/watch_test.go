//go:build unix

package main

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestAWaiterThatIsGrantedHasNotGone(t *testing.T) { watchSemaphore(t, zktest.Start(t).Addr()) }

func testRealWatchOfASemaphore(t *testing.T, e *ensemble.Ensemble) { watchSemaphore(t, e.Connect()) }

// watchSemaphore has a permit handed on. The waiter's node is replaced by another one in another directory, and watch tells of one contender.
func watchSemaphore(t *testing.T, servers string) {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), servers, coordinator.WithSessionTimeout(10*time.Second))
	eventstest.Must(t, err)
	defer func() { eventstest.Check(t, c.Close()) }()
	acquire := func(name string) *coordinator.Acquisition {
		return c.Semaphore("/watch/permit", 1).Acquire(t.Context(), coordinator.WithData([]byte(name)))
	}
	news := c.Events(t.Context())
	first := acquire("first")
	eventstest.Receive(t, first.Granted(), "the permit")
	second := acquire("second")
	defer second.Release()
	for queued := false; !queued; {
		event, ok := eventstest.Receive(t, news, "the place of the second").(events.Queued)
		queued = ok && event.ID == second.ID()
	}

	watch := beginWith(t, nil, []string{"ZKGRANT_SERVERS=" + servers}, "watch", "--every", "20ms", "/watch/permit")
	watch.Await(t, "second", 1)
	first.Release()
	eventstest.Receive(t, second.Granted(), "the permit")
	watch.Await(t, "holds     second", 1)
	watch.Send(os.Interrupt)
	watch.Exits(0)
	const want = `^\S+  holds     first  .*\n\S+  waits     second  .*\n(\S+  has gone  first  .*\n\S+  holds     second  .*\n)$`
	if !regexp.MustCompile(want).MatchString(watch.String()) {
		t.Errorf("watch prints\n%s\nwant %s", watch, want)
	}
}
