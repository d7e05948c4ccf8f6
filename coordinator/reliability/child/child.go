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

// patience ends the wait for a child that hangs. A child needs a moment; a machine with
// other work gets more than this.
const patience = time.Minute

// Child is a process that does a job.
type Child struct {
	In      io.Writer // its standard input
	Out     io.Reader // its standard output
	Process *os.Process

	hangUp func() error
	killed atomic.Bool
	says   *json.Decoder
}

// Job has the process do its job and exit if the variable holds one. Otherwise it
// returns. An error is written to the standard error.
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

// Start runs a child, the binary of the test again, until the test has ended, or the job
// is done. See [Run].
func Start(tb testing.TB, name, variable, job string, goOn func(*os.Process)) *Child {
	tb.Helper()
	program, err := os.Executable()
	eventstest.Must(tb, err)
	cmd := exec.CommandContext(context.Background(), program) // the end of the test's context would kill it
	cmd.Env = append(os.Environ(), variable+"="+job)
	return Run(tb, name, cmd, goOn)
}

// Run starts a program as a child, until the test has ended or its job is done. The name
// is for messages. When the test ends, goOn is called, the child's input is closed, and
// the child is waited for. goOn, which may be nil, is for a child that cannot end by
// itself, such as a halted one. The test fails if the child fails or writes to its
// standard error.
func Run(tb testing.TB, name string, cmd *exec.Cmd, goOn func(*os.Process)) *Child {
	tb.Helper()
	ensemble.DieWithParent(cmd) // a halted child would otherwise stay for ever
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	eventstest.Must(tb, err)
	out, err := cmd.StdoutPipe()
	eventstest.Must(tb, err)
	eventstest.Must(tb, cmd.Start())
	c := &Child{In: in, Out: out, Process: cmd.Process, says: json.NewDecoder(out)}
	c.hangUp = sync.OnceValue(in.Close)
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

// Hear reads the next value of JSON from the child's output. A child that is silent for
// very long is sent home.
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

// HangUp closes the child's input, at which the child ends. A second call returns what
// the first one did.
func (c *Child) HangUp() error { return c.hangUp() }

// Kill ends the process at once. The test does not fail for that.
func (c *Child) Kill() error {
	c.killed.Store(true)
	return c.Process.Kill()
}
