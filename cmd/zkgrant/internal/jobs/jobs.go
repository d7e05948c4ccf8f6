// Package jobs decides whether zkgrant and its command may be halted, by the rules of the
// kernel for job control. One promise comes first:
//
//	Nothing stays halted where nobody would continue it.
//
// The package makes no system call: its caller collects the facts.
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
	Parent                     int // 0 if it is outside of the PID namespace
	ParentGroup, ParentSession int
}

// Watched reports whether somebody would continue zkgrant after a halt. For the kernel
// that is a parent in another group of the session, as a shell is: otherwise the group is
// orphaned, and TSTP, TTIN and TTOU do not halt it. Process 1 cannot be halted, not even
// by STOP.
func (j Job) Watched() bool {
	if j.PID == 1 {
		return false
	}
	for _, m := range j.Members {
		switch {
		case m.Ended, m.Parent == 0, m.Parent == 1 && !j.Contained: // init continues nothing
		case m.ParentGroup != j.Group && m.ParentSession == j.Session:
			return true
		}
	}
	return false
}

// Visible reports whether zkgrant is in the foreground of its terminal.
func (j Job) Visible() bool { return j.Foreground != 0 && j.Foreground == j.Group }

// Apart reports whether the command gets a session of its own. The kernel halts it for no
// terminal then. In zkgrant's session it would: its parent, the supervisor, passes for a
// shell.
//
// The command of an inner zkgrant stays in the session nevertheless. The outer zkgrant
// ends what is in the session of its own command, and nothing else. It would find nothing
// left there when it has killed the inner one, and give its lock back while the inner
// command has its grace. If that command is halted, Halted says Continue or Hangup.
func (j Job) Apart() bool { return !j.Supervised && !j.Reaches() }

// Reaches reports whether the command may have zkgrant's terminal. In any other case it
// would read what is typed for others.
func (j Job) Reaches() bool { return j.Watched() || j.Visible() }

// Stop is what has halted the command.
type Stop int

// The signals that halt.
const (
	ByUser     Stop = iota + 1 // TSTP, as of Ctrl-Z
	ByTerminal                 // TTIN or TTOU: it is in the background, and reads or writes
	ByForce                    // STOP
)

// Answer is what zkgrant does when the command is halted.
type Answer int

// The answers to a halt.
const (
	Leave    Answer = iota + 1 // what has halted the command will continue it
	Continue                   // send CONT
	Hand                       // give the command the terminal, then CONT
	Wait                       // say that the command needs the terminal, and look again
	Follow                     // take the terminal back, and halt, too: it is the shell's turn
	Hangup                     // send HUP and CONT, as the kernel does to a halted group that it orphans
)

func (a Answer) String() string {
	return [...]string{"", "leave", "continue", "hand", "wait", "follow", "hangup"}[a]
}

// Halted returns what to do when the command, a group of that number, is halted.
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
		case has, j.Foreground == 0: // it was given the terminal, or the terminal is gone
			return Continue
		case j.Watched():
			return Wait
		}
		return Hangup
	case ByForce:
	}
	return Leave
}
