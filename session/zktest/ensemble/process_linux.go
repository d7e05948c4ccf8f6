package ensemble

import (
	"os"
	"os/exec"
	"syscall"
)

// DieWithParent makes the kernel kill a server when this process ends, however it ends: a
// test binary that exceeds its time limit or is killed runs no clean-up.
//
// For the kernel, the parent is the thread that started the server. Go ends a thread only
// if a goroutine was locked to it and returned without unlocking it, so do not start
// servers from such a goroutine.
func DieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// awaitStopped returns when no thread of the child runs any more. The signal alone is not
// enough: the kernel stops each thread when it next looks at it, and until then, on
// another core, the server may still answer.
//
// The kernel notifies the parent when the last thread has stopped. WSTOPPED waits for
// nothing else. So if the process ends first, its status is left for cmd.Wait; then there
// is no such child, and the call fails.
func awaitStopped(child *os.Process) error {
	const byPid = 1 // P_PID
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(child.Pid), 0, syscall.WSTOPPED, 0, 0)
		switch errno {
		case 0:
			return nil
		case syscall.EINTR:
		default:
			return errno
		}
	}
}
