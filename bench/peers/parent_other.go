//go:build !linux

package peers

import "os/exec"

// dieWithParent does nothing: this system cannot do it.
func dieWithParent(*exec.Cmd) {}
