//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Without a terminal and --yes, revoke --force does nothing. With --yes it says what it does, and
// removes the node of a holder that has not agreed, after the grace. The holder hears of it.
func TestRevokeByForce(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	run := locked(t, server, []string{"--data", "the holder"}, "wait")
	ready(t, run, "command")
	firm := []string{"revoke", "--servers", server.Addr(), "--grace", "200ms", lockPath}

	asked := begin(t, "", firm...)
	asked.Exits(codeFailed)
	asked.Must(t, "has not agreed")
	for _, flags := range [][]string{{"--force"}, {"--yes"}} {
		refused := begin(t, "yes\n", append(firm, flags...)...)
		refused.Exits(codeFailed)
		refused.Must(t, "--force", "--yes")
		nodes(t, server, 1, "when --force was refused")
	}

	node := lockPath + "/" + server.Children(lockPath)[0]
	next := locked(t, server, nil, "exit", "0")
	next.Await(t, "1 ahead", 1)
	forced := begin(t, "", append(firm, "--force", "--yes")...)
	forced.Exits(0)
	forced.Must(t, `removes the node of "the holder", token `, node, "works on until it notices", "removed "+node, "is not held any more")
	next.Exits(0)
	run.Exits(codeLost)
	run.Must(t, "LOST "+lockPath+": node removed")

	none := begin(t, "", append(firm, "--force", "--yes")...)
	none.Exits(codeNotHeld)
}

// A holder that gives the lock back within the grace loses no node, and the next holder keeps its own.
func TestForceIsNotNeeded(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	run := locked(t, server, nil, "wait")
	ready(t, run, "command")
	next := locked(t, server, nil, "wait")
	next.Await(t, "1 ahead", 1)
	forced := begin(t, "", "revoke", "--servers", server.Addr(), "--grace", "1m", "--force", "--yes", lockPath)
	forced.Await(t, "loses it at", 1)
	run.Send(syscall.SIGUSR2)
	run.Exits(5)
	ready(t, next, "command")
	forced.Exits(0)
	if strings.Contains(forced.String(), "removed ") {
		t.Errorf("revoke removed a node that was not left:\n%s", forced)
	}
	nodes(t, server, 1, "when the first holder has given the lock back")
	next.Send(syscall.SIGUSR2)
	next.Exits(5)
}

// A holder that has agreed is asked, and needs no force.
func TestForceAsksFirst(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	run := locked(t, server, []string{"--revocable"}, "wait")
	ready(t, run, "command")
	forced := begin(t, "", "revoke", "--servers", server.Addr(), "--grace", "1m", "--force", "--yes", lockPath)
	forced.Exits(0)
	run.Exits(0)
	run.Must(t, "is asked back")
}

// On a terminal, --force asks. Only yes is yes.
func TestForceOnATerminal(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	run := locked(t, server, nil, "wait")
	ready(t, run, "command")
	for _, test := range []struct {
		answer string
		code   int
	}{{"y\r", codeFailed}, {"\x03", codeSignal + int(syscall.SIGINT)}, {"yes\r", 0}} {
		term := beginTerminal(t, nil, "revoke", "--servers", server.Addr(), "--grace", "0", "--force", lockPath)
		term.shows("Type yes:")
		nodes(t, server, 1, "before the answer")
		term.types(test.answer)
		term.exits(test.code)
	}
	run.Exits(codeLost)
}

// What does not exist is said to, unlike a path without locks.
func TestLsOfNothing(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	eventstest.Must(t, server.Create("/locks/empty", nil))
	for _, test := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"/locks"}, 0, "no locks"},
		{[]string{"/locks/empty"}, 0, "no locks"},
		{[]string{"/"}, 0, "no locks"},
		{[]string{"/lokcs"}, codeNotThere, "/lokcs does not exist"},
		{[]string{"--json", "/lokcs"}, codeNotThere, "/lokcs does not exist"},
	} {
		ls := begin(t, "", append([]string{"ls", "--servers", server.Addr()}, test.args...)...)
		ls.Exits(test.code)
		ls.Must(t, test.say)
	}
	chroot := begin(t, "", "ls", "--servers", server.Addr()+"/nowhere")
	chroot.Exits(codeNotThere)
	begin(t, "", "ls", "--servers", server.Addr()+"/locks").Exits(0)
}
