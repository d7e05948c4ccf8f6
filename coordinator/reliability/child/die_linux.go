package child

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child when this process ends in whatever way: a halted child would
// otherwise stay for ever.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
