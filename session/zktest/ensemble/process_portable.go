//go:build !linux

package ensemble

import (
	"os"
	"os/exec"
)

// DieWithParent does nothing: this system cannot do it. A server is still killed when its test ends. An
// interrupt from the terminal also ends it, because it shares the process group of the test.
func DieWithParent(*exec.Cmd) {}

// awaitStopped does not wait: there is no portable way to ask for this alone. The child stops in a moment.
func awaitStopped(*os.Process) error { return nil }
