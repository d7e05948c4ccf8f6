package kdctest

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel end the KDC with this process, however the process ends.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
