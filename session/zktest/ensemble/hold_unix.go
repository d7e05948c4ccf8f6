//go:build unix

package ensemble

import (
	"os"
	"syscall"
)

// holdProcess stops the process, so that it keeps its connections and answers nothing, or
// lets it continue.
func holdProcess(p *os.Process, stop bool) error {
	if !stop {
		return p.Signal(syscall.SIGCONT)
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStopped(p)
}
