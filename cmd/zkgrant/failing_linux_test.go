package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// Each way in which kill(2) fails to end a live process of the group, and the test for
// it:
//
//   - EPERM for all: the group is another user's TestASignalThatReachesOnlySomeAndALoss
//   - success, but EPERM for some                     TestASignalThatReachesOnlySome
//   - EPERM from a user namespace or a security module: any error but ESRCH is the same
//   - EPERM, and the kernel forgets Pdeathsig TestTheSupervisorOfAStrangerIsKilled
//   - EPERM, and /proc hides the process              TestAStrangerThatCannotBeSeen
//   - it ignores the signal                           TestTheCommandIsDeadFirst
//   - it is init of a PID namespace, deaf to all      TestInAContainer
//   - it is halted: TERM comes with a CONT            TestALossEndsTheCommand
//   - its leader is a zombie, its group is not        TestTheCommandIsDeadFirst
//   - its first thread is a zombie, others are not    TestTheLockIsHeldForTheWholeGroup
//   - it sleeps uninterruptibly, or is frozen         duty: "KILL does not help"
//   - it has left the group or the session: not covered, and docs/command.md says so

// strangers returns a rig that runs zkgrant as an unprivileged user.
func strangers(t *testing.T) *rig {
	t.Helper()
	needsRoot(t)
	g := brief(t)
	g.asNobody()
	return g
}

// root waits until a process is ready that runs as root, so zkgrant may not signal it. It
// is ended with the test. kill sends it KILL.
func (g *rig) root(run *eventstest.Process, name string) (pid int, kill func()) {
	g.t.Helper()
	pid = g.pid(run, name)
	g.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // it may have ended
	return pid, func() { eventstest.Check(g.t, syscall.Kill(pid, syscall.SIGKILL)) }
}

// beside is a command, and a process of its group that runs as root.
const beside = " -- 'part climber FILE & echo command $$ ready; wait'"

// kill(2) on a group succeeds if it reaches one of its processes. zkgrant still reports
// the process that it has not reached, and holds the lock until that has ended.
func TestASignalThatReachesOnlySome(t *testing.T) {
	g := strangers(parallel(t))
	run := g.works("run --shell " + lockPath + beside)
	climber, kill := g.root(run, "climber")
	g.handsOver(func() {
		run.Send(syscall.SIGTERM)
		who := "process " + strconv.Itoa(climber)
		for _, sig := range []string{"SIGTERM", "SIGKILL"} {
			run.Await(t, "cannot send "+sig+" to "+who+" of the command: operation not permitted", 1)
		}
		run.Await(t, "the command has ended, but /locks/run stays held for "+who, 1)
		g.nodes(2, "while a process of the group lives")
		kill()
		run.Exits(codeSignal + int(syscall.SIGTERM))
	})
}

// The same, and the lock is lost: zkgrant reports that, and does not start another
// command. On a busy machine it may be too late for TERM.
func TestASignalThatReachesOnlySomeAndALoss(t *testing.T) {
	t.Parallel()
	lines := map[string]string{"run": "run ", "elect": "elect --again "}
	inParallel(t, lines, func(t *testing.T, _, line string) {
		g := strangers(t)
		run := g.works(line + lockPath + " -- part climbers FILE")
		leader, killLeader := g.root(run, "command")
		climber, kill := g.root(run, "climber")
		_, holder := g.first()
		g.Mute(holder, true)
		run.Await(t, "LOST "+lockPath, 1)
		run.Await(t, "which may keep running WITHOUT the lock "+lockPath, 1)
		lives(t, leader, climber)
		killLeader()
		kill()
		g.Mute(holder, false)
		run.Exits(codeLost)
		both := fmt.Sprint(min(leader, climber), " ", max(leader, climber))
		run.Must(t, "cannot send SIGKILL to processes ",
			"KILL has not ended processes "+both+", which may keep running")
		prints(t, run.String(), "was killed", false)
	})
}

// A TERM that reaches no process does not count as the cause of the command's end, so
// nothing of its group is killed.
func TestATermThatReachesNobody(t *testing.T) {
	g := strangers(parallel(t))
	run := g.works("run " + lockPath + " -- part climbers FILE")
	leader, _ := g.root(run, "command")
	climber, kill := g.root(run, "climber")
	run.Send(syscall.SIGTERM)
	run.Await(t, "cannot send SIGTERM to processes ", 1)
	eventstest.Check(t, syscall.Kill(leader, syscall.SIGUSR1))
	run.Await(t, "the command has ended, but /locks/run stays held for process "+strconv.Itoa(climber), 1)
	prints(t, run.String(), "SIGKILL", false)
	kill()
	run.Exits(0)
}

// The supervisor is killed while the command runs as root. The kernel does not kill it
// with the supervisor then, and zkgrant may not. The lock is held until it has ended.
func TestTheSupervisorOfAStrangerIsKilled(t *testing.T) {
	g := strangers(parallel(t))
	run := g.begin("run " + lockPath + " -- part climber FILE")
	climber, kill := g.root(run, "climber")
	eventstest.Check(t, syscall.Kill(childOf(t, run.Pid()), syscall.SIGKILL))
	who := "process " + strconv.Itoa(climber)
	run.Await(t, "cannot send SIGKILL to "+who+" of the command: operation not permitted", 1)
	run.Await(t, "the command has ended, but /locks/run stays held for "+who, 1)
	g.nodes(1, "while the command lives")
	kill()
	run.Exits(codeFailed)
}

// zkgrant is killed while the command runs as root, which the supervisor may not kill
// either. After a session timeout, the supervisor reports that and ends.
func TestASupervisorThatCannotEndTheCommand(t *testing.T) {
	g := strangers(parallel(t))
	run := g.begin("run --json " + lockPath + " -- part climber FILE")
	climber, kill := g.root(run, "climber")
	run.Send(syscall.SIGKILL)
	run.Await(t, `"event":"failed","error":"still running","processes":[`+strconv.Itoa(climber)+`]`, 1)
	kill()
	run.Exits(codeSignal + int(syscall.SIGKILL))
}

// /proc hides the processes of other users. The lock is held as long as kill(2) still
// finds the group.
func TestAStrangerThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	cases := map[string]bool{"in a session of its own": false, "in the session of a shell": true}
	inParallel(t, cases, func(t *testing.T, _ string, group bool) {
		g := strangers(t)
		const hide = "mount -t proc -o hidepid=2 none /proc"
		if exec.Command("unshare", append([]string{"-m"}, strings.Fields(hide)...)...).Run() != nil {
			t.Skip("/proc cannot be hidden here: it takes root, and the capability SYS_ADMIN in a container")
		}
		cmd := g.shell(hide+` && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"`,
			g.folder+"/zkgrant run --shell "+lockPath+beside)
		cmd.Path, cmd.Args = "/usr/bin/unshare", append([]string{"unshare", "-m"}, cmd.Args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: group}
		run := eventstest.Begin(t, cmd)
		g.pid(run, "command")
		_, kill := g.root(run, "climber")
		run.Send(syscall.SIGTERM)
		run.Await(t, "cannot send SIGKILL to processes of the command: operation not permitted", 1)
		g.nodes(1, "while a process of the group lives")
		kill()
		run.Exits(codeSignal + int(syscall.SIGTERM))
	})
}
