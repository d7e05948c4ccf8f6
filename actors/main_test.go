package actors_test

import (
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon waits until the condition holds. It looks often first: here that is a matter of nanoseconds, on another processor.
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
