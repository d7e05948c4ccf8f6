package actors_test

import (
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test outside of a bubble waits for.
const patience = 20 * time.Second

// eventually polls the condition until it holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	var deadline time.Time
	for n := 0; !holds(); n++ {
		if n < 100 {
			continue // it may be a matter of nanoseconds, on another processor
		}
		runtime.Gosched()
		if deadline.IsZero() {
			deadline = time.Now().Add(patience)
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

// within receives from the channel, or fails the test.
func within[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-from:
		return v
	case <-timer.C:
		t.Fatalf("after %v still no %s", patience, what)
		panic("unreachable")
	}
}
