package session

import (
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestTheKernelHasTheClocks(t *testing.T) {
	for _, id := range []uintptr{clockMonotonic, clockBoottime} {
		before, err := nanoseconds(id)
		after, also := nanoseconds(id)
		expect(t, err == nil && also == nil && before > 0 && after >= before,
			"clock %d reads %d (%v), then %d (%v); want it to run", id, before, err, after, also)
	}
	_, err := nanoseconds(99)
	eventstest.ErrorIs(t, err, syscall.EINVAL, "reading clock 99, which the kernel does not have")
	if slept, err := asleepBy(99); err == nil || slept() != 0 {
		t.Errorf("a machine without the clock has slept for %v (%v), want 0 and an error", slept(), err)
	}
}
