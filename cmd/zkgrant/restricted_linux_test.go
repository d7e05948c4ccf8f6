package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// hiding returns a command that runs the program after the shell's line, which may hide parts
// of the system from it. Where a process may not do that the test is skipped.
func hiding(t *testing.T, line string, program string, args ...string) *exec.Cmd {
	t.Helper()
	unshare := []string{"-m"}
	if os.Getuid() != 0 {
		unshare = []string{"-m", "-r"}
	}
	in := func(args ...string) *exec.Cmd {
		return exec.Command("unshare", append(append(unshare, "sh", "-c", "mount --make-rprivate / && "+line+` && exec "$@"`, "sh"), args...)...)
	}
	if out, err := in("true").CombinedOutput(); err != nil {
		t.Skipf("no part of the system can be hidden here: %v, %s", err, out)
	}
	return in(append([]string{program}, args...)...)
}

const (
	noProc = "mount -t tmpfs none /proc"
	noDNS  = "mount -t tmpfs none /etc"
)

// TestWithoutProc: the program is found by its path, or by its name in PATH. Where it is not, the
// message is about zkgrant, and not about the command.
func TestWithoutProc(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	line := append([]string{"run", "--servers", server.Addr(), lockPath}, commandLine("exit", "3")...)
	eventstest.Begin(t, hiding(t, noProc, program, line...)).Exits(3)

	named := hiding(t, noProc, "zkgrant", line...)
	named.Env = append(os.Environ(), "PATH="+strings.TrimSuffix(program, "/zkgrant")+":"+os.Getenv("PATH"))
	eventstest.Begin(t, named).Exits(3)

	eventstest.Begin(t, hiding(t, noProc, program, "doctor", "--servers", server.Addr(), lockPath)).Exits(0)
	bash, err := exec.LookPath("bash") // other shells cannot change the name
	if err != nil {
		t.Skip(err)
	}
	lost := eventstest.Begin(t, hiding(t, noProc, bash, append([]string{"-c", `exec -a zkgrant-that-is-not-there "$0" "$@"`, program}, line...)...))
	lost.Exits(codeFailed)
	lost.Must(t, "zkgrant does not find its own program without /proc")
}

// TestWithoutNameServers: an address needs none. A name cannot be resolved, and the message says why.
func TestWithoutNameServers(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	line := func(servers string) *exec.Cmd {
		return hiding(t, noDNS, program, append([]string{"run", "--servers", servers, "--wait", "1s", lockPath}, commandLine("exit", "3")...)...)
	}
	eventstest.Begin(t, line(server.Addr())).Exits(3)
	unknown := eventstest.Begin(t, line("zk.example:2181"))
	unknown.Exits(codeFailed)
	unknown.Must(t, "no name server is configured: open /etc/resolv.conf: no such file or directory")
}

// TestWithFewFiles: the pipes to the supervisor get numbers that there are.
func TestWithFewFiles(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	line := append([]string{"-c", `ulimit -n 40; exec "$0" "$@"`, program, "run", "--servers", server.Addr(), lockPath}, commandLine("exit", "3")...)
	eventstest.Begin(t, exec.Command("sh", line...)).Exits(3)
}
