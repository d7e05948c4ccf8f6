//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// hashicorp/consul#947: zkgrant returns the command's exit code, whatever it is. Its own codes are others.
func testRealExitCodes(t *testing.T, e *ensemble.Ensemble) {
	for _, test := range []struct {
		code  int
		flags []string
		line  []string
	}{
		{0, nil, commandLine("exit", "0")},
		{7, nil, commandLine("exit", "7")},
		{255, nil, commandLine("exit", "255")},
		{3, []string{"--shell"}, []string{"--", `test "$ZKGRANT_PATH" = /codes && exit 3`}},
		{codeSignal + int(syscall.SIGKILL), []string{"--shell"}, []string{"--", "kill -KILL $$"}},
		{codeNoStart, nil, []string{"--", os.DevNull}},
		{codeNotFound, nil, []string{"--", "no-such-command"}},
		{codeFailed, []string{"--size", "-1"}, commandLine("exit", "0")},
	} {
		asks(t, e, test.code, slices.Concat([]string{"run"}, test.flags, []string{"/codes"}, test.line)...)
	}
	holder := realRun(t, e, []string{"/codes"}, "wait")
	ready(t, holder, "command")
	asks(t, e, codeTaken, append([]string{"run", "--try", "/codes"}, commandLine("exit", "0")...)...)
	asks(t, e, 9, append([]string{"run", "--wait", "100ms", "-E", "9", "/codes"}, commandLine("exit", "0")...)...)
	holder.Send(syscall.SIGTERM)
	holder.Exits(0)
}

// On a terminal a waiter shows how many are ahead. ^C ends the command and gives the lock back (etcd-io/etcd#10117). With --stdin the
// command has the terminal.
func testRealTerminal(t *testing.T, e *ensemble.Ensemble) {
	run := func(environment []string, line ...string) *terminal {
		return beginTerminal(t, environment, slices.Concat([]string{"run", "--servers", e.Connect(), "--shell"}, line)...)
	}
	holder := run(nil, "-v", "/terminal", "--", "echo working; exec sleep 600")
	holder.shows("granted /terminal", "working")
	for _, look := range []struct {
		environment []string
		colours     bool
	}{{nil, true}, {[]string{"NO_COLOR=yes"}, false}} {
		queue := beginTerminal(t, look.environment, "queue", "--servers", e.Connect(), "/terminal")
		queue.shows("holds")
		queue.exits(0)
		if got := strings.Contains(queue.printed(), green+"holds"); got != look.colours {
			t.Errorf("with %q queue is coloured: %t, want %t", look.environment, got, look.colours)
		}
	}
	waiter := run([]string{"NO_COLOR=yes"}, "--stdin", "/terminal", "--", `echo name?; read name; echo "hello $name"`)
	waiter.shows("zkgrant: waiting for /terminal, 1 ahead, ")
	holder.types("\x03")
	holder.exits(codeSignal + int(syscall.SIGINT))
	waiter.shows("name?")
	waiter.types("zoe\n")
	waiter.shows("hello zoe")
	waiter.exits(0)
	asks(t, e, codeNotHeld, "queue", "--held", "/terminal")
	if !strings.Contains(holder.printed(), green) || strings.Contains(waiter.printed(), dim) {
		t.Errorf("the holder's terminal got %q, want colours; that with NO_COLOR got %q, want none", holder.printed(), waiter.printed())
	}
}

// With --json every line is an object.
func testRealJSON(t *testing.T, e *ensemble.Ensemble) {
	holder := begin(t, "", append([]string{"run", "--json", "--revocable", "--shell", "--servers", e.Connect(), "/json"}, "--", "exec sleep 600")...)
	holder.Await(t, `"event":"granted"`, 1)
	watch := begin(t, "", "watch", "--json", "--every", "20ms", "--servers", e.Connect(), "/json")
	watch.Await(t, `"event":"granted"`, 1)
	asks(t, e, codeTaken, append([]string{"run", "--json", "--try", "/json"}, commandLine("exit", "0")...)...)
	revoke := begin(t, "", "revoke", "--json", "--servers", e.Connect(), "/json")
	revoke.Exits(0)
	holder.Exits(codeSignal + int(syscall.SIGTERM))
	watch.Await(t, `"event":"left"`, 1)
	watch.Send(os.Interrupt)
	watch.Exits(0)
	for p, want := range map[*eventstest.Process][]string{
		holder: {"connected", "granted", "asked", "ended"}, watch: {"granted", "left"}, revoke: {"asking", "revoked"},
	} {
		var got []string
		for line := range strings.Lines(p.String()) {
			var r report
			if err := json.Unmarshal([]byte(line), &r); err != nil || r.Time.IsZero() {
				t.Errorf("%s is no object with a time: %v", line, err)
			}
			got = append(got, r.Event)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the events are %q, want %q", got, want)
		}
	}
}

// A session that may not read a lock sees it with the identity in a file. A wrong line of the file is not shown.
func testRealIdentities(t *testing.T, e *ensemble.Ensemble) {
	c, err := coordinator.Connect(t.Context(), e.Connect(), coordinator.WithAuth("digest", []byte("ann:secret")),
		coordinator.WithACL(zk.DigestACL(zk.PermAll, "ann", "secret")))
	eventstest.Must(t, err)
	defer func() { eventstest.Check(t, c.Close()) }()
	lock := c.Mutex("/identities/lock").Acquire(t.Context(), coordinator.WithData([]byte("ann's")))
	defer lock.Release()
	eventstest.Receive(t, lock.Granted(), "the lock")
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "identities")
		eventstest.Must(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	if said := asks(t, e, codeFailed, "queue", "/identities/lock"); !strings.Contains(said, "not authorized") {
		t.Errorf("without an identity queue prints\n%s\nwant why it cannot look", said)
	}
	right := file("# ann\n\ndigest:ann:secret\n")
	if said := asks(t, e, 0, "queue", "--auth-file", right, "/identities/lock"); !strings.Contains(said, "ann's") {
		t.Errorf("with the identity queue prints\n%s\nwant the holder", said)
	}
	wrong := asks(t, e, codeFailed, "queue", "--auth-file", file("digest:ann:secret\nhush\n"), "/identities/lock")
	if !strings.Contains(wrong, "line 2") || strings.Contains(wrong, "hush") {
		t.Errorf("with a wrong line queue prints\n%s\nwant its number, and not the line", wrong)
	}
}
