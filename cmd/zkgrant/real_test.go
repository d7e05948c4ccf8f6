//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRealServers tries the program with a real ensemble and real children, on the complaints about other tools. Each part has its own
// lock. The parts that need no time to themselves run together.
func TestRealServers(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 3)
	t.Run("parts", func(t *testing.T) {
		for name, part := range map[string]func(*testing.T, *ensemble.Ensemble){
			"signals":     testRealSignals,
			"environment": testRealEnvironment,
			"hold":        testRealHold,
			"queue":       testRealQueue,
			"idle":        testRealIdle,
			"watch":       testRealWatchOfASemaphore,
			"revoke":      testRealRevoke,
			"semaphore":   testRealSemaphore,
			"elect":       testRealElect,
			"multi":       testRealMulti,
			"exit codes":  testRealExitCodes,
			"terminal":    testRealTerminal,
			"json":        testRealJSON,
			"identities":  testRealIdentities,
			"tls":         testRealTLS,
			"top":         testRealTop,
			"board":       testRealBoard,
			"not begun":   testRealNotBegun,
			"access":      testRealAccess,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				part(t, e)
			})
		}
	})
	trials := eventstest.Amount(5, 20)
	t.Run(fmt.Sprintf("partition %d of 20 trials", trials), func(t *testing.T) { testRealPartition(t, e, trials) })
	t.Run("a server is killed", func(t *testing.T) { testRealKill(t, e) }) // last: it does not come back
}

// realRun begins a run of a command with a part to play.
func realRun(t *testing.T, e *ensemble.Ensemble, flags []string, part string, args ...string) *eventstest.Process {
	t.Helper()
	line := append([]string{"run", "-v", "--servers", e.Connect()}, flags...)
	return begin(t, "", append(line, commandLine(part, args...)...)...)
}

// asks runs the program until it ends with the code, and returns what it has printed.
func asks(t *testing.T, e *ensemble.Ensemble, code int, args ...string) string {
	t.Helper()
	p := begin(t, "", append([]string{args[0], "--servers", e.Connect()}, args[1:]...)...)
	p.Exits(code)
	return p.String()
}

// hashicorp/consul#2022, #3571: each signal reaches the command and its child, and zkgrant returns their exit code.
func testRealSignals(t *testing.T, e *ensemble.Ensemble) {
	run := realRun(t, e, []string{"/signals"}, "family")
	ready(t, run, "child")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGWINCH} {
		run.Send(sig)
		run.Await(t, "command got "+sig.String(), 1)
		run.Await(t, "child got "+sig.String(), 1)
	}
	run.Send(syscall.SIGUSR2) // ends both
	run.Exits(5)
	// etcd-io/etcd#10117: ^C leaves nothing behind, whether of a waiter or of a holder.
	holder := realRun(t, e, []string{"/signals"}, "wait")
	ready(t, holder, "command")
	waiter := realRun(t, e, []string{"/signals"}, "exit", "0")
	waiter.Await(t, "1 ahead", 1)
	waiter.Send(os.Interrupt)
	waiter.Exits(codeSignal + int(syscall.SIGINT))
	holder.Send(syscall.SIGTERM)
	holder.Exits(0)
	holder.Must(t, "command got "+syscall.SIGTERM.String())
	// The servers may have removed the directory; ls would say so.
	if left := asks(t, e, 0, "queue", "/signals"); left != "no holders, no waiters\n" {
		t.Errorf("left behind:\n%s\nwant nothing", left)
	}
}

// The command's variables describe its own lock, whatever zkgrant inherits. The command's flags are its own (hashicorp/consul#1063).
func testRealEnvironment(t *testing.T, e *ensemble.Ensemble) {
	line := append([]string{"run", "--session-timeout", "8s", "/environment"}, commandLine("environment", "--servers", "--help")...)
	run := beginWith(t, nil, []string{"ZKGRANT_SERVERS=" + e.Connect(), "ZKGRANT_PATH=/outer", "ZKGRANT_MEMBERS=outer"}, line...)
	run.Exits(0)
	pattern := `ZKGRANT_KIND=mutex\nZKGRANT_NODE=/environment/\S+\nZKGRANT_PATH=/environment\n(ZKGRANT_REAL=1\n)?ZKGRANT_SERVERS=\S+\nZKGRANT_SESSION=0x[0-9a-f]+\nZKGRANT_TOKEN=\d+\n`
	if !regexp.MustCompile(pattern).MatchString(run.String()) || strings.Contains(run.String(), "outer") {
		t.Errorf("the command found\n%s\nwant %s", run, pattern)
	}
	bad := beginWith(t, nil, []string{"ZKGRANT_SESSION_TIMEOUT=soon"}, line[:1]...)
	bad.Exits(codeFailed)
	bad.Must(t, "ZKGRANT_SESSION_TIMEOUT")
}

// A lock without a child, as etcd-io/etcd#2855 asks for: it is held until standard input ends.
func testRealHold(t *testing.T, e *ensemble.Ensemble) {
	for name, end := range map[string]func(p *eventstest.Process, stdin *os.File){
		"end of standard input": func(_ *eventstest.Process, stdin *os.File) { eventstest.Check(t, stdin.Close()) },
		"INT":                   func(p *eventstest.Process, _ *os.File) { p.Send(os.Interrupt) },
		"TERM":                  func(p *eventstest.Process, _ *os.File) { p.Send(syscall.SIGTERM) },
	} {
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		hold := beginWith(t, in, nil, "hold", "--servers", e.Connect(), "--data", "the disk", "/hold")
		eventstest.Check(t, in.Close())
		hold.Await(t, "\n", 1)
		var line grantLine
		if err := json.Unmarshal([]byte(hold.String()), &line); err != nil || line.Path != "/hold" || line.Token == 0 || line.Kind != "mutex" {
			t.Errorf("hold printed %s: %v; want a line of JSON with the path, the kind and the token", hold, err)
		}
		asks(t, e, 0, "queue", "--held", "/hold")
		asks(t, e, 9, append([]string{"run", "--try", "--conflict-code", "9", "/hold"}, commandLine("exit", "0")...)...)
		end(hold, out)
		hold.Exits(0)
		if name != "end of standard input" {
			eventstest.Check(t, out.Close())
		}
		asks(t, e, codeNotHeld, "queue", "--held", "/hold")
	}
}

func testRealQueue(t *testing.T, e *ensemble.Ensemble) {
	watch := begin(t, "", "watch", "--servers", e.Connect(), "--every", "20ms", "/queue/lock")
	holder := realRun(t, e, []string{"--kind", "write", "--data", "the \x1b[31mfir\u202est", "/queue/lock"}, "wait")
	ready(t, holder, "command")
	watch.Await(t, "holds", 1)
	waiter := realRun(t, e, []string{"--kind", "read", "--data", "the second", "/queue/lock"}, "exit", "0")
	waiter.Await(t, "1 ahead", 1)
	watch.Await(t, "waits", 1)
	for _, want := range []struct {
		args    []string
		pattern string
	}{
		{[]string{"queue", "/queue/lock"}, `^STATE +KIND +SINCE +TOKEN +SESSION +WHO\nholds +write +\S+ +\d+ +0x\w+ +the �\[31mfir�st\nwaits +read +\S+ +\d+ +0x\w+ +the second\n$`},
		{[]string{"queue", "--json", "/queue/lock"}, `^{"path":"/queue/lock","kind":"write",.*"holding":true,.*"data":"the \\u001b\[31mfir\\u202est"}\n{.*"holding":false,.*}\n$`},
		{[]string{"queue", "/queue/none"}, `^no holders, no waiters\n$`},
		{[]string{"ls", "/queue"}, `^PATH +KIND +SIZE +HELD BY +WAIT +OLDEST WAIT\n/queue/lock +readwrite +the �\[31mfir�st +1 +\d\S*\n$`},
		{[]string{"ls", "/queue", "--json"}, `^{"path":"/queue/lock","kind":"readwrite","holders":1,"waiters":1,"oldest_wait_seconds":.*}\n$`},
		{[]string{"__complete", "queue", "/queue/l"}, `^/queue/lock\n:4\n`},
		{[]string{"__complete", "run", "/queue/"}, `^/queue/lock\n:4\n`},
		{[]string{"__complete", "run", "/queue/lock", "--", "l"}, `^:0\n`},
		{[]string{"__complete", "run", "/queue/lock", "--", "ls", "/"}, `^:0\n`},
		{[]string{"__complete", "run", "/other", "/queue/"}, `^/queue/lock\n:4\n`},
		{[]string{"__complete", "run", "--kind", ""}, `^mutex\nread\nwrite\nunfair\n:4\n`},
	} {
		if got := beginWith(t, nil, []string{"ZKGRANT_SERVERS=" + e.Connect()}, want.args...); true {
			got.Exits(0)
			if !regexp.MustCompile(want.pattern).MatchString(got.String()) {
				t.Errorf("%q prints\n%s\nwant %s", want.args, got, want.pattern)
			}
		}
	}
	if said := asks(t, e, codeNotThere, "ls", "/queue/none"); !strings.Contains(said, "/queue/none does not exist") {
		t.Errorf("ls of no such path printed %s", said)
	}
	holder.Send(syscall.SIGTERM)
	holder.Exits(0)
	waiter.Exits(0)
	watch.Await(t, "has gone", 2)
	watch.Send(os.Interrupt)
	watch.Exits(0)
}

// If the lock is asked back, the command is asked to end. A holder that has not agreed to that is left alone.
func testRealRevoke(t *testing.T, e *ensemble.Ensemble) {
	run := realRun(t, e, []string{"--revocable", "--signal", "USR2", "/revoke"}, "wait")
	ready(t, run, "command")
	if said := asks(t, e, 0, "revoke", "--grace", "1m", "/revoke"); !strings.Contains(said, "/revoke is not held any more by the holders that were asked") {
		t.Errorf("revoke printed %s, want that they do not hold it any more", said)
	}
	run.Exits(5)
	stubborn := realRun(t, e, []string{"--revocable", "--grace", "0", "/revoke"}, "stubborn")
	ready(t, stubborn, "command")
	asks(t, e, 0, "revoke", "--grace", "100ms", "/revoke")
	stubborn.Exits(codeLost)
	stubborn.Must(t, "LOST /revoke: revoked")
	firm := realRun(t, e, []string{"/revoke"}, "wait")
	ready(t, firm, "command")
	if said := asks(t, e, codeFailed, "revoke", "/revoke"); !strings.Contains(said, "has not agreed") {
		t.Errorf("revoke printed %s, want that the holder has not agreed", said)
	}
	firm.Send(syscall.SIGTERM)
	firm.Exits(0)
}

func testRealSemaphore(t *testing.T, e *ensemble.Ensemble) {
	first := realRun(t, e, []string{"--size", "3", "-n", "2", "/semaphore"}, "wait")
	ready(t, first, "command")
	second := realRun(t, e, []string{"--size", "3", "-n", "2", "/semaphore"}, "exit", "3")
	second.Await(t, "waiting for /semaphore, 0 ahead", 1)
	if said := asks(t, e, 0, "resize", "/semaphore", "4"); !strings.Contains(said, "/semaphore has 4 permits") {
		t.Errorf("resize printed %s, want the number of permits", said)
	}
	second.Exits(3)
	first.Send(syscall.SIGTERM)
	first.Exits(0)
}

func testRealElect(t *testing.T, e *ensemble.Ensemble) {
	watch := begin(t, "", "elect", "--servers", e.Connect(), "--watch", "/elect")
	watch.Await(t, "no leader", 1)
	line := append([]string{"elect", "--servers", e.Connect(), "--data", "host seven", "/elect"}, commandLine("wait")...)
	leader := begin(t, "", line...)
	ready(t, leader, "command")
	watch.Await(t, "host seven leads, token ", 1)
	leader.Send(syscall.SIGTERM)
	leader.Exits(0)
	watch.Await(t, "no leader", 2)
	leader = begin(t, "", append([]string{"elect", "--revocable", "--lock-delay", "1s"}, line[1:]...)...)
	ready(t, leader, "command")
	watch.Await(t, "host seven leads, token ", 2)
	begin(t, "", "revoke", "--servers", e.Connect(), "/elect").Exits(0)
	leader.Exits(0)
	leader.Must(t, "/elect is asked back")
	watch.Await(t, "no leader", 3)
	watch.Send(syscall.SIGTERM)
	watch.Exits(0)
}

func testRealMulti(t *testing.T, e *ensemble.Ensemble) {
	run := begin(t, "", append([]string{"run", "--servers", e.Connect(), "/multi/a", "/multi/b"}, commandLine("environment")...)...)
	run.Exits(0)
	pattern := `ZKGRANT_KIND=multi\nZKGRANT_MEMBERS=\[{"path":"/multi/a","node":"/multi/a/\S+"},{"path":"/multi/b","node":"/multi/b/\S+"}\]\n`
	if !regexp.MustCompile(pattern).MatchString(run.String()) {
		t.Errorf("the command found\n%s\nwant %s", run, pattern)
	}
}

// etcd-io/etcd pull 7983: in a silent partition the command and its children have ended before the next waiter is granted the lock. The
// other works that hold a lock hear of the loss, too.
func testRealPartition(t *testing.T, e *ensemble.Ensemble, trials int) {
	const together = 5 // a process that is not scheduled in time proves nothing
	for first := 0; first < trials; first += together {
		var all sync.WaitGroup
		for i := range together {
			all.Go(func() { partition(t, e, fmt.Sprintf("/partition/%d", first+i)) })
		}
		if first == 0 {
			all.Go(func() { cutWhileHolding(t, e) })
		}
		all.Wait()
	}
}

func partition(t *testing.T, e *ensemble.Ensemble, path string) {
	proxy := ensemble.StartProxy(t, e.Addr(0))
	cut := begin(t, "", append([]string{"run", "-v", "--servers", proxy.Addr(), "--session-timeout", "4s", "--grace", "0", path}, commandLine("family")...)...)
	pids := []int{ready(t, cut, "command"), ready(t, cut, "child")}
	next := realRun(t, e, []string{path}, "wait")
	next.Await(t, "1 ahead", 1)
	overlap := make(chan bool, 1)
	next.When("granted "+path, 1, func() { overlap <- !gone(t, pids[0]) || !gone(t, pids[1]) })
	proxy.Hold(ensemble.BothWays)
	if eventstest.Receive(t, overlap, "the next grant") {
		t.Errorf("%s: the next waiter was granted the lock while the command ran", path)
	}
	proxy.Heal()
	cut.Exits(codeLost)
	cut.Must(t, "LOST "+path+": lease ran out")
	ready(t, next, "command")
	next.Send(syscall.SIGTERM)
	next.Exits(0)
}

// cutWhileHolding checks that hold ends with the code of a loss, and that elect --again campaigns again.
func cutWhileHolding(t *testing.T, e *ensemble.Ensemble) {
	proxy := ensemble.StartProxy(t, e.Addr(0))
	global := []string{"--servers", proxy.Addr(), "--session-timeout", "3s"}
	in, out, err := os.Pipe()
	if err != nil {
		t.Error(err)
		return
	}
	hold := beginWith(t, in, nil, append([]string{"hold", "/cut/a", "/cut/b"}, global...)...)
	elect := begin(t, "", slices.Concat([]string{"elect", "--again"}, global, []string{"/cut/elect"}, commandLine("wait"))...)
	asked := begin(t, "", slices.Concat([]string{"run", "--grace", "700ms"}, global, []string{"/cut/run"}, commandLine("family"))...)
	pids := []int{ready(t, asked, "command"), ready(t, asked, "child")} // which TERM does not end
	hold.Await(t, `"members":[{"path":"/cut/a","node":"/cut/a/`, 1)
	elect.Await(t, "ready", 1)
	proxy.Hold(ensemble.BothWays)
	hold.Await(t, "LOST /cut/a /cut/b: lease ran out", 1)
	elect.Await(t, "LOST /cut/elect: lease runs out", 1)
	asked.Exits(codeLost)
	asked.Must(t, "command got "+syscall.SIGTERM.String(), "child got "+syscall.SIGTERM.String())
	if !gone(t, pids[0]) || !gone(t, pids[1]) {
		t.Error("run has ended before the command or its child")
	}
	proxy.Heal()
	hold.Exits(codeLost)
	eventstest.Check(t, errors.Join(in.Close(), out.Close()))
	elect.Await(t, "ready", 2)
	elect.Send(syscall.SIGUSR2)
	elect.Exits(5)
}

// hashicorp/consul#1162, #5437: the end of one server costs no lock.
func testRealKill(t *testing.T, e *ensemble.Ensemble) {
	run := realRun(t, e, []string{"--session-timeout", "20s", "/killed"}, "wait")
	ready(t, run, "command")
	for i := range e.Size() {
		if strings.Contains(run.String(), "connected to "+e.Addr(i)) {
			eventstest.Check(t, e.Kill(i))
		}
	}
	run.Await(t, "connected again", 1)
	run.Send(syscall.SIGUSR2)
	run.Exits(5)
	if run.Count("LOST") > 0 {
		t.Errorf("the lock was lost with a server, want it held:\n%s", run)
	}
}
