package ensemble

import (
	"syscall"
	"time"
)

// sleepExactly sleeps without the runtime's timers. In an idle process, those are up to a
// millisecond late, because the poller below them counts whole milliseconds. sleepExactly
// occupies a thread.
func sleepExactly(d time.Duration) {
	left := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&left, nil) // a signal may end it early, and the caller checks the time again
}
