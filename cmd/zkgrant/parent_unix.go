//go:build unix && !linux

package main

import (
	"os"
	"syscall"
	"time"
)

// dieWithParent does nothing, because this system has no such feature.
func dieWithParent(*syscall.SysProcAttr) {}

// adopt does nothing, because init adopts every orphan on this system.
func adopt() bool { return false }

// keepRunning does nothing, because a halted child is not noticed on this system.
func keepRunning(int) {}

func self() (string, error) { return os.Executable() }

// sinceBoot returns the time of day, because no clock on this system is known to continue
// while the machine is suspended.
func sinceBoot() time.Time { return time.Now() }
