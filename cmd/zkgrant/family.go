//go:build unix

package main

import (
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// family is the command and what it has started: the processes of its process group, and,
// where the supervisor adopts orphans, its other descendants that have not left the
// session. timeout, and a shell after `set -m`, give what they start a group of its own.
//
// What another zkgrant runs in there is in the care of that one's supervisor. Only KILL
// reaches it, and its supervisor with it: so nothing is left that would end it later. It
// is in the session also where a command has one of its own otherwise; see
// [jobs.Job.Apart].
type family struct {
	group      int // the command's; its number is that of the command's process. 0: it has ended
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

// outlived returns the family of a command that has ended. Once its group has, too, the
// number is another group's sooner or later.
func (f family) outlived() family {
	if f.group != 0 && groupEnded(f.group) {
		f.group = 0
	}
	return f
}

// members returns the processes that have not ended, as far as they can be seen.
func (f family) members() (pids []int) {
	for _, p := range f.processes(true) {
		if !p.ended() {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// gone reports whether every process has ended.
func (f family) gone() bool {
	seen := false
	for _, p := range f.processes(true) {
		if !p.ended() {
			return false
		}
		seen = seen || f.has(p)
	}
	if _, all := processStat(1); seen && all { // zombies, and nothing is hidden
		return true
	}
	return f.group == 0 || groupEnded(f.group)
}

// has reports whether the process is in the command's group.
func (f family) has(p stat) bool { return f.group != 0 && p.group == f.group }

// processes returns those of the family, and if all is set also what another supervisor
// cares for.
func (f family) processes(all bool) []stat {
	return visible(func(p stat) bool { return f.has(p) || p.session == f.session && f.descends(p, all) })
}

// descends reports whether the supervisor is among the process's ancestors. Unless all is
// set, no other supervisor is between them.
func (f family) descends(p stat, all bool) bool {
	for at := p; at.parent > 1; {
		switch {
		case at.supervises && !all:
			return false
		case at.parent == f.supervisor:
			return true
		}
		parent, ok := processStat(at.parent)
		if !ok {
			// It has ended since, and what it leaves behind has another parent; or it is
			// hidden.
			again, ok := processStat(p.pid)
			if !ok || again.parent == p.parent {
				return false
			}
			p, parent = again, again
		}
		at = parent
	}
	return false
}

// signal sends a signal to every process. The error says why none of them got it.
func (f family) signal(sig syscall.Signal) error {
	var failed error
	reached := false
	note := func(err error) {
		reached = reached || err == nil
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			failed = err
		}
	}
	// The group comes first, since a look at all processes takes a moment. Its number is
	// not given out again while a process is in it. Between its end and this call the
	// system would have to use up a whole round of numbers.
	sent := map[int]bool{}
	if f.group != 0 {
		sent[f.group] = true
		note(syscall.Kill(-f.group, sig))
	}
	all := f.processes(sig == syscall.SIGKILL)
	for _, p := range all {
		// A whole group gets it at once, so that no fork escapes. One that no descendant
		// leads may have others in it.
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
	return failed
}

// groupEnded reports whether the group has no process, not even a zombie.
func groupEnded(group int) bool { return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) }
