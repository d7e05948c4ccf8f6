package actors_test

import (
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/actors/internal/actorstest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon waits until the condition holds. It looks often first: here the wait is a matter of nanoseconds, on another processor.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 1000 {
		if holds() {
			return
		}
		runtime.Gosched()
	}
	eventstest.Eventually(t, what, holds)
}

// withRig runs a test in virtual time on an idle lock.
func withRig(t *testing.T, test func(t *testing.T, r *actorstest.Rig)) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) { test(t, actorstest.NewRig(t)) })
}

// withStream is withRig with a subscriber to the stream.
func withStream(t *testing.T, test func(t *testing.T, r *actorstest.Rig, stream <-chan events.Event)) {
	t.Helper()
	withRig(t, func(t *testing.T, r *actorstest.Rig) {
		t.Helper()
		test(t, r, r.Stream.Subscribe(t.Context()))
	})
}
