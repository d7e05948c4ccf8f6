//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest"
)

// A conflict code of 0 says that not to get the lock is no failure: cron sends no mail. --quiet
// leaves failures and losses alone.
func TestALoserIsQuiet(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	holder := locked(t, server, nil, "wait")
	ready(t, holder, "command")
	const taken = "zkgrant: another process has /locks/run\n"
	connected := "zkgrant: connected to " + server.Addr() + ", session timeout 10s\n"
	for _, test := range []struct {
		line string
		code int
		says string
	}{
		{"run --try", codeTaken, taken},
		{"run --try -E 0", 0, ""},
		{"run --wait 50ms -E 0", 0, ""},
		{"run --try -E 0 -v", 0, connected + taken},
		{"run --try -q", codeTaken, ""},
		{"run --try --quiet --json", codeTaken, ""},
		{"elect --try -E 0", 0, ""},
		{"hold -E 0", 0, ""},
		{"hold", codeTaken, "zkgrant: standard input ended before /locks/run was granted\n"},
		{"run -q --size x", codeFailed, `zkgrant: invalid argument "x" for "--size" flag: strconv.ParseInt: parsing "x": invalid syntax` + "\n"},
	} {
		line := append(strings.Fields(test.line), "--servers", server.Addr(), lockPath)
		if line[0] != "hold" {
			line = append(line, commandLine("exit", "0")...)
		}
		run := begin(t, "", line...)
		run.Exits(test.code)
		if got := run.String(); got != test.says {
			t.Errorf("%s says %q, want %q", test.line, got, test.says)
		}
	}
	both := begin(t, "", "queue", "-q", "-v", "--servers", server.Addr(), lockPath)
	both.Exits(codeFailed)
	both.Must(t, "[quiet verbose]")
	beginWith(t, nil, []string{"ZKGRANT_QUIET=true"}, "queue", "-v", "--servers", server.Addr(), lockPath).Exits(0)
	holder.Send(syscall.SIGTERM)
	holder.Exits(0)

	lost := begin(t, "", append([]string{"run", "-q", "--servers", server.Addr(), lockPath}, commandLine("wait")...)...)
	ready(t, lost, "command")
	expire(t, server)
	lost.Exits(codeLost)
	lost.Must(t, "LOST /locks/run: session expired")
}

// That the lock was given back is said when the servers have said it, and not before.
func TestGivenBackIsSaidWhenItIsTrue(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.Tick(100*time.Millisecond))
	run := begin(t, "", append(brief(server, "-v", lockPath), commandLine("wait")...)...)
	ready(t, run, "command")
	server.MuteAll(true)
	run.Send(syscall.SIGTERM)
	run.Exits(0) // the command's own
	run.Must(t, "giving back: closed, and no server has said that the session is over")
	if strings.Contains(run.String(), "gave /locks/run back") {
		t.Errorf("no server has answered, and run says\n%s\nwant no word of a lock that was given back", run)
	}
}

// A usage has its lines. What others have written is on one line, whatever they have written.
func TestLinesStayLines(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	bad := begin(t, "", "run", lockPath)
	bad.Exits(codeFailed)
	bad.Must(t, "zkgrant: no command, or no path: write -- between them\nusage: zkgrant run [flags] PATH... -- COMMAND")
	holder := locked(t, server, []string{"--data", "one\ntwo\tthree"}, "wait")
	ready(t, holder, "command")
	for _, line := range []string{"queue " + lockPath, "ls /locks"} {
		look := begin(t, "", append(strings.Fields(line), "--servers", server.Addr())...)
		look.Exits(0)
		look.Must(t, `one\ntwo\tthree`)
	}
	holder.Send(syscall.SIGTERM)
	holder.Exits(0)
}
