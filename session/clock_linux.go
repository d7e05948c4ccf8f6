package session

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// The kernel's clocks. CLOCK_MONOTONIC, which package time uses, stops during a suspend;
// CLOCK_BOOTTIME keeps running. Their difference changes only during a suspend.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// sleepNoise is the difference that may result from reading two clocks one after the
// other. A suspend takes longer.
const sleepNoise = int64(time.Millisecond)

// asleep returns a function that returns how long the computer has been suspended since
// asleep was called. It costs a system call and may be called from any goroutine. If the
// clocks cannot be read, as in some sandboxes, the function returns 0, and asleep returns
// the reason.
func asleep() (func() time.Duration, error) { return asleepBy(clockBoottime) }

func asleepBy(clockBoottime uintptr) (func() time.Duration, error) {
	var boot, monotonic int64
	// A thread that is preempted between the two readings would later look like a
	// suspend, so read again.
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
	since := time.Now() // after the readings, so before, below, is never too late
	var known atomic.Int64
	known.Store(start)
	return func() time.Duration {
		was := known.Load()
		before := monotonic + int64(time.Since(since)) // reads the same clock without a system call
		boot, _ := nanoseconds(clockBoottime)
		if boot-before <= was+sleepNoise {
			return time.Duration(was - start)
		}
		// The thread may have been preempted between the two readings, or before since
		// was set, which looks the same. Also, package time has its own clock in a test's
		// bubble. This reading comes after both, so the difference is never too large.
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
