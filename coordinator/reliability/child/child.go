package child

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// patience bounds the wait for a child that hangs. A child needs a moment; on a busy
// machine, the wait is longer.
const patience = time.Minute

// Child is a process that does a job.
type Child struct {
	In      io.Writer // its standard input
	Out     io.Reader // its standard output
	Process *os.Process
	HangUp  func() error // closes its input, which ends it; a second call returns the same

	killed atomic.Bool
	says   *json.Decoder
}

// Job does the process's job and exits if the variable is set. Otherwise it returns. An
// error is written to the standard error.
func Job(variable string, do func(job string) error) {
	job, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	if err := do(job); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Start runs the test's binary as a child, until the test ends or the job is done. See
// [Run].
func Start(tb testing.TB, name, variable, job string, goOn func(*os.Process)) *Child {
	tb.Helper()
	program, err := os.Executable()
	eventstest.Must(tb, err)
	cmd := exec.CommandContext(context.Background(), program) // the end of the test's context would kill it
	cmd.Env = append(os.Environ(), variable+"="+job)
	return Run(tb, name, cmd, goOn)
}

// Run starts a program as a child, until the test ends or its job is done. The name is
// for messages. When the test ends, Run calls goOn, closes the child's input, and waits
// for the child. goOn is for a child that cannot end by itself, such as a halted one; it
// may be nil. The test fails if the child fails or writes to its standard error.
func Run(tb testing.TB, name string, cmd *exec.Cmd, goOn func(*os.Process)) *Child {
	tb.Helper()
	ensemble.DieWithParent(cmd) // otherwise a halted child would stay forever
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	eventstest.Must(tb, err)
	out, err := cmd.StdoutPipe()
	eventstest.Must(tb, err)
	eventstest.Must(tb, cmd.Start())
	c := &Child{In: in, Out: out, Process: cmd.Process, says: json.NewDecoder(out)}
	c.HangUp = sync.OnceValue(in.Close)
	tb.Cleanup(func() {
		_ = c.HangUp() // the child may have closed its end
		if goOn != nil {
			goOn(cmd.Process)
		}
		ctx, cancel := eventstest.Patient(patience)
		defer cancel()
		defer context.AfterFunc(ctx, func() {
			tb.Errorf("%s did not end within %v of the end of its input: it is killed", name, patience)
			_ = cmd.Process.Kill()
		})()
		_, _ = io.Copy(io.Discard, out) // until the child has closed its end, as Wait requires
		if err := cmd.Wait(); err != nil && !c.killed.Load() || said.Len() > 0 {
			tb.Errorf("%s: %v\n%s", name, err, said.Bytes())
		}
	})
	return c
}

// Tell writes a value to the child's input, as a line of JSON.
func (c *Child) Tell(v any) error { return json.NewEncoder(c.In).Encode(v) }

// Hear reads the next JSON value from the child's output. If the child is silent for very
// long, Hear hangs up on it.
func (c *Child) Hear(v any) error {
	var silent atomic.Bool
	ctx, cancel := eventstest.Patient(2 * patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		silent.Store(true)
		_ = c.HangUp()
	})()
	if err := c.says.Decode(v); err != nil {
		return fmt.Errorf("waiting for the child (silent for too long: %t): %w", silent.Load(), err)
	}
	return nil
}

// Kill ends the process at once, without failing the test.
func (c *Child) Kill() error {
	c.killed.Store(true)
	return c.Process.Kill()
}
