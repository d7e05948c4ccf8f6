package session

import (
	"errors"
	"syscall"
	"testing"
)

func TestTheKernelHasTheClocks(t *testing.T) {
	for _, id := range []uintptr{clockMonotonic, clockBoottime} {
		before, err := nanoseconds(id)
		after, also := nanoseconds(id)
		if err != nil || also != nil || before <= 0 || after < before {
			t.Errorf("clock %d reads %d (%v), then %d (%v); want it to run", id, before, err, after, also)
		}
	}
	if _, err := nanoseconds(99); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("reading clock 99: %v, want that the kernel has none", err)
	}
	if slept, err := asleepBy(99); err == nil || slept() != 0 {
		t.Errorf("a machine without the clock has slept for %v (%v), want 0 and an error", slept(), err)
	}
}
