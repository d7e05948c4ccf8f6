package histories

import (
	"syscall"
	"time"
	"unsafe"
)

// machineTime is the time since the machine was started, in nanoseconds, the same for all
// its processes. It cannot be set.
func machineTime() int64 {
	const monotonic = 1 // CLOCK_MONOTONIC
	var t syscall.Timespec
	// The pointer is converted in the call itself, as package unsafe requires.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		return time.Now().UnixNano() // not reached on any known Linux
	}
	return t.Nano()
}
