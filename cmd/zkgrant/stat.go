//go:build unix

package main

// stat is what the kernel says of a process.
type stat struct {
	state byte

	pid, parent, group, session, threads int

	supervises bool // it is the supervisor of a zkgrant
}

// ended reports whether it runs no more. A zombie with more than one thread does: only
// its first thread has ended.
func (s stat) ended() bool { return s.state == 'X' || s.state == 'Z' && s.threads <= 1 }
