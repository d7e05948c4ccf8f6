//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// --version prints the same as the version command, on standard output.
func TestVersionFlag(t *testing.T) {
	command, err := exec.Command("zkgrant", "version").Output()
	flag, also := exec.Command("zkgrant", "--version").Output()
	if err = errors.Join(err, also); err != nil || len(command) == 0 || string(command) != string(flag) {
		t.Errorf("version prints %s--version %s(%v), want the same", command, flag, err)
	}
}

// Arguments may be secrets, and every client of the servers can read a node's data.
func TestArgumentsAreNotInTheNode(t *testing.T) {
	g := double(t)
	const script = "'echo command 1 ready; exec sleep 600 # secret'"
	for _, line := range []string{"run /locks/run -- sh -c", "elect /locks/run -- sh -c", "run --shell /locks/run --"} {
		run := g.works(line + " " + script)
		node, _ := g.first()
		data, _ := g.Data(node)
		want := regexp.MustCompile(`pid \d+: sh$`)
		eventstest.Expect(t, want.Match(data), "%s: the node has %q, want %s", line, data, want)
		g.stop(run, syscall.SIGTERM, codeSignal+int(syscall.SIGTERM))
	}
}

// A refused identity ends the wait, because only an operator can mend it.
func TestARefusedIdentityEndsTheWait(t *testing.T) {
	g := double(parallel(t))
	flags := " --auth-file " + write(t, "identities", "unknown:bob") + " " + lockPath
	for _, name := range []string{"run", "elect"} {
		g.ends(codeFailed, name+flags+" -- true", "the server refuses it, or has no such scheme")
	}
}

// If no server answers, a try exits with the code for a failure, and never with the code
// for a lock that is taken.
func TestATryWithoutServers(t *testing.T) {
	g := double(parallel(t))
	wait := fmt.Sprint(g.enough(300 * time.Millisecond)) // for a server that refuses
	g.MuteAll(true)
	const rest = " -E 0 /locks/run -- true"
	for _, flags := range []string{"--try --wait " + wait, "--wait " + wait} {
		g.ends(codeFailed, "run "+flags+rest, "no server answered within "+wait)
		g.ends(codeFailed, "run --servers 127.0.0.1:1 "+flags+rest,
			"no server answered within "+wait+" (", "connection refused")
	}
	if eventstest.Full() {
		for _, flag := range []string{"--try", "--wait=0"} {
			g.ends(codeFailed, "run "+flag+rest, "no server answered within 10s")
		}
	}
}

// A command that waits for a server can be interrupted. A command that holds no lock
// prints nothing then.
func TestInterruptedWhileConnecting(t *testing.T) {
	t.Parallel()
	for line, sig := range map[string]syscall.Signal{"run /a -- true": syscall.SIGTERM, "doctor": syscall.SIGINT, "queue /a": syscall.SIGQUIT} {
		g := double(t)
		g.MuteAll(true)
		p := g.begin(line)
		eventstest.Eventually(t, "there is a connection", func() bool { return g.Connections() > 0 })
		g.stop(p, sig, codeSignal+int(sig))
		matches(t, "interrupted "+line, p, `^$`)
	}
}

// In the background of a script, Ctrl-C is meant for the foreground, and must not end a
// command that holds no lock, either.
func TestCtrlCIsNotForTheBackground(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"doctor", "queue /a"} {
		g := double(t)
		g.MuteAll(true)
		p := g.situate("background", line)
		eventstest.Eventually(t, "there is a connection", func() bool { return g.Connections() > 0 })
		p.Send(syscall.SIGINT)
		p.Send(syscall.SIGQUIT)
		g.stop(p.Process, syscall.SIGTERM, codeSignal+int(syscall.SIGTERM))
		matches(t, "interrupted "+line, p, `^$`)
	}
}

// Ctrl-C also ends the script that started zkgrant, and not only this command. For that,
// INT must end zkgrant: bash continues if it exits with 130, as the last command does.
func TestCtrlCEndsTheScript(t *testing.T) {
	g := double(parallel(t))
	g.works("run " + lockPath + " -- part wait")
	for path, ready := range map[string]string{"/locks/free": "granted", lockPath: "1 ahead"} {
		script := eventstest.Begin(t, g.command("bash -c", "for i in 1 2 3; do zkgrant run -v "+path+" -- sleep 600; echo NEXT; done"))
		script.Await(t, ready, 1)
		eventstest.Must(t, syscall.Kill(-script.Pid(), syscall.SIGINT))
		script.Exits(codeSignal + int(syscall.SIGINT))
		prints(t, script.String(), "NEXT", false)
	}
	cmd := g.command("zkgrant run /locks/free -- sh -c", "exit 130")
	eventstest.Begin(t, cmd).Exits(codeSignal + int(syscall.SIGINT))
	eventstest.Expect(t, cmd.ProcessState.Exited(), "a signal has ended zkgrant, want it to exit with the command's 130")
}

// A signal ends zkgrant while a file system does not answer.
func TestInterruptedWhileAFileIsRead(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"run --auth-file FIFO /a -- true", "hold --auth-file FIFO /a"} {
		fifo := filepath.Join(t.TempDir(), "auth")
		eventstest.Must(t, syscall.Mkfifo(fifo, 0o600))
		p := double(t).begin(strings.Replace(line, "FIFO", fifo, 1))
		var writer *os.File
		eventstest.Eventually(t, "the file is read", func() bool {
			file, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0) // fails if there is no reader
			writer = file
			return err == nil
		})
		p.Send(syscall.SIGTERM)
		p.Exits(codeSignal + int(syscall.SIGTERM))
		eventstest.Check(t, writer.Close())
	}
}

// However many signals of one kind are pending, the first of another kind is not lost.
func TestManySignalsDropNoOther(t *testing.T) {
	t.Parallel()
	eventstest.Begin(t, on(t, "").command("part windows")).Exits(0)
}

// An interrupted revoke exits with the signal's code and prints nothing about it. Its
// revocation request stays in effect.
func TestInterruptedWhileAsking(t *testing.T) {
	g := double(parallel(t))
	holder := g.works("run --revocable --grace 0 " + lockPath + " -- part stubborn")
	revoke := g.begin("revoke -v --grace 4s " + lockPath)
	holder.Await(t, "is being revoked", 1)
	g.stop(revoke, os.Interrupt, codeSignal+int(syscall.SIGINT))
	g.nodes(1, "when the revocation was interrupted")
	over(t, holder, codeLost, "LOST "+lockPath+": revoked")
	const when = `^zkgrant: revoking /locks/run: .* at about [0-9:]+\n$` // and nothing about the interruption
	matches(t, "revoke", revoke, when)
}

// Curator's Revoker sends requests to any holder. A command ends because of one only with
// --revocable. A request from before the grant is delivered together with it, and ends
// the command once it was started.
func TestAskedByCurator(t *testing.T) {
	t.Parallel()
	asked := []byte("__REVOKE__")
	for _, flag := range []string{"", "--revocable "} {
		g := double(t)
		run := g.works("run " + flag + lockPath + " -- part wait")
		node, _ := g.first()
		eventstest.Must(t, g.SetData(node, asked))
		run.Await(t, "is being revoked", 1)
		if flag == "" {
			run.Send(syscall.SIGUSR1)
			run.Await(t, "command got user defined signal 1", 1) // so it kept running
			run.Send(syscall.SIGTERM)
		}
		run.Exits(0) // the command's own
	}
	g := double(t)
	holder := g.works("run " + lockPath + " -- part wait")
	held, _ := g.first()
	waiter := g.until("1 ahead", "run -v --revocable "+lockPath+" -- sleep 600")
	for _, node := range g.Children(lockPath) {
		if node = lockPath + "/" + node; node != held {
			eventstest.Must(t, g.SetData(node, asked))
		}
	}
	g.stop(holder, syscall.SIGTERM, 0)
	over(t, waiter, codeSignal+int(syscall.SIGTERM), "/locks/run is being revoked")
}

// --min-hold keeps the lock for a minimum time after the grant. Then run exits with the
// command's code. A machine whose clock is slow still finds the lock held.
func TestMinHold(t *testing.T) {
	g := double(parallel(t))
	least := g.enough(time.Second) // for the try
	began := time.Now()
	run := g.until("the command has ended, and /locks/run stays held for another",
		fmt.Sprintf("run -v --min-hold %v %s -- part exit 7", least, lockPath))
	g.ends(codeTaken, "run --try "+lockPath+" -- true")
	run.Exits(7)
	held := time.Since(began)
	eventstest.Expect(t, held >= least, "run has ended after %v, want %v at least", held, least)
	matches(t, "run", run, `released /locks/run after [1-9][\d.]*s`)
	late := g.ends(7, "run -v --min-hold 1ns "+lockPath+" -- part exit 7")
	prints(t, late.String(), "for another", false)
}

// TERM, a revocation and a loss cut --min-hold short, even if they also end the command.
// The exit code is the command's, because it has ended under the lock.
func TestMinHoldIsCutShort(t *testing.T) {
	g := double(parallel(t))
	const line = "run -v --min-hold 1h --revocable " + lockPath + " -- part "
	for name, cut := range map[string]func(*rig, *situated){
		"TERM": sends(syscall.SIGTERM), "HUP": sends(syscall.SIGHUP), "QUIT": sends(syscall.SIGQUIT),
		"KILL": sends(syscall.SIGKILL), "revocation": revokes(""), "loss": func(g *rig, _ *situated) { g.expire() },
	} {
		run := g.situate("job", line+"exit 7")
		run.Await(t, "stays held for another", 1)
		cut(g, run)
		if name == "KILL" {
			run.Exits(codeSignal + int(syscall.SIGKILL))
			g.expire() // instead of waiting for the session timeout
			continue
		}
		run.Exits(7)
		lost := run.Count("LOST /locks/run: session expired") > 0
		eventstest.Equal(t, lost, name == "loss", "%s: it says that the lock is lost", name)
	}
	run := g.works(line + "wait")
	g.stop(run, syscall.SIGTERM, 0)
	g.nodes(0, "when run has ended")
}

// A run inside a run that would wait for itself is refused at once. It finds the outer
// runs through its environment.
func TestARunInsideARun(t *testing.T) {
	g := double(parallel(t))
	const itself = "would wait for itself"
	inParallel(t, map[string]map[string]int{
		"run /a": {
			"run /a": codeFailed, "run --wait 1m /a": codeFailed, "run /b /a": codeFailed, "elect /a": codeFailed,
			"run -k write /a": codeFailed, "run --try /a": codeTaken, "run /c": 0,
			"run /c -- zkgrant run /a": codeFailed, "run /c -- zkgrant run /d": 0,
		},
		"run /a /b": {"run /b": codeFailed, "run /c": 0},
		"run -k read /r": {
			"run -k read /r": 0, "run -k write /r": codeFailed, "run /c -- zkgrant run -k write /r": codeFailed,
		},
		"run -k write /w":  {"run -k read /w": codeFailed}, // another path: these run at the same time
		"run -k unfair /u": {"run -k unfair /u": codeFailed},
		"elect /e":         {"elect /e": codeFailed},
		"run --size 2 /s": {
			"run --size 2 /s": 0, "run --size 2 --permits 2 /s": codeFailed,
			"run --size 2 /s -- zkgrant run --size 2 /s": codeFailed,
		},
		"run --as-kazoo /kaz": {"run --as-kazoo /kaz": codeFailed},
	}, func(t *testing.T, outer string, inner map[string]int) {
		g := on(t, g.servers)
		for inner, code := range inner {
			run := g.ends(code, outer+" -- zkgrant "+inner+" -- true")
			got := strings.Contains(run.String(), itself)
			eventstest.Equal(t, got, code == codeFailed, "%s in %s says that it %s", inner, outer, itself)
		}
	})
}

// The outer lock is lost. Its command is another zkgrant in a session of its own, as
// under cron. Everything that the inner one runs is dead before the next holder of the
// inner lock starts.
func TestALossAroundAnInnerRun(t *testing.T) {
	g := brief(parallel(t))
	run := g.situate("session-leader", "run /locks/outer -- zkgrant run "+lockPath+" -- part leader FILE deaf")
	pid := g.pid(run.Process, "command")
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // it may have ended
	_, holder := g.first("/locks/outer")
	g.handsOver(func() { g.Mute(holder, true) })
	run.Exits(codeLost)
}

// A signal reaches the command of an inner run exactly once, through the inner run.
func TestASignalThroughAnInnerRun(t *testing.T) {
	g := double(parallel(t))
	run := g.works("run /locks/outer -- zkgrant run /locks/inner -- part wait")
	const rounds = 5 // two pending signals of a kind count as one
	for n := range rounds {
		run.Send(syscall.SIGUSR1)
		run.Await(t, "got user defined signal 1", n+1)
	}
	g.stop(run, syscall.SIGUSR2, 5)
	eventstest.Equal(t, run.Count("got user defined signal 1"), rounds, "signals to the inner command")
}

// If the command ignores a TERM, and the lock is then lost, elect --again does not
// campaign again.
func TestAStoppedLeaderDoesNotCampaignAgain(t *testing.T) {
	g := brief(parallel(t))
	run := g.works("elect --again -v " + lockPath + " -- part stubborn")
	run.Send(syscall.SIGTERM)
	run.Await(t, "command got "+syscall.SIGTERM.String(), 1)
	g.expire()
	run.Exits(codeLost)
	eventstest.Equal(t, run.Count("granted "+lockPath), 1, "the grants")
}

// hold ends with its input, on a signal or after a loss, even if nobody reads the line
// that it prints at the Grant. If the line cannot be printed, its work counts as not
// begun, and the record of an earlier crash stays.
func TestHold(t *testing.T) {
	t.Parallel()
	type holding struct {
		output func(*testing.T) *os.File
		end    func(*rig, *situated)
		code   int
		says   string
	}
	inParallel(t, map[string]holding{
		"TERM":                {fullPipe, sends(syscall.SIGTERM), 0, "released /locks/run"},
		"no more input":       {fullPipe, func(_ *rig, p *situated) { _ = p.stop() }, 0, "released /locks/run"},
		"a loss":              {fullPipe, func(g *rig, _ *situated) { g.expire() }, codeLost, "LOST /locks/run: session"},
		"no reader":           {brokenPipe, nil, codeFailed, "cannot print the grant"},
		"the same at a crash": {brokenPipe, nil, codeFailed, "cannot print the grant"},
	}, func(t *testing.T, name string, test holding) {
		g := double(t)
		crash := strings.HasSuffix(name, "crash")
		_, end := g.former()
		end(crash)
		hold := g.fed(g.onFile("1", test.output(t), "zkgrant hold -v --detect-crash "+lockPath))
		if test.end != nil {
			hold.Await(t, "granted", 1)
			test.end(g, hold)
		}
		over(t, hold.Process, test.code, test.says)
		if test.end == nil {
			g.nodes(0, "when hold has ended")
			g.record(crash)
		}
	})
}

// unstarted is a command that must not be started.
type unstarted struct{ *child }

func (unstarted) start(events.Grant, string, terms) error { return errors.New("it was started") }

// hears receives events up to the first one of type E.
func hears[E events.Event](t *testing.T, news <-chan events.Event) {
	t.Helper()
	for is := false; !is; {
		_, is = eventstest.Receive(t, news, fmt.Sprintf("%T", *new(E))).(E)
	}
}

// A Grant that is lost before it was received starts nothing. The exit code is that of a
// loss, and with --again, zkgrant campaigns again.
func TestLostBeforeItWasTaken(t *testing.T) {
	ctx := eventstest.Patiently(t, time.Minute)
	g := double(t)
	g.Down(true) // until the test listens to the events
	w, c := wants(t, g, 10*time.Second)
	w.kind, w.verbose = kindElection, true
	var said eventstest.Screen
	busy, goOn := make(chan struct{}), make(chan struct{})
	said.When("connected to", 1, func() { // blocks the goroutine that handles the lock while the Grant comes and goes
		close(busy)
		<-goOn
	})
	w.divert(func(line string) { said.Say("%s", line) })
	news := c.Events(ctx)
	signals := &signals{make(chan os.Signal)}
	ended := make(chan error, 1)
	go func() {
		code, err := w.hold(c, signals, unstarted{&child{}}, "")
		if err == nil && code != codeLost {
			err = &exit{code: code}
		}
		ended <- err
	}()
	signals.c <- syscall.SIGWINCH // received once hold listens, and ignored
	g.Down(false)
	eventstest.Receive(t, busy, "the session")
	hears[events.Grant](t, news)
	g.expire()
	hears[events.SessionExpired](t, news)
	close(goOn)
	err := eventstest.Receive(t, ended, "the end of the work")
	eventstest.Expect(t, err == nil, "it ends with %v, want the code %d and no error", err, codeLost)
	said.Must(t, "LOST "+lockPath)
}
