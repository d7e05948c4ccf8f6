package session

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// The kernel's clocks: that of package time, which stands still in a suspend, and one
// that continues. Their difference changes in a suspend and at no other time.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// sleepNoise is how much of a difference may come from reading two clocks one after the
// other. A suspend takes longer.
const sleepNoise = int64(time.Millisecond)

// asleep returns a function that returns how long the machine has been suspended
// since asleep was called. It costs a system call and may be called from any
// goroutine. If the clocks cannot be read, as where a sandbox forbids it, the
// function returns 0 and asleep returns why.
func asleep() (func() time.Duration, error) { return asleepBy(clockBoottime) }

func asleepBy(clockBoottime uintptr) (func() time.Duration, error) {
	var boot, monotonic int64
	// A thread that is held up between the two readings looks like a later suspend, so
	// they are made again.
	for range 100 {
		before, err := nanoseconds(clockMonotonic)
		var also error
		boot, also = nanoseconds(clockBoottime)
		monotonic, _ = nanoseconds(clockMonotonic)
		if err = errors.Join(err, also); err != nil {
			return func() time.Duration { return 0 }, err
		}
		if monotonic-before < sleepNoise/2 {
			break
		}
	}
	start := boot - monotonic
	since := time.Now() // after the reading, so what is added to that is never too late
	var known atomic.Int64
	known.Store(start)
	return func() time.Duration {
		was := known.Load()
		before := monotonic + int64(time.Since(since)) // package time reads that clock without a system call
		boot, _ := nanoseconds(clockBoottime)
		if boot-before <= was+sleepNoise {
			return time.Duration(was - start)
		}
		// The thread may have been held up between the two readings, or before since,
		// which looks the same. And in a test's bubble package time has a clock of its
		// own. This reading follows both, so the difference is never too large.
		after, _ := nanoseconds(clockMonotonic)
		for now := boot - after; now > was+sleepNoise; was = known.Load() {
			if known.CompareAndSwap(was, now) {
				return time.Duration(now - start)
			}
		}
		return time.Duration(was - start)
	}, nil
}

// nanoseconds reads one of the kernel's clocks.
func nanoseconds(id uintptr) (int64, error) {
	var t syscall.Timespec
	// The pointer is converted in the call itself, as package unsafe requires.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("clock %d: %w", id, errno)
	}
	return t.Nano(), nil
}
