//go:build !linux

package promtest

import "os/exec"

// dieWithParent does nothing: this system cannot do it.
func dieWithParent(*exec.Cmd) {}
