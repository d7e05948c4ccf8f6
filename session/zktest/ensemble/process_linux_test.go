package ensemble

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
		fmt.Printf("\nserver %d is up\n", e.servers[0].process.cmd.Process.Pid)
		_, err = io.Copy(io.Discard, os.Stdin) // forever: the parent has the other end
		t.Fatal("the parent went away: ", err, e.Close())
	}

	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), childVariable+"="+t.TempDir())
	_, err := child.StdinPipe() // it is closed when the child has ended
	eventstest.Must(t, err)
	p := eventstest.Begin(t, child)
	p.Await(t, " is up", 1)
	pid := 0
	_, text, _ := strings.Cut(p.String(), "\nserver ")
	_, err = fmt.Sscan(text, &pid)
	eventstest.Must(t, err)
	eventstest.Expect(t, running(pid), "the server is not running before its parent is killed")
	p.Send(os.Kill)
	p.Exits(128 + int(syscall.SIGKILL))
	if err := poll(t.Context(), func() (bool, error) { return !running(pid), nil }); err != nil {
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
