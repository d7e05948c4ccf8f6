package child

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child when this process ends, however it ends: one that is halted would
// otherwise stay so for ever.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
