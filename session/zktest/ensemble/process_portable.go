//go:build !linux

package ensemble

import (
	"os"
	"os/exec"
)

// DieWithParent makes the kernel kill a server when this process ends, however it ends: a
// test binary that exceeds its time limit or is killed runs no clean-up.
//
// For the kernel, the parent is the thread that started the server. Go ends a thread only
// if a goroutine was locked to it and returned without unlocking it, so do not start
// servers from such a goroutine.
func DieWithParent(*exec.Cmd) {}

// awaitStopped does not wait, because there is no portable way to wait for a stop only.
// The child stops in a moment.
func awaitStopped(*os.Process) error { return nil }
