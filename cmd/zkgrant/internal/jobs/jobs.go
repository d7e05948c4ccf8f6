// Package jobs decides whether zkgrant and its command may be halted, following the
// kernel's rules for job control. Its first promise:
//
//	Nothing stays halted if nobody would continue it.
//
// The package makes no system calls; its caller collects the facts.
package jobs

// Job is zkgrant's process group, as a shell's job.
type Job struct {
	PID, Group, Session int

	Contained  bool // in a PID namespace of its own, where process 1 may be a shell
	Supervised bool // the supervisor of an outer zkgrant is among its ancestors
	Unstopped  bool // TSTP was ignored when zkgrant started
	Members    []Member
	Foreground int // the group in the foreground of zkgrant's terminal; 0 without one
}

// Member is a process of the group.
type Member struct {
	Ended                      bool
	Parent                     int // 0 if it is outside the PID namespace
	ParentGroup, ParentSession int
}

// Watched reports whether somebody would continue zkgrant after a halt. By the kernel's
// rules, that is a parent in another group of the same session, such as a shell. Without
// one, the group is orphaned, and TSTP, TTIN and TTOU do not halt it. Process 1 cannot be
// halted, not even by STOP.
func (j Job) Watched() bool {
	if j.PID == 1 {
		return false
	}
	for _, m := range j.Members {
		switch {
		case m.Ended, m.Parent == 0, m.Parent == 1 && !j.Contained: // init never continues a process
		case m.ParentGroup != j.Group && m.ParentSession == j.Session:
			return true
		}
	}
	return false
}

// Visible reports whether zkgrant is in the foreground of its terminal.
func (j Job) Visible() bool { return j.Foreground != 0 && j.Foreground == j.Group }

// Apart reports whether the command gets a session of its own, where no terminal can halt
// it. In zkgrant's session the kernel would, because it takes the supervisor, the
// command's parent, for a shell.
//
// Exception: the command of an inner zkgrant stays in the session. The outer zkgrant ends
// only what is in the session of its own command. After killing the inner zkgrant, it
// would find nothing left there, and release its lock while the inner command still has
// its grace. If that command is halted, Halted returns Continue or Hangup.
func (j Job) Apart() bool { return !j.Supervised && !j.Reaches() }

// Reaches reports whether the command may get zkgrant's terminal. Otherwise it could read
// what is typed for other programs.
func (j Job) Reaches() bool { return j.Watched() || j.Visible() }

// Stop is the reason why the command was halted.
type Stop int

// The reasons for a halt.
const (
	ByUser     Stop = iota + 1 // TSTP, sent by Ctrl-Z
	ByTerminal                 // TTIN or TTOU: it reads or writes in the background
	ByForce                    // STOP
)

// Answer is how zkgrant reacts when the command is halted.
type Answer int

// The answers to a halt.
const (
	Leave    Answer = iota + 1 // whoever has halted the command will continue it
	Continue                   // send CONT
	Hand                       // give the command the terminal, then CONT
	Wait                       // report that the command needs the terminal, and check again
	Follow                     // take the terminal back and halt, too, so that the shell takes over
	Hangup                     // send HUP and CONT, as the kernel does to a halted group that becomes orphaned
)

func (a Answer) String() string {
	return [...]string{"", "leave", "continue", "hand", "wait", "follow", "hangup"}[a]
}

// Halted returns what to do when the command is halted. command is its process group.
func (j Job) Halted(by Stop, command int) Answer {
	has := j.Foreground == command && command != 0
	switch by {
	case ByUser:
		switch {
		case !j.Watched(), has && j.Unstopped:
			return Continue
		case has:
			return Follow
		}
	case ByTerminal:
		switch {
		case j.Visible():
			return Hand
		case has, j.Foreground == 0: // it has the terminal already, or the terminal is gone
			return Continue
		case j.Watched():
			return Wait
		}
		return Hangup
	case ByForce:
	}
	return Leave
}
