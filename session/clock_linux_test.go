package session

import "testing"

func TestTheKernelHasTheClocks(t *testing.T) {
	for _, id := range []uintptr{clockMonotonic, clockBoottime} {
		before, ok := nanoseconds(id)
		after, also := nanoseconds(id)
		if !ok || !also || before <= 0 || after < before {
			t.Errorf("clock %d reads %d (%v), then %d (%v); want it to run", id, before, ok, after, also)
		}
	}
	if _, ok := nanoseconds(99); ok {
		t.Error("reading clock 99 succeeds, want a failure: the kernel has none")
	}
}
