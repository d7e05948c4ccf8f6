package ensemble

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// childVariable is set in the process that the test starts and kills, and has the folder
// to use.
const childVariable = "ENSEMBLE_TEST_CHILD"

// A killed test process runs no clean-up, but its servers must end.
func TestServersDieWithTheirParent(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel() // it waits for a server most of the time
	installation := Installed(t)
	if folder := os.Getenv(childVariable); folder != "" {
		e, err := Launch(context.Background(), installation, folder, 1)
		eventstest.Must(t, err)
		fmt.Printf("\nserver %d\n", e.servers[0].process.cmd.Process.Pid)
		_, err = io.Copy(io.Discard, os.Stdin) // forever: the parent has the other end
		t.Fatal("the parent went away: ", err, e.Close())
	}

	self, err := os.Executable()
	eventstest.Must(t, err)
	ctx := t.Context()
	child := exec.CommandContext(ctx, self, "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), childVariable+"="+t.TempDir())
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	eventstest.Must(t, err)
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	eventstest.Must(t, err)
	eventstest.Must(t, child.Start())
	pid := 0
	for lines := bufio.NewScanner(stdout); pid == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "server %d", &pid) // other lines are the test's own
	}
	eventstest.Expect(t, pid == 0 || running(pid), "the server is not running before its parent is killed")
	eventstest.Check(t, child.Process.Kill())
	eventstest.Expect(t, child.Wait() != nil, "Wait of the killed process = nil, want its signal")
	if pid == 0 {
		t.Fatal("the other process has started no server")
	}
	if err := poll(ctx, func() (bool, error) { return !running(pid), nil }); err != nil {
		t.Errorf("server %d outlives its parent (%v); killing it: %v", pid, err, syscall.Kill(pid, syscall.SIGKILL))
	}
}

// running reports whether the process is neither gone nor a zombie. An orphan becomes a
// child of process 1, which may never collect it.
func running(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	// The state follows the program's name, which is in parentheses and may contain
	// anything.
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" "))
	return !bytes.HasPrefix(state, []byte("Z")) && !bytes.HasPrefix(state, []byte("X"))
}
