//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// Without a terminal or --yes, revoke --force does nothing. With --yes it says what it
// does, and after the grace it removes the node of a holder that has not agreed. The
// holder is notified.
func TestRevokeByForce(t *testing.T) {
	g := double(parallel(t))
	run := g.works("run " + lockPath + " --data holder -- part wait")
	const firm = "revoke --grace 200ms " + lockPath
	for _, flag := range []string{" --force", " --yes"} {
		cmd := g.command("zkgrant " + firm + flag)
		cmd.Stdin = strings.NewReader("yes\n")
		refused := eventstest.Begin(t, cmd)
		over(t, refused, codeFailed, "--force", "--yes")
		g.nodes(1, "when --force was refused")
	}
	node, _ := g.first()
	next := g.until("1 ahead", "run -v "+lockPath+" -- true")
	g.ends(0, firm+" --force --yes", `deletes the node of "holder", token `, node,
		"keeps working until it notices", "deleted "+node, "all holders that were asked have released or lost")
	next.Exits(0)
	over(t, run, codeLost, "LOST "+lockPath+": node removed")
}

// A node without a session is listed as the holder, and only --force removes it. The same
// goes for an unfair lock, which takes no revocation requests.
func TestForceOnWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"lock-0000000000", // go-zookeeper's, without a GUID
		"_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lock-0000000000", // Curator's
		"4f1c0a527c394a0e9a3cd2b1c5a7e9f0__lock__0000000000",      // kazoo's
	} {
		g := double(t)
		eventstest.Must(t, g.Create(lockPath+"/"+name, nil))
		g.ends(0, "queue "+lockPath, "holds", "0x0")
		g.ends(0, "revoke --force --yes --grace 0 "+lockPath, "deleted "+lockPath+"/"+name, "all holders that were asked have released or lost")
		g.nodes(0, "after --force")
	}
	g := double(t)
	run := g.works("run --kind unfair /locks/unfair -- part wait")
	g.ends(0, "revoke --force --yes --grace 0 /locks/unfair", "deleted /locks/unfair of ")
	run.Exits(codeLost)
}

// The holder that was shown leaves before the question is answered. The next one, of a
// library whose holders are evicted, was not shown, and keeps its node.
func TestForceLeavesALaterHolderAlone(t *testing.T) {
	g := double(parallel(t))
	run := g.works("run " + lockPath + " -- part wait")
	const kazoos = lockPath + "/0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f__lock__0000000007"
	create(t, client(t, g.servers), zk.FlagEphemeral, kazoos)
	term := g.terminal("zkgrant revoke --session-timeout 4s --grace 0 --force " + lockPath)
	term.shows("Type yes:")
	g.stop(run, syscall.SIGTERM, 0)
	term.types("yes\r")
	term.exits(0)
	if data, there := g.Data(kazoos); !there || len(data) > 0 {
		t.Errorf("the node of a later holder, which was not shown, is there: %t, with %q; want it untouched", there, data)
	}
}

// A holder that releases the lock within the grace loses no node, and the next holder
// keeps its own. A revocable holder gets a request, and needs no force.
func TestForceIsNotNeeded(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"", "--revocable "} {
		g := double(t)
		run := g.works("run " + flag + lockPath + " -- part wait")
		next := g.until("1 ahead", "run -v "+lockPath+" -- part wait")
		forced := g.begin("revoke --grace 1m --force --yes " + lockPath)
		if flag == "" {
			forced.Await(t, "loses it at", 1)
			run.Send(syscall.SIGTERM)
		} else {
			run.Await(t, "is being revoked", 1)
		}
		run.Exits(0)
		g.pid(next, "command")
		forced.Exits(0)
		prints(t, forced.String(), "deleted ", false) // the node was gone already
		g.nodes(1, "when the first holder has given the lock back")
		g.stop(next, syscall.SIGUSR2, 5)
	}
}

// A revocable holder still gets its request if another holder is not revocable. So does a
// holder of another library, which keeps its node when the grace is over and the others
// lose theirs.
func TestForceAsksTheOtherHolders(t *testing.T) {
	g := double(parallel(t))
	const reads = "run --kind read " + lockPath + " -- part wait"
	firm := g.works(reads)
	revocable := g.works("run --revocable --kind read " + lockPath + " -- part wait")
	forced := g.begin("revoke --grace 1m --force --yes " + lockPath)
	revocable.Await(t, "is being revoked", 1)
	revocable.Exits(0)
	g.stop(firm, syscall.SIGTERM, 0)
	forced.Exits(0)
	prints(t, forced.String(), "deleted ", false) // the node was gone already

	firm = g.works(reads)
	const kazoos = lockPath + "/0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f__rlock__0000000007"
	create(t, client(t, g.servers), zk.FlagEphemeral, kazoos)
	forced = g.begin("revoke --session-timeout 20s --grace 0 --force --yes " + lockPath)
	firm.Exits(codeLost)
	eventstest.Eventually(t, "kazoo's holder is asked", func() bool {
		data, _ := g.Data(kazoos)
		return string(data) == "__REVOKE__"
	})
	eventstest.Must(t, g.Delete(kazoos))
	forced.Exits(0)
	eventstest.Expect(t, forced.Count("deleted ") == 1,
		"revoke did not remove just the node of the holder that is not revocable:\n%s", forced)
}

// A path is used as two kinds of lock. queue shows both, and --force removes the holders
// of both. A holder of several permits loses all of them.
func TestForceOnTwoKindsAtOnePath(t *testing.T) {
	g := double(parallel(t))
	run := g.works("run --size 3 --permits 2 " + lockPath + " -- part wait")
	eventstest.Must(t, g.Create(lockPath+"/lock-0000000000", nil))
	queue := g.ends(0, "queue "+lockPath)
	eventstest.Equal(t, queue.Count("holds "), 2, "the holders that queue shows")
	forced := g.ends(0, "revoke --force --yes --grace 0 "+lockPath, "deleted "+lockPath+"/lock-0000000000",
		"all holders that were asked have released or lost")
	eventstest.Equal(t, forced.Count("deleted "+lockPath+"/leases/"), 2, "the permits that revoke removed")
	eventstest.Equal(t, forced.Count("--force deletes the node"), 2, "the nodes that revoke announces")
	run.Exits(codeLost)
	g.ends(codeNotHeld, "queue --held "+lockPath)
}

// The holder that was shown releases an unfair lock just before the removal, and its
// session acquires the lock again. The new node has the same name and session, and is
// left alone.
func TestForceLeavesALaterNodeAlone(t *testing.T) {
	g := double(parallel(t))
	const unfair = "/locks/unfair"
	lock := g.coordinator().Unfair(unfair)
	hold := func() *coordinator.Acquisition {
		held, err := lock.Hold(t.Context())
		eventstest.Must(t, err)
		return held
	}
	first := hold()
	shown, err := lock.Queue(t.Context())
	eventstest.Must(t, err)
	first.Release()
	later := hold()
	s := &settings{servers: g.servers, timeout: 10 * time.Second}
	s.console = newConsole(os.Stderr, s)
	f := &force{path: unfair}
	eventstest.Must(t, f.delete(t.Context(), s, shown))
	eventstest.Expect(t, g.Exists(unfair),
		"the node of a later acquisition, which was not shown, was removed")
	later.Release()
}

// On a terminal, --force asks for confirmation. Only "yes" confirms.
func TestForceOnATerminal(t *testing.T) {
	g := double(parallel(t))
	run := g.works("run " + lockPath + " -- part wait")
	for _, test := range []struct {
		env, answer string
		code        int
	}{
		{"", "y\r", codeFailed},
		{"env TERM=dumb ", "y\r", codeFailed}, // one can still type on it
		{"", "\x03", codeSignal + int(syscall.SIGINT)},
		{"", "yes\r", 0},
	} {
		term := g.terminal(test.env + "zkgrant revoke --grace 0 --force " + lockPath)
		term.shows("Type yes:")
		g.nodes(1, "before the answer")
		term.types(test.answer)
		term.exits(test.code)
	}
	run.Exits(codeLost)
}
