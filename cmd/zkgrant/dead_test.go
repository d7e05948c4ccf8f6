//go:build unix

package main

import (
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// ending is a way in which a lock ends. In each case, everything that run has started is
// dead before the next holder starts.
type ending struct {
	name    string
	where   string // the situation that zkgrant runs in
	flags   string
	command string // works on the file
	end     func(g *rig, run *situated)
	halts   bool // zkgrant is halted, and continued after the end
	code    int
	says    string
	record  bool // a crash record is left: the work was begun, but not finished
}

func (e ending) String() string { return e.name }

func (e ending) comes(t *testing.T) {
	t.Helper()
	g := brief(t)
	line := "run --revocable --detect-crash " + e.flags + " " + lockPath + " -- " + e.command
	run, _ := g.holds(e.where, line)
	g.handsOver(func() { e.end(g, run) })
	if e.halts {
		run.Send(syscall.SIGCONT)
	}
	over(t, run.Process, e.code, e.says)
	if e.record {
		g.record(true)
	}
}

func (g *rig) record(want bool) {
	g.t.Helper()
	_, got := g.Data(lockPath + ".holder")
	eventstest.Expect(g.t, got == want, "the record of a crash is there: %t, want %t", got, want)
}

// mute cuts off the first contender in the queue, so that its lease runs out.
func mute(g *rig, _ *situated) {
	_, holder := g.first()
	g.Mute(holder, true)
}

// revokes revokes the lock, with a flag.
func revokes(flag string) func(*rig, *situated) {
	return func(g *rig, _ *situated) { g.begin("revoke " + flag + lockPath) }
}

func sends(sig syscall.Signal) func(*rig, *situated) {
	return func(_ *rig, run *situated) { run.Send(sig) }
}

func TestTheCommandIsDeadFirst(t *testing.T) {
	t.Parallel()
	var all []ending
	add := func(times int, e ending) {
		for n := range times {
			each := e
			each.name = strings.TrimSpace(e.name + " " + e.flags + " " + e.command + " " + strconv.Itoa(n))
			all = append(all, each)
		}
	}
	const deaf = "part work FILE deaf"
	add(eventstest.Amount(2, 20), ending{
		name: "the lease runs out", command: deaf, end: mute, code: codeLost, says: "LOST /locks/run: lease r", // "runs out", or "ran out" on a busy machine
	})
	add(eventstest.Amount(2, 20), ending{
		name: "revoked", command: deaf, end: revokes("--grace 300ms "), code: codeLost, record: true,
	})
	for _, leader := range leaders() {
		family := "part " + leader + " FILE deaf" // the command ends, but another process of its family continues to work
		add(1, ending{name: "TERM", command: family, end: sends(syscall.SIGTERM)})
		add(1, ending{name: "revoked", command: family, end: revokes("")})
		each := eventstest.Amount(5, 50) / len(leaders())
		add(each, ending{name: "killed", command: family, end: sends(syscall.SIGKILL), code: codeSignal + int(syscall.SIGKILL)})
		add(each, ending{name: "halted", command: family, end: sends(syscall.SIGSTOP), halts: true, code: codeLost})
	}
	add(1, ending{
		name: "the supervisor is killed", command: "part leader FILE deaf", code: codeFailed, record: true,
		end: func(g *rig, run *situated) {
			eventstest.Check(g.t, syscall.Kill(childOf(g.t, run.Pid()), syscall.SIGKILL))
		},
		says: "the supervisor of the command was killed",
	})
	// The command is a zkgrant that gives its own command more time. Even without a
	// terminal, that command must not be in a session that the outer zkgrant does not
	// check.
	for _, where := range []string{"job", "session-leader"} {
		if runtime.GOOS != "linux" {
			break
		}
		const inner = "zkgrant run --session-timeout 2s --grace 500ms /locks/inner -- " + deaf
		add(1, ending{name: where, where: where, command: inner, end: mute, code: codeLost})
		add(1, ending{name: where + ", revoked", where: where, command: inner, end: revokes("--grace 300ms "), code: codeLost, record: true})
		add(1, ending{name: where + ", halted", where: where, command: inner, end: sends(syscall.SIGSTOP), halts: true, code: codeLost})
	}
	// zkgrant's output goes nowhere.
	for _, where := range []string{"pipe-full", "pipe-gone", "tty-stopped"} {
		for _, flag := range []string{"--verbose", "--json", "--verbose=false"} {
			for _, temper := range []string{"deaf", "obedient"} {
				work := "part work FILE " + temper
				add(1, ending{name: where, where: where, flags: flag, command: work, end: mute, code: codeLost})
			}
		}
	}
	together(t, all, ending.comes)
}

// The command ends by itself, but another process of its family continues. The lock is
// held until that process has ended, too, and nothing is killed. After a session timeout,
// a line names the process.
func TestTheLockIsHeldForTheWholeGroup(t *testing.T) {
	t.Parallel()
	// A process whose first thread has ended looks like a zombie to ps, but its other
	// threads still work.
	const headless = `--shell /locks/run -- 'part headless FILE & ` +
		`until grep -q "^State:.Z" /proc/$!/status; do sleep 0.01; done; exit 7'`
	lines := map[string]string{headless: "headless"}
	for _, leader := range leaders() {
		lines["/locks/run -- part "+leader+" FILE obedient 7"] = "command"
	}
	inParallel(t, lines, func(t *testing.T, line, left string) {
		g := brief(t)
		run := g.begin("run " + line)
		pid := g.pid(run, left)
		if _, ok := processStat(pid); left == "headless" && !ok {
			t.Skip("there is no /proc: run the tests on Linux")
		}
		g.handsOver(func() {
			run.Await(t, "the command has ended, but /locks/run stays held for process", 1)
			if _, ok := processStat(pid); ok {
				run.Must(t, "stays held for process "+strconv.Itoa(pid)+" that it started")
			}
			if left != "headless" {
				lives(t, pid)
			}
			eventstest.Check(t, syscall.Kill(pid, syscall.SIGKILL))
			run.Exits(7)
		})
	})
}

// With --release-on-exit the lock is released as soon as the command itself has ended,
// although other processes of its group continue.
func TestReleaseOnExit(t *testing.T) {
	g := double(parallel(t))
	run := g.begin("run -v --release-on-exit " + lockPath + " -- part leader FILE obedient 7")
	pid := g.pid(run, "command")
	run.Await(t, "released /locks/run", 1)
	lives(t, pid)
	g.nodes(0, "when the command has ended")
	eventstest.Check(t, syscall.Kill(pid, syscall.SIGTERM))
	run.Exits(7)
}

// When the lock is lost, run asks the command to end, and kills it with its children if
// it does not. A halted command is continued first. The exit code reports the loss,
// whatever the command's own code is.
func TestALossEndsTheCommand(t *testing.T) {
	t.Parallel()
	inParallel(t, map[string]string{
		"obedient": "2s wait", "halted": "2s wait", "stubborn": "2s stubborn", "its child is": "2s family",
		"without a grace": "0 family",
	}, func(t *testing.T, name, graceAndPart string) {
		grace, part, _ := strings.Cut(graceAndPart, " ")
		g := double(t)
		run := g.works("run --grace " + grace + " " + lockPath + " -- part " + part)
		pids := []int{g.pid(run, "command")}
		if part == "family" {
			pids = append(pids, g.pid(run, "child"))
		}
		if name == "halted" {
			eventstest.Must(t, syscall.Kill(pids[0], syscall.SIGSTOP))
		}
		g.expire()
		over(t, run, codeLost, "LOST /locks/run: session expired")
		for _, pid := range pids {
			eventstest.Expect(t, gone(t, pid), "run has ended before process %d of the command", pid)
		}
		prints(t, run.String(), "got "+syscall.SIGTERM.String(), grace != "0")
	})
}

// A connection that breaks and recovers is reported, and does not cost the lock. A reader
// of standard error that has exited does not cost it either, and the command keeps the
// default action for PIPE.
func TestABrokenConnection(t *testing.T) {
	t.Parallel()
	situations := map[string]bool{"job": true, "pipe-gone": false}
	inParallel(t, situations, func(t *testing.T, where string, says bool) {
		g := double(t)
		run := g.situate(where, "run -v --session-timeout 20s "+lockPath+" -- part wait")
		pid := g.pid(run.Process, "command")
		for n := range 3 {
			_, holder := g.first()
			g.Cut(holder)
			if says {
				run.Await(t, "no connection; held locks stay valid for another", n+1)
				run.Await(t, "reconnected", n+1)
			}
			eventstest.Eventually(t, "it is connected again", func() bool { return g.Connections() > 0 })
		}
		ignored := maskOf(t, pid, "SigIgn")
		eventstest.Equal(t, ignored&(1<<(syscall.SIGPIPE-1)), 0, "PIPE among the ignored %x", ignored)
		g.stop(run.Process, syscall.SIGUSR2, 5)
	})
}

// run is halted, and the lock is lost meanwhile. If Ctrl-Z has halted the command, too,
// CONT does not resume it. If the command has ended with 0 before run notices, that
// counts as a loss, not as a success.
func TestALossOfAHaltedRun(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGSTOP} {
		g := brief(t)
		// Of two pending signals, the kernel delivers the one with the lower number
		// first: the shell dies of TERM before CONT is handled.
		run := g.works("run --grace 250ms --shell "+lockPath+" --", `trap 'echo went on' CONT; `+
			`trap 'kill $!; exit 0' USR1; echo "command $$ ready"; while :; do sleep 600 & wait $!; done`)
		pid := g.pid(run, "command")
		run.Send(sig)
		if halted(t, run.Pid()); sig == syscall.SIGTSTP {
			halted(t, pid)
		} else {
			eventstest.Must(t, syscall.Kill(pid, syscall.SIGUSR1))
			eventstest.Eventually(t, "the command is gone", func() bool { return gone(t, pid) })
		}
		eventstest.Eventually(t, "the session is over", func() bool { return len(g.Sessions()) == 0 })
		g.stop(run, syscall.SIGCONT, codeLost, "LOST")
		prints(t, run.String(), "went on", false)
	}
}

// A halted supervisor is continued at once: otherwise nobody would notice the end of the
// command.
func TestTheSupervisorIsHalted(t *testing.T) {
	g := double(parallel(t))
	run := g.works("run -v " + lockPath + " -- part wait")
	eventstest.Check(t, syscall.Kill(childOf(t, run.Pid()), syscall.SIGSTOP))
	g.stop(run, syscall.SIGTERM, 0, "released /locks/run")
}

// "released" is printed once the servers have confirmed the release, and not before.
func TestGivenBackIsSaidWhenItIsTrue(t *testing.T) {
	g := brief(parallel(t))
	run := g.works("run -v " + lockPath + " -- part wait")
	g.MuteAll(true)
	run.Send(syscall.SIGTERM)
	over(t, run, 0, "releasing the lock: closed, but no server has confirmed the end of the session")
	prints(t, run.String(), "released /locks/run", false)
}
