//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/examples/internal/stage"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const lockPath = "/locks/run"

// process is a run of the program.
type process struct {
	*stage.Screen
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}
}

// begin runs the program until it ends, or the test does.
func begin(t *testing.T, stdin string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	p := &process{&stage.Screen{}, t, stage.Command(ctx, args...), make(chan struct{})}
	p.cmd.Stdin = strings.NewReader(stdin)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.WaitDelay = 10 * time.Second // somebody who is not to be left may hold them open
	if err := p.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		if err := p.cmd.Wait(); errors.Is(err, exec.ErrWaitDelay) {
			t.Error("something that run started is still there")
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-p.ended
		if t.Failed() {
			t.Logf("%v:\n%s", args, p)
		}
	})
	return p
}

// locked is begin with the servers' address and the lock in front of a command with
// a part to play.
func locked(t *testing.T, server *zktest.Server, flags []string, part string, args ...string) *process {
	t.Helper()
	line := append([]string{"-v", "-zk", server.Addr()}, flags...)
	return begin(t, "", append(append(line, lockPath), commandLine(part, args...)...)...)
}

// code waits for the end and returns the exit code.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(50 * time.Second):
		p.t.Fatalf("does not end:\n%s", p)
	}
	return p.cmd.ProcessState.ExitCode()
}

// must fails the test unless the exit code is this one.
func (p *process) must(code int) {
	p.t.Helper()
	if got := p.code(); got != code {
		p.t.Errorf("exit code %d, want %d:\n%s", got, code, p)
	}
}

// send sends the program a signal.
func (p *process) send(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Error(err)
	}
}

// ready waits until the named part is played, and returns the number of its
// process.
func (p *process) ready(name string) int {
	p.t.Helper()
	pattern := regexp.MustCompile(name + ` (\d+) ready`)
	var pid int
	eventually(p.t, name+" to be ready", func() bool {
		found := pattern.FindStringSubmatch(p.String())
		if found == nil {
			return false
		}
		var err error
		pid, err = strconv.Atoi(found[1])
		return err == nil
	})
	return pid
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(30 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-ticker.C
	}
}

// gone tells whether there is no such process any more, nor what is left of one
// that nobody has waited for.
func gone(t *testing.T, pid int) bool {
	t.Helper()
	state, err := processState(pid)
	if err != nil {
		t.Fatal(err)
	}
	return state == "" || strings.HasPrefix(state, "Z")
}

// processState is what ps says of a process: T if it is halted, Z if it has ended
// and nobody has asked how; nothing if there is none.
func processState(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) { // there is none
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("asking ps for a process's state: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
