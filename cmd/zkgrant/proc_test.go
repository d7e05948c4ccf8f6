//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// maskOf returns a set of signals of a process, as SigIgn or SigBlk. Systems without /proc skip the test.
func maskOf(t *testing.T, pid int, name string) uint64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return mask
		}
	}
	t.Fatalf("the status of %d has no %s", pid, name)
	return 0
}

// childOf returns the only child of a process: zkgrant's is the supervisor.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	children := childrenOf(t, pid)
	if len(children) != 1 {
		t.Fatalf("process %d has the children %v, want one", pid, children)
	}
	return children[0]
}

// childrenOf returns the children of a process, zombies too.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		var child, parent int
		if _, err := fmt.Sscan(line, &child, &parent); err == nil && parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// nameOf is the name of a process, or empty if it has ended.
func nameOf(t *testing.T, pid int) string {
	t.Helper()
	out, _ := exec.Command("ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output() // it fails if there is none
	return strings.TrimSpace(string(out))
}
