package jobs

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	init1 = 1
	shell = 10 // the shell's process, group and session
	ours  = 20 // zkgrant's process and group
	task  = 30 // the command's group
)

// child returns a process of zkgrant's group whose parent is the shell.
func child() Member { return Member{Parent: shell, ParentGroup: shell, ParentSession: shell} }

// Each situation in which nobody would continue zkgrant, next to similar ones in which
// somebody would.
func TestWhoWouldContinueUs(t *testing.T) {
	with := func(change func(*Job)) Job {
		j := Job{PID: ours, Group: ours, Session: shell, Members: []Member{child()}}
		change(&j)
		return j
	}
	parent := func(m Member) Job { return with(func(j *Job) { j.Members = []Member{m} }) }
	peer := func(m Member) Job {
		return with(func(j *Job) { j.Members = []Member{{Parent: init1, ParentGroup: init1, ParentSession: init1}, m} })
	}
	ended := child()
	ended.Ended = true
	for name, test := range map[string]struct {
		job  Job
		want bool
	}{
		"a shell's job": {with(func(*Job) {}), true},
		"in a script, which is a shell's job": {with(func(j *Job) {
			j.Members = append([]Member{{Parent: 19, ParentGroup: ours, ParentSession: shell}}, j.Members...)
		}), true},
		"in a script without job control":          {parent(Member{Parent: 19, ParentGroup: ours, ParentSession: shell}), false},
		"the parent is in another session":         {parent(Member{Parent: shell, ParentGroup: shell, ParentSession: shell + 1}), false},
		"a session leader":                         {with(func(j *Job) { j.Session = ours }), false},
		"its shell has ended":                      {parent(Member{Parent: init1, ParentGroup: init1, ParentSession: init1}), false},
		"its shell has ended, init in the session": {parent(Member{Parent: init1, ParentGroup: init1, ParentSession: shell}), false},
		"the same, and a shell is process 1": {with(func(j *Job) {
			j.Contained, j.Members = true, []Member{{Parent: init1, ParentGroup: init1, ParentSession: shell}}
		}), true},
		"adopted by a subreaper of another session": {parent(Member{Parent: 5, ParentGroup: 5, ParentSession: 5}), false},
		"the parent is in another PID namespace":    {parent(Member{ParentGroup: shell, ParentSession: shell}), false},
		"orphaned, beside a child of the shell":     {peer(child()), true},
		"orphaned, beside a zombie of the shell":    {peer(ended), false},
		"no member can be seen":                     {with(func(j *Job) { j.Members = nil }), false},
		"process 1":                                 {with(func(j *Job) { j.PID = 1 }), false},
	} {
		eventstest.Equal(t, test.job.Watched(), test.want, "%s: somebody would continue it", name)
	}
}

// Each halt of the command, by who would continue zkgrant and by who has the terminal.
func TestWhatToDoWhenTheCommandIsHalted(t *testing.T) {
	const none, other = 0, 40
	answers := map[string]Answer{}
	for _, watched := range []bool{true, false} {
		for _, foreground := range []int{none, ours, task, other} {
			for _, unstopped := range []bool{true, false} {
				for _, by := range []Stop{ByUser, ByTerminal, ByForce} {
					j := Job{PID: ours, Group: ours, Session: shell, Foreground: foreground, Unstopped: unstopped}
					if watched {
						j.Members = []Member{child()}
					}
					answer := j.Halted(by, task)
					stays := answer == Leave || answer == Wait || answer == Follow
					eventstest.Expect(t, !stays || watched || by == ByForce,
						"halted by %d, terminal of %d: %v, and nobody would continue it", by, foreground, answer)
					eventstest.Expect(t, answer != Hand || foreground == ours,
						"halted by %d: the terminal of %d is handed on, and it is not zkgrant's", by, foreground)
					eventstest.Expect(t, answer != Follow || !unstopped,
						"halted by %d: zkgrant follows, and ignores TSTP", by)
					who := map[int]string{none: "no terminal", ours: "ours", task: "the command's", other: "another's"}[foreground]
					what := map[Stop]string{ByUser: "TSTP", ByTerminal: "TTIN", ByForce: "STOP"}[by]
					answers[what+", "+who+map[bool]string{true: ", job"}[watched]+map[bool]string{true: ", deaf"}[unstopped]] = answer
				}
			}
		}
	}
	for name, want := range map[string]Answer{
		"TSTP, the command's, job":       Follow,
		"TSTP, the command's, job, deaf": Continue,
		"TSTP, ours, job":                Leave,
		"TSTP, another's, job":           Leave,
		"TSTP, no terminal, job":         Leave,
		"TSTP, the command's":            Continue,
		"TSTP, ours":                     Continue,
		"TSTP, no terminal":              Continue,
		"TTIN, ours, job":                Hand,
		"TTIN, ours":                     Hand,
		"TTIN, the command's, job":       Continue,
		"TTIN, another's, job":           Wait,
		"TTIN, another's":                Hangup,
		"TTIN, no terminal":              Continue,
		"TTIN, no terminal, job":         Continue,
		"STOP, the command's, job":       Leave,
		"STOP, no terminal":              Leave,
	} {
		eventstest.Equal(t, answers[name], want, "%s", name)
	}
}

// The command gets its own session if nobody would continue it, unless zkgrant can give
// it the terminal. The command of an inner zkgrant does not get one, so that the outer
// zkgrant can reach it.
func TestASessionOfItsOwn(t *testing.T) {
	for _, test := range []struct {
		watched    bool
		foreground int
		want       bool
	}{{true, 0, false}, {true, ours, false}, {true, shell, false}, {false, 0, true}, {false, shell, true}, {false, ours, false}} {
		j := Job{PID: ours, Group: ours, Session: shell, Foreground: test.foreground}
		if test.watched {
			j.Members = []Member{child()}
		}
		eventstest.Equal(t, [2]bool{j.Apart(), j.Reaches()}, [2]bool{test.want, !test.want},
			"%+v: a session of its own, and the terminal", test)
		j.Supervised = true
		eventstest.Expect(t, !j.Apart(), "%+v, inside another zkgrant: a session of its own, want none", test)
	}
}
