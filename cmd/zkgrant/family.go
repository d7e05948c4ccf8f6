//go:build unix

package main

import (
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// family is the command and what it has started: the processes of its process group, and, where
// the supervisor adopts orphans, its other descendants that have not left the session. timeout,
// and a shell after `set -m`, give what they start a group of its own.
type family struct {
	group      int // the command's; its number is that of the command's process
	supervisor int
	session    int
}

func familyOf(group, supervisor int, apart bool) family {
	f := family{group, supervisor, group}
	if !apart {
		f.session, _ = unix.Getsid(0) // it cannot fail
	}
	return f
}

// members returns the processes that have not ended, as far as they can be seen.
func (f family) members() (pids []int) {
	for _, p := range f.processes() {
		if !p.ended() {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// gone reports whether every process has ended.
func (f family) gone() bool {
	seen := false
	for _, p := range f.processes() {
		if !p.ended() {
			return false
		}
		seen = seen || p.group == f.group
	}
	if _, all := processStat(1); seen && all { // zombies, and nothing is hidden
		return true
	}
	return groupEnded(f.group)
}

func (f family) processes() []stat {
	return visible(func(p stat) bool { return p.group == f.group || p.session == f.session && f.descends(p) })
}

// descends reports whether the supervisor is among the process's ancestors.
func (f family) descends(p stat) bool {
	for at := p; at.parent > 1; {
		if at.parent == f.supervisor {
			return true
		}
		parent, ok := processStat(at.parent)
		if !ok { // it has ended since, and what it leaves behind has another parent
			if p, ok = processStat(p.pid); !ok {
				return false
			}
			parent = p
		}
		at = parent
	}
	return false
}

// signal sends a signal to every process. The error says why none of them got it.
func (f family) signal(sig syscall.Signal) error {
	// The group comes first, since a look at all processes takes a moment. Its number is not given
	// out again while a process is in it. Between its end and this call the system would have to use
	// up a whole round of numbers.
	err := syscall.Kill(-f.group, sig)
	reached := err == nil
	if errors.Is(err, syscall.ESRCH) {
		err = nil
	}
	note := func(failed error) {
		reached = reached || failed == nil
		if failed != nil && !errors.Is(failed, syscall.ESRCH) {
			err = failed
		}
	}
	all := f.processes()
	sent := map[int]bool{f.group: true}
	for _, p := range all {
		// A whole group gets it at once, so that no fork escapes. One that no descendant leads may have
		// others in it.
		led := slices.ContainsFunc(all, func(leader stat) bool { return leader.pid == p.group })
		switch {
		case sent[p.group]:
		case led:
			sent[p.group] = true
			note(syscall.Kill(-p.group, sig))
		default:
			note(syscall.Kill(p.pid, sig))
		}
	}
	if reached {
		return nil
	}
	return err
}

// groupEnded reports whether the group has no process, not even a zombie.
func groupEnded(group int) bool { return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) }
