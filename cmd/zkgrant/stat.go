//go:build unix

package main

// stat is a process as described by the kernel.
type stat struct {
	state byte

	pid, parent, group, session, threads int

	supervises bool // it is a zkgrant's supervisor
}

// ended reports whether the process has ended. A zombie with more than one thread has
// not: only its first thread has.
func (s stat) ended() bool { return s.state == 'X' || s.state == 'Z' && s.threads <= 1 }

func (s stat) lives() bool { return !s.ended() }
