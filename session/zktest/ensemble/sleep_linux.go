package ensemble

import (
	"syscall"
	"time"
)

// sleepExactly sleeps without the runtime's timers. These wake up to a millisecond late
// when nothing else goes on: the poller beneath them counts whole milliseconds. It takes
// up a thread.
func sleepExactly(d time.Duration) {
	left := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&left, nil) // a signal may wake it early, and its caller looks at the clock again
}
