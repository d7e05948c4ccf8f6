//go:build unix

package main

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// testLines tries command lines, each with its exit code and a pattern for its output,
// where an empty pattern means no output. The lock /lines/held is held, and /lines/free
// is not.
func testLines(t *testing.T, g *rig) {
	holder := g.works("run --data", "one\ntwo\tthree", "/lines/held", "--", "part", "wait")
	wait := fmt.Sprint("--wait ", g.enough(50*time.Millisecond)) // for a server's first answer
	const (
		some    = `(?s).`
		taken   = `^zkgrant: another process has /lines/held\n$`
		quarter = `a quarter of the session timeout`
		root    = `give the path to search below`
		servers = `give the ZooKeeper servers with --servers`
		usage   = `zkgrant: give a path and a command, with -- between them\nusage: zkgrant run \[flags\] PATH... -- COMMAND`
		regular = `: not a regular file`
	)
	for _, test := range []struct {
		line string
		code int
		says string
	}{
		// The command's own codes. Its variables describe its lock.
		{"run /lines/free -- part exit 1", 1, ``},
		{"run /lines/free -- part exit 122", 122, ``},
		{"run /lines/free -- part exit 123", 123, ``},
		{"run /lines/free -- part exit 255", 255, ``},
		{"elect --again /lines/free -- part exit 123", 123, ``}, // the command's own 123 is not a loss, so it ends
		{`run --shell /lines/free -- 'test "$ZKGRANT_PATH" = /lines/free && exit 3'`, 3, ``},
		{"run --shell /lines/free -- 'kill -KILL $$'", codeSignal + int(syscall.SIGKILL), ``},
		{"run -v --signal 15 /lines/free -- true", 0, `released /lines/free`},
		{"run --grace 2500ms /lines/free -- true", 0, ``},
		{"run --data= /lines/free -- zkgrant queue --json /lines/free", 0, `"token":\d+}\n$`}, // no data
		{"run --textfile /none/a.prom /lines/free -- part exit 7", 7, `/none/a.prom: .*no such file`},
		{"env NOTIFY_SOCKET=/nowhere zkgrant run /lines/free -- part exit 7", 7, `NOTIFY_SOCKET: .*no such file`},
		{"env NOTIFY_SOCKET=vsock:2:1 zkgrant run /lines/free -- true", 0, `NOTIFY_SOCKET: .*must be a path, or @ and a name`},

		// Commands that cannot run.
		{"run /lines/free -- no-such-command", codeNotFound, `not found`},
		{"run /lines/free -- /no/such/command", codeNotFound, `no such file`},
		{"run /lines/free -- /dev/null", codeNoStart, `permission denied`},
		{"run /lines/free --", codeFailed, `usage`},
		{"run /lines/free exit 0", codeFailed, usage},
		{"rum", codeFailed, `rum`},
		{"env ZKGRANT_JSON=true zkgrant queue", codeFailed, `^\{.*"event":"failed".*\}\n$`},
		{"run --nosuchflag /lines/free -- true", codeFailed, `nosuchflag`},
		{"env -u ZKGRANT_SERVERS zkgrant run /lines/free -- true", codeFailed, servers},
		{"run --servers= /lines/free -- true", codeFailed, `^zkgrant: --servers must not be empty\n$`},
		{"run --tls-ca= --acl= /lines/free -- true", codeFailed, `^zkgrant: --acl must not be empty; --tls-ca must not be empty\n$`},
		{"run --textfile= /lines/free -- true", codeFailed, `--textfile must not be empty`},
		{"run --servers host:none /lines/free -- true", codeFailed, `malformed`},
		{"env ZKGRANT_SESSION_TIMEOUT=soon zkgrant run /lines/free -- true", codeFailed, `ZKGRANT_SESSION_TIMEOUT`},
		{"run --grace -1s /lines/free -- true", codeFailed, `--grace`},
		{"run --grace 3s /lines/free -- true", codeFailed, quarter},
		{"run --signal NONE /lines/free -- true", codeFailed, `unknown signal`},
		{"run --signal 99 /lines/free -- true", codeFailed, `unknown signal`},
		{"run --kind spin /lines/free -- true", codeFailed, `--kind must be mutex, read, write or unfair, not spin`},
		{"run --permits 1 /lines/free -- true", codeFailed, `--permits needs --size`},
		{"run --size -1 /lines/free -- true", codeFailed, `--size`},
		{"run --size 0 /lines/free -- true", codeFailed, `--size must be at least 1`},
		{"hold --size 0 /lines/free", codeFailed, `--size must be at least 1`},
		{"run --size 2 --permits 0 /lines/free -- true", codeFailed, `permits`},
		{"run --size 2 --kind mutex /lines/free -- true", codeFailed, `--size takes one path and no --kind`},
		{"run --size 2 --lock-delay 0 /lines/free -- true", codeFailed, `a semaphore cannot report crashes`},
		{"run -q --size x /lines/free -- true", codeFailed, `^zkgrant: invalid argument "x" for "--size" flag: .*: invalid syntax\n$`},
		{"run --min-hold -1s /lines/free -- true", codeFailed, `--min-hold must not be negative`},
		{"run --textfile /dev/null /lines/free -- true", codeFailed, `--textfile /dev/null` + regular},
		{"run --textfile /tmp /lines/free -- true", codeFailed, `--textfile /tmp` + regular},
		{"run --acl creator /lines/free -- true", codeFailed, `--acl creator needs an identity`},
		{"run --acl world:anyone:x /lines/free -- true", codeFailed, `--acl world:anyone:x: must be world, creator, or scheme:id:perms`},
		{"run locks -- true", codeFailed, `path`},
		{"run -h", 0, `Usage`},
		{"hold", codeFailed, `^zkgrant: give a path\nusage: zkgrant hold`},
		{"hold --lead 2.501s /lines/free", codeFailed, `--lead 2.501s .*` + quarter},
		{"hold --lead -1s /lines/free", codeFailed, `--lead -1s .*` + quarter},
		{"elect /lines/free /lines/free -- true", codeFailed, `one path`},
		{"elect --watch --again /lines/free", codeFailed, `\[again watch\]`},
		{"elect --watch --try /lines/free", codeFailed, `\[try watch\]`},
		{"elect --watch --wait 1s /lines/free", codeFailed, `\[wait watch\]`},
		{"resize /lines/free 0", codeFailed, `1 or more`},
		{"ls locks", codeFailed, `zkgrant: malformed path`},
		{"ls --rate 0 /lines", codeFailed, `--rate must be at least 1, not 0`},
		{"ls /lines/none", codeNotThere, `/lines/none does not exist`},
		{"ls --json /lines/none", codeNotThere, `/lines/none does not exist`},
		{"ls --servers " + g.servers + "/nowhere", codeNotThere, some},
		{"revoke /lines/free", codeNotHeld, `the lock is not held`},
		{"revoke --force --yes /lines/free", codeNotHeld, `the lock is not held`},
		{"revoke --force --yes --grace -1s /lines/held", codeFailed, `--grace must not be negative`},
		{"doctor locks", codeFailed, `^zkgrant: malformed path: "locks" does not start with a slash`},
		{"doctor --tick-time 20s", codeFailed, `^zkgrant: invalid use: a tickTime of 20s`},
		{"board --listen 0.0.0.0:0 --allow-revoke", codeFailed, `--allow-revoke needs a loopback address`},
		{"top /lines", codeFailed, `top needs a terminal; zkgrant ls lists the locks once`},
		{"top --json /lines", codeFailed, `top needs a terminal; zkgrant ls lists the locks once`},
		{"ls", codeFailed, root},
		{"board", codeFailed, root},
		{"exporter", codeFailed, root},
		{"exporter bad", codeFailed, some},
		{"exporter /zookeeper", codeFailed, some},
		{"exporter --listen nowhere /", codeFailed, some},
		{"exporter --interval 0s /", codeFailed, some},

		// Another process has the lock. A conflict code of 0 means that this is not a
		// failure, so cron sends no mail. Data that others have written is printed on one
		// line.
		{"run --try /lines/held -- true", codeTaken, taken},
		{"run " + wait + " -E 9 /lines/held -- true", 9, `^zkgrant: waited too long for /lines/held\n$`},
		{"run --try -E 0 /lines/held -- true", 0, ``},
		{"run " + wait + " -E 0 /lines/held -- true", 0, ``},
		{"run --try -E 0 -v /lines/held -- true", 0, `^zkgrant: connected to \S+, session timeout 10s\n` + taken[1:]},
		{"run --try -q /lines/held -- true", codeTaken, ``},
		{"run --try --quiet --json /lines/held -- true", codeTaken, ``},
		{"elect --try -E 0 /lines/held -- true", 0, ``},
		{"hold -E 0 /lines/held", 0, ``},
		{"hold /lines/held", codeTaken, `^zkgrant: standard input ended before /lines/held was granted\n$`},
		{"queue -q -v /lines/held", codeFailed, `\[quiet verbose\]`},
		{"env ZKGRANT_QUIET=true zkgrant queue -v /lines/held", 0, some},
		{"queue /lines/held", 0, `one\\ntwo\\tthree`},
		{"queue --json /lines/held", 0, `^[^\n]+\n$`}, // no waiter is left
		{"run --size 2 /lines/limits/exports -- true", 0, ``},
		{"ls --json /lines/limits", 0, `"path":"/lines/limits/exports".*"contenders":\[\]`}, // an empty list, not null
		{"ls /lines", 0, `one\\ntwo\\tthree`},
		{"queue /lines/free", 0, `^no holders, no waiters\n$`}, // all the lines above have released it
	} {
		if !strings.HasPrefix(test.line, "env ") {
			test.line = "zkgrant " + test.line
		}
		p := eventstest.Begin(t, g.command(test.line))
		code, said := p.ExitCode(), p.String()
		if code != test.code || test.says == "" && said != "" || !regexp.MustCompile(test.says).MatchString(said) {
			t.Errorf("%s: exit code %d, it prints %q; want %d and %s", test.line, code, said, test.code, test.says)
		}
	}
	g.stop(holder, syscall.SIGTERM, 0)
	if g.Server != nil { // --quiet does not hide losses
		lost := g.works("run -q /lines/held -- part wait")
		g.expire("/lines/held")
		over(t, lost, codeLost, "LOST /lines/held: session expired")
	}
}

// The command gets its arguments, the input, and variables that describe its own lock,
// whatever zkgrant inherits. zkgrant does not interpret the command's flags
// (hashicorp/consul#1063).
func testEnvironment(t *testing.T, g *rig) {
	g.env = append(g.env, "ZKGRANT_PATH=/outer", "ZKGRANT_MEMBERS=outer", "ZKGRANT_REAL=")
	cmd := g.command("zkgrant run --session-timeout 8s /environment -- sh -c " +
		`'env | grep -E "^ZKGRANT_(KIND|MEMBERS|NODE|PATH|REAL|SERVERS|SESSION|TOKEN)=" | LC_ALL=C sort; cat; echo "$@"' sh --servers --help`)
	cmd.Stdin = strings.NewReader("from elsewhere ")
	run := eventstest.Begin(t, cmd)
	run.Exits(0)
	const want = `ZKGRANT_KIND=mutex\nZKGRANT_NODE=/environment/\S+\nZKGRANT_PATH=/environment\n` +
		`ZKGRANT_REAL=\nZKGRANT_SERVERS=\S+\nZKGRANT_SESSION=0x[0-9a-f]+\nZKGRANT_TOKEN=\d+\n` +
		`from elsewhere --servers --help\n$`
	matches(t, "the command", run, want)
	prints(t, run.String(), "outer", false)
}
