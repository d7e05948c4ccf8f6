package coordinator_test

import (
	"context"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lockPath is the lock that most tests fight for.
const lockPath = "/locks/reindex"

// bubble runs the test in virtual time against a server of its own.
func bubble(t *testing.T, test func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		test(t, zktest.Start(t))
	})
}

// connect returns a coordinator, with a session of its own, that is closed at the
// end of the test.
func connect(t *testing.T, srv *zktest.Server, options ...coordinator.Option) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.Connect(t.Context(), srv.Addr(), append([]coordinator.Option{srv.Option()}, options...)...)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Logf("Close: %v", err)
		}
	})
	return c
}

// hold returns a granted acquisition.
func hold(t *testing.T, l *coordinator.Lock, options ...coordinator.AcquireOption) (*coordinator.Acquisition, events.Grant) {
	t.Helper()
	a := l.Acquire(context.Background(), options...)
	grant, err := a.Wait(t.Context())
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return a, grant
}

// queue returns an acquisition that has taken its place in the queue. It works in
// bubbles only.
func queue(l *coordinator.Lock, options ...coordinator.AcquireOption) *coordinator.Acquisition {
	a := l.Acquire(context.Background(), options...)
	synctest.Wait()
	return a
}

// warm has each of them hold the lock once, so that they know its directory for ours.
func warm(t *testing.T, cs ...*coordinator.Coordinator) {
	t.Helper()
	for range 2 { // whoever makes the directory learns by the next listing that it is ours
		for _, c := range cs {
			a, _ := hold(t, c.Mutex(lockPath))
			a.Release()
			<-a.Done()
		}
	}
}

// creates tells whether the request makes a contender's node, alone or with the directory's marker.
func creates(r zktest.Request) bool {
	return r.Op == zktest.OpCreate || r.Op == zktest.OpMulti && len(r.Parts) > 0 && r.Parts[0].Op == zktest.OpCreate
}

// isClosed tells whether the channel is closed.
func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
