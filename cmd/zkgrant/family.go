//go:build unix

package main

import (
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// family is the command and what it has started: the processes of its process group, and,
// where the supervisor adopts orphans, its other descendants in the same session. Those
// exist because timeout, and a shell after `set -m`, put what they start into groups of
// their own.
//
// Whatever an inner zkgrant runs is in the care of its own supervisor. Only KILL is sent
// to those processes and to that supervisor, because nothing would be left to end them
// later. They stay in this session even where a command usually gets its own; see
// [jobs.Job.Apart].
type family struct {
	group      int // the command's process group, equal to its PID; 0 once it has ended
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

// outlived returns the family after the command has ended. Once its group has ended, too,
// the number may be reused for another group, so it becomes 0.
func (f family) outlived() family {
	if f.group != 0 && groupEnded(f.group) {
		f.group = 0
	}
	return f
}

// members returns the visible processes that have not ended.
func (f family) members() (pids []int) {
	found, _ := f.processes(true)
	for _, p := range found {
		if p.lives() {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// gone reports whether every process of the family has ended.
func (f family) gone() bool {
	found, settled := f.processes(true)
	if !settled || slices.ContainsFunc(found, stat.lives) {
		return false
	}
	seen := slices.ContainsFunc(found, f.has)
	if _, all := processStat(1); seen && all { // only zombies, and /proc hides no process
		return true
	}
	return f.group == 0 || groupEnded(f.group)
}

// has reports whether the process is in the command's group.
func (f family) has(p stat) bool { return f.group != 0 && p.group == f.group }

// processes returns the family's processes, and whether no other one can exist. If all is
// set, they include those in the care of another supervisor.
func (f family) processes(all bool) (found []stat, settled bool) {
	return settle(func() []stat {
		return visible(func(p stat) bool { return f.has(p) || p.session == f.session && f.descends(p, all) })
	})
}

// mostListings bounds how often settle lists.
const mostListings = 20

// settle lists a family until a process lives, or no more have ended than in the listing
// before. A listing is a snapshot, so it can miss one:
//
//  1. /proc is listed, with a process that lives.
//  2. The process forks and ends.
//  3. Its stat is read. It is a zombie, and its child is not in the listing.
//
// It stays a zombie, because the supervisor, which adopts orphans, reaps none meanwhile.
// So the next listing has one more that has ended. A family that forks faster than it can
// be listed is not settled.
func settle(list func() []stat) (found []stat, settled bool) {
	ended := 0
	for range mostListings {
		found = list()
		if len(found) <= ended || slices.ContainsFunc(found, stat.lives) {
			return found, true
		}
		ended = len(found)
	}
	return found, false
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
			// The parent has ended since, so its children have another parent; or it is
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

// signal sends a signal to every process. It returns an error if none of them got it.
func (f family) signal(sig syscall.Signal) error {
	var failed error
	reached := false
	note := func(err error) {
		reached = reached || err == nil
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			failed = err
		}
	}
	// Signal the group first, since listing all processes takes a moment. Its number
	// cannot be reused while a process is in the group. To hit another group, the system
	// would have to cycle through all PIDs between the group's end and this call.
	sent := map[int]bool{}
	if f.group != 0 {
		sent[f.group] = true
		note(syscall.Kill(-f.group, sig))
	}
	all, _ := f.processes(sig == syscall.SIGKILL)
	for _, p := range all {
		// Signal a group as a whole, so that no fork escapes. A group whose leader is not
		// a descendant may contain other processes.
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
