//go:build unix && !linux

package main

import (
	"os"
	"syscall"
	"time"
)

// dieWithParent does nothing: this system cannot do it.
func dieWithParent(*syscall.SysProcAttr) {}

// adopt does nothing: on this system init is the parent of every orphan.
func adopt() bool { return false }

// keepRunning does nothing: a halted child is not noticed here.
func keepRunning(int) {}

func self() (string, error) { return os.Executable() }

// sinceBoot returns the time of day: this system has no clock that is known to continue
// in a suspend.
func sinceBoot() time.Time { return time.Now() }
