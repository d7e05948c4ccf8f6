package main

import (
	"os"
	"runtime"
	"slices"
	"syscall"
)

// While a program starts, its first goroutine has the first thread.
func init() { //nolint:gochecknoinits // there is no other moment
	if slices.Contains(os.Args, "headless") {
		runtime.LockOSThread()
	}
}

// endFirstThread ends the thread that the process has started with. The others go on.
func endFirstThread() { _, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) }
