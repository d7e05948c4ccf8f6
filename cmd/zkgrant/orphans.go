//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// orphans reaps the processes that process 1 of a PID namespace inherits: those that the
// command leaves behind when its supervisor has ended, and those that other processes
// have started there. Nobody else reaps them. Supervisors are left to os/exec.
type orphans struct {
	mu          sync.Mutex // held while a supervisor starts, so that it is registered before it can end
	supervisors map[int]bool
}

// reap reaps orphans until stop is called. It does nothing unless this is process 1.
func (o *orphans) reap() (stop func()) {
	if os.Getpid() != 1 {
		return func() {}
	}
	again, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(again, syscall.SIGCHLD)
	go func() {
		for {
			select {
			case <-again:
				o.wait()
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(again)
		close(over)
	}
}

func (o *orphans) wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range visible(func(p stat) bool { return p.parent == 1 && p.ended() && !o.supervisors[p.pid] }) {
		_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
	}
}

// start starts a supervisor and registers it.
func (o *orphans) start(cmd *exec.Cmd) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	if o.supervisors == nil {
		o.supervisors = map[int]bool{}
	}
	o.supervisors[cmd.Process.Pid] = true
	return nil
}

// awaits waits for a supervisor.
func (o *orphans) awaits(cmd *exec.Cmd) {
	_ = cmd.Wait() // it has already reported everything
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.supervisors, cmd.Process.Pid)
}
