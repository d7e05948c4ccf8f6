//go:build !linux

package zkprom

import "os/exec"

// dieWithParent does nothing: this system cannot do it.
func dieWithParent(*exec.Cmd) {}
