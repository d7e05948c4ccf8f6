//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// playParts runs the tests for both zktest's server and a real ensemble. Each part has
// its own lock.
func playParts(t *testing.T, rigOf func(t *testing.T) *rig) {
	t.Helper()
	inParallel(t, map[string]func(*testing.T, *rig){
		"signals": testSignals, "environment": testEnvironment, "hold": testHold, "queue": testQueue, "idle": testIdle,
		"watch": testWatch, "revoke": testRevoke, "semaphore": testSemaphore, "elect": testElect, "multi": testMulti,
		"lines": testLines, "terminals": testTerminals, "json": testObjects, "identities": testIdentities,
		"access": testAccess, "tls": testEncrypted, "top": testTop, "board": testBoard, "exporter": testExporter,
		"not begun": testNotBegun,
	}, func(t *testing.T, _ string, part func(*testing.T, *rig)) { part(t, rigOf(t)) })
}

func TestServer(t *testing.T) {
	t.Parallel()
	playParts(t, func(t *testing.T) *rig { t.Helper(); return double(t) })
}

// TestRealServers runs the program on a real ensemble with real children. It covers bug
// reports about other tools.
func TestRealServers(t *testing.T) {
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 3)
	t.Run("parts", func(t *testing.T) {
		playParts(t, func(t *testing.T) *rig { t.Helper(); return on(t, e.Connect()) })
	})
	trials := eventstest.Amount(5, 20)
	t.Run(fmt.Sprintf("partition %d of 20 trials", trials), func(t *testing.T) { partitions(t, e, trials) })
	t.Run("a server is killed", func(t *testing.T) { kill(t, e) }) // last, because the server does not come back
}

func matches(t *testing.T, what string, text fmt.Stringer, pattern string) {
	t.Helper()
	eventstest.Expect(t, regexp.MustCompile(pattern).MatchString(text.String()),
		"%s prints\n%s\nwant %s", what, text, pattern)
}

// hashicorp/consul#2022, #3571: each signal reaches the command and its child, and
// zkgrant returns their exit code.
func testSignals(t *testing.T, g *rig) {
	run := g.works("run -v /signals -- part family")
	g.pid(run, "child")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGWINCH} {
		run.Send(sig)
		run.Await(t, "command got "+sig.String(), 1)
		run.Await(t, "child got "+sig.String(), 1)
	}
	g.stop(run, syscall.SIGUSR2, 5) // ends both
	// etcd-io/etcd#10117: ^C leaves nothing behind, for a waiter as for a holder.
	holder := g.works("run -v /signals -- part wait")
	waiter := g.until("1 ahead", "run -v /signals -- true")
	g.stop(waiter, os.Interrupt, codeSignal+int(syscall.SIGINT))
	g.stop(holder, syscall.SIGTERM, 0, "command got "+syscall.SIGTERM.String())
	// The servers may have removed the directory, which ls would report.
	matches(t, "queue", g.ends(0, "queue /signals"), `^no holders, no waiters\n$`)
}

// A lock without a child, as requested in etcd-io/etcd#2855, is held until standard input
// ends.
func testHold(t *testing.T, g *rig) {
	for name, end := range map[string]func(p *situated){
		"end of standard input": func(p *situated) { eventstest.Check(t, p.stop()) },
		"INT":                   func(p *situated) { p.Send(os.Interrupt) },
		"TERM":                  func(p *situated) { p.Send(syscall.SIGTERM) },
	} {
		held := g.situate("job", "hold --data", "the disk", "/hold")
		held.Await(t, "\n", 1)
		var line grantLine
		err := json.Unmarshal([]byte(held.String()), &line)
		eventstest.Expect(t, err == nil && line.Path == "/hold" && line.Token != 0 && line.Kind == "mutex",
			"%s: hold printed %s: %v; want JSON with the path, the kind and the token", name, held, err)
		g.ends(0, "queue --held /hold")
		end(held)
		held.Exits(0)
		g.ends(codeNotHeld, "queue --held /hold")
	}
}

func testQueue(t *testing.T, g *rig) {
	watch := g.begin("watch /queue/lock")
	holder := g.works("run --kind write /queue/lock --data", "the \x1b[31mfir\u202est", "--", "part", "wait")
	watch.Await(t, "holds", 1)
	waiter := g.until("1 ahead", "run -v --kind read /queue/lock --data", "the second", "--", "true")
	watch.Await(t, "waits", 1)
	for line, want := range map[string]string{
		"queue /queue/lock": `^STATE +KIND +SINCE +TOKEN +SESSION +WHO\n` +
			`holds +write +\S+ +\d+ +0x\w+ +the �\[31mfir�st\nwaits +read +\S+ +\d+ +0x\w+ +the second\n$`,
		"queue --json /queue/lock": `^{"path":"/queue/lock","kind":"write",.*"holding":true,` +
			`.*"data":"the \\u001b\[31mfir\\u202est"}\n{.*"holding":false,.*}\n$`,
		"queue /queue/none": `^no holders, no waiters\n$`,
		"ls /queue": `^PATH +KIND +SIZE +HELD BY +WAIT +OLDEST WAIT\n` +
			`/queue/lock +readwrite +the �\[31mfir�st +1 +\d\S*\n$`,
		"ls /queue --json": `^{"path":"/queue/lock","kind":"readwrite","holders":1,"waiters":1,` +
			`"oldest_wait_seconds":.*}\n$`,
		"__complete queue /queue/l":          `^/queue/lock\n:4\n`,
		"__complete run /queue/":             `^/queue/lock\n:4\n`,
		"__complete run /queue/lock -- l":    `^:0\n`,
		"__complete run /queue/lock -- ls /": `^:0\n`,
		"__complete run /other /queue/":      `^/queue/lock\n:4\n`,
		"__complete run --kind ''":           `^mutex\nread\nwrite\nunfair\n:4\n`,
	} {
		matches(t, line, g.ends(0, line), want)
	}
	g.stop(holder, syscall.SIGTERM, 0)
	waiter.Exits(0)
	watch.Await(t, "has gone", 2)
	g.stop(watch, os.Interrupt, 0)
}

// A revocation asks the command to end, and does nothing to a holder that is not
// revocable.
func testRevoke(t *testing.T, g *rig) {
	run := g.works("run --revocable --signal USR2 /revoke -- part wait")
	g.ends(0, "revoke --grace 1m /revoke", "all holders that were asked have released or lost /revoke")
	run.Exits(5)
	stubborn := g.works("run --revocable --grace 0 /revoke -- part stubborn")
	g.ends(0, "revoke --grace 100ms /revoke")
	over(t, stubborn, codeLost, "LOST /revoke: revoked")
	firm := g.works("run /revoke -- part wait")
	g.ends(codeFailed, "revoke /revoke", "is not revocable")
	g.stop(firm, syscall.SIGTERM, 0)
}

func testSemaphore(t *testing.T, g *rig) {
	first := g.works("run --size 3 -n 2 /semaphore -- part wait")
	second := g.until("waiting for /semaphore, 0 ahead", "run -v --size 3 -n 2 /semaphore -- part exit 3")
	g.ends(0, "resize /semaphore 4", "/semaphore has 4 permits")
	second.Exits(3)
	g.stop(first, syscall.SIGTERM, 0)
}

func testElect(t *testing.T, g *rig) {
	watch := g.until("no leader", "elect --watch /elect")
	leader := g.works("elect /elect --data", "host seven", "--", "part", "wait")
	watch.Await(t, "host seven leads, token ", 1)
	g.stop(leader, syscall.SIGTERM, 0)
	watch.Await(t, "no leader", 2)
	leader = g.works("elect --revocable --lock-delay 1s /elect --data", "host seven", "--", "part", "wait")
	watch.Await(t, "host seven leads, token ", 2)
	g.ends(0, "revoke /elect")
	over(t, leader, 0, "/elect is being revoked")
	watch.Await(t, "no leader", 3)
	g.stop(watch, syscall.SIGTERM, 0)
}

func testMulti(t *testing.T, g *rig) {
	matches(t, "env", g.ends(0, "run /multi/a /multi/b -- env", "ZKGRANT_KIND=multi\n"),
		`ZKGRANT_MEMBERS=\[{"path":"/multi/a","node":"/multi/a/\S+"},{"path":"/multi/b","node":"/multi/b/\S+"}\]\n`)
	held := g.situate("job", "hold /multi/a /multi/b")
	held.Await(t, `"members":[{"path":"/multi/a","node":"/multi/a/`, 1)
	eventstest.Check(t, held.stop())
	held.Exits(0)
}

// With --json every line is an object.
func testObjects(t *testing.T, g *rig) {
	holder := g.until(`"event":"granted"`, "run --json --revocable /json -- sleep 600")
	watch := g.until(`"event":"granted"`, "watch --json /json")
	g.ends(codeTaken, "run --json --try /json -- true")
	revoke := g.ends(0, "revoke --json /json")
	holder.Exits(codeSignal + int(syscall.SIGTERM))
	watch.Await(t, `"event":"left"`, 1)
	g.stop(watch, os.Interrupt, 0)
	for p, want := range map[*eventstest.Process][]string{
		holder: {"connected", "granted", "asked", "ended"}, watch: {"granted", "left"}, revoke: {"asking", "revoked"},
	} {
		var got []string
		for line := range strings.Lines(p.String()) {
			var r report
			err := json.Unmarshal([]byte(line), &r)
			eventstest.Expect(t, err == nil && !r.Time.IsZero(), "%s is no object with a time: %v", line, err)
			got = append(got, r.Event)
		}
		eventstest.Expect(t, slices.Equal(got, want), "the events are %q, want %q", got, want)
	}
}

// A session that may not read a lock can do so with the identity in a file. A malformed
// line of the file is not printed.
func testIdentities(t *testing.T, g *rig) {
	c := g.coordinator(coordinator.WithAuth("digest", []byte("ann:secret")),
		coordinator.WithACL(zk.DigestACL(zk.PermAll, "ann", "secret")))
	lock := c.Mutex("/identities/lock").Acquire(t.Context(), coordinator.Data([]byte("ann's")))
	defer lock.Release()
	eventstest.Receive(t, lock.Granted(), "the lock")
	g.ends(codeFailed, "queue /identities/lock", "not authorized")
	g.ends(0, "queue /identities/lock --auth-file "+write(t, "right", "# ann\n\ndigest:ann:secret\n"), "ann's")
	bad := write(t, "wrong", "digest:ann:secret\nhush\n")
	wrong := g.ends(codeFailed, "queue /identities/lock --auth-file "+bad, "line 2")
	g.ends(codeFailed, "queue /identities/lock --auth-file "+write(t, "none", "# nothing yet\n"), "contains no identity")
	prints(t, wrong.String(), "hush", false)
}

// The access list applies to every node that zkgrant creates, including parents. An
// identity without an access list causes one warning.
func testAccess(t *testing.T, g *rig) {
	conn := client(t, g.servers)
	eventstest.Must(t, conn.AddAuth("digest", []byte("ann:secret")))
	file := write(t, "identities", "digest:ann:secret\n")
	const warning = "every client may delete the lock's nodes"
	ann, world := zk.DigestACL(zk.PermAll, "ann", "secret"), zk.WorldACL(zk.PermAll)
	for flags, want := range map[string][]zk.ACL{
		"--auth-file AUTH --acl creator":                    ann,
		"--auth-file AUTH --acl auth::cdrwa,world:anyone:r": slices.Concat(ann, zk.WorldACL(zk.PermRead)),
		"--auth-file AUTH --acl world":                      world,
		"--auth-file AUTH":                                  world,
		"":                                                  world,
	} {
		root := fmt.Sprint("/access", len(flags))
		run := g.works("run --detect-crash " + strings.ReplaceAll(flags, "AUTH", file) + " " + root + "/lock" +
			` -- sh -c 'echo node $ZKGRANT_NODE; echo command $$ ready; exec sleep 600'`)
		node := regexp.MustCompile(`node (\S+)`).FindStringSubmatch(run.String())[1]
		for _, at := range []string{root, root + "/lock", root + "/lock.holder", node} {
			if got, _, err := conn.GetACL(at); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q: %s has the access list %v (%v), want %v", flags, at, got, err, want)
			}
		}
		g.stop(run, syscall.SIGTERM, codeSignal+int(syscall.SIGTERM))
		if got, warned := run.Count(warning), flags == "--auth-file AUTH"; got > 1 || got == 1 != warned {
			t.Errorf("%q: it warns %d times, want one warning: %t\n%s", flags, got, warned, run)
		}
	}
	g.ends(codeFailed, "run --auth-file "+file+" --acl world:other:r /access -- true",
		"the servers refuse the access control list")
}

// The command's program is gone when the lock is granted. The record of an earlier crash
// stays.
func testNotBegun(t *testing.T, g *rig) {
	for _, crash := range []bool{true, false} {
		_, end := g.former(coordinator.Data([]byte("the first")))
		command := t.TempDir() + "/command"
		writeProgram(t, command, []byte("#!/bin/sh"))
		run := g.until("1 ahead", "run -v --detect-crash "+lockPath+" -- "+command)
		eventstest.Must(t, os.Remove(command))
		end(crash)
		run.Exits(codeNotFound)
		next, end := g.former()
		left := next.Grant().Abandoned
		if got := left != nil && string(left.Data) == "the first"; got != crash || !crash && left != nil {
			t.Errorf("after a crash %t the next holder is told of %+v", crash, left)
		}
		end(false)
	}
}

// etcd-io/etcd pull 7983: in a silent partition the command and its children have ended
// before the next waiter is granted the lock.
func partitions(t *testing.T, e *ensemble.Ensemble, trials int) {
	const together = 5 // few at a time, because a process that is not scheduled in time proves nothing
	for first := 0; first < trials; first += together {
		var all sync.WaitGroup
		for i := range together {
			all.Go(func() { partition(t, e, fmt.Sprint("/partition/", first+i)) })
		}
		all.Wait()
	}
}

func partition(t *testing.T, e *ensemble.Ensemble, path string) {
	proxy := ensemble.StartProxy(t, e.Addr(0))
	g := on(t, proxy.Addr())
	cut := g.works("run --session-timeout 4s --grace 0 " + path + " -- part family")
	pids := []int{g.pid(cut, "command"), g.pid(cut, "child")}
	next := on(t, e.Connect()).until("1 ahead", "run -v "+path+" -- part wait")
	overlap := make(chan bool, 1)
	next.When("granted "+path, 1, func() { overlap <- !gone(t, pids[0]) || !gone(t, pids[1]) })
	proxy.Hold(ensemble.BothWays)
	eventstest.Expect(t, !eventstest.Receive(t, overlap, "the next grant"),
		"%s: the next waiter was granted the lock while the command ran", path)
	proxy.Heal()
	over(t, cut, codeLost, "LOST "+path+": lease ran out")
	g.pid(next, "command")
	g.stop(next, syscall.SIGTERM, 0)
}

// hashicorp/consul#1162, #5437: the death of one server costs no lock.
func kill(t *testing.T, e *ensemble.Ensemble) {
	g := on(t, e.Connect())
	run := g.works("run -v --session-timeout 20s /killed -- part wait")
	for i := range e.Size() {
		if strings.Contains(run.String(), "connected to "+e.Addr(i)) {
			eventstest.Check(t, e.Kill(i))
		}
	}
	run.Await(t, "reconnected", 1)
	g.stop(run, syscall.SIGUSR2, 5)
	prints(t, run.String(), "LOST", false)
}
