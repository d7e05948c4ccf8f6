//go:build unix

package histories_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// jobVariable makes a process of the test binary a child, which does the job that is described there and no tests.
const jobVariable = "ZKGRANT_HISTORIES_JOB"

// job is what a child is to do.
type job struct {
	Name    string        `json:"name"` // of one of the jobs below
	Servers string        `json:"servers"`
	Path    string        `json:"path"`
	Timeout time.Duration `json:"timeout"` // of the session that holds the lock
	Tick    time.Duration `json:"tick"`
	Worker  int           `json:"worker"`
	Window  time.Duration `json:"window"` // between reading and writing, at most
}

// jobs are what children can do. They end when the parent hangs up, which ends their context, too.
func jobs() map[string]func(context.Context, job, *parent) error {
	return map[string]func(context.Context, job, *parent) error{
		"hold":        holdJob,
		"work":        workJob,
		"work, stock": stockJob,
	}
}

// runChild does the job of this process and does not return, if it has one.
func runChild() {
	text, ok := os.LookupEnv(jobVariable)
	if !ok {
		return
	}
	var j job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		ctx, hungUp := context.WithCancel(context.Background())
		err = jobs()[j.Name](ctx, j, newParent(hungUp))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// message is what parent and child tell each other.
type message struct {
	Kind     string   `json:"kind"`
	Time     int64    `json:"time,omitempty"` // of the machine
	Awake    int64    `json:"awake,omitempty"`
	Believed int64    `json:"believed,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Token    int64    `json:"token,omitempty"`
	Register string   `json:"register,omitempty"`
	Set      []int    `json:"set,omitempty"`
	Accepted bool     `json:"accepted,omitempty"`
	Section  *section `json:"section,omitempty"`
}

// link carries messages, one a line. Each direction is used by one goroutine.
type link struct {
	out *json.Encoder
	in  *json.Decoder
}

func (l *link) send(m message) error {
	if err := l.out.Encode(m); err != nil {
		return fmt.Errorf("telling %s: %w", m.Kind, err)
	}
	return nil
}

// receive returns io.EOF when the other end has closed the link.
func (l *link) receive() (message, error) {
	var m message
	if err := l.in.Decode(&m); err != nil {
		return m, fmt.Errorf("waiting to be told: %w", err)
	}
	return m, nil
}

// parent is the child's end of the link.
type parent struct {
	link *link
	said chan message // size 0; closed when the parent has hung up
}

func newParent(hungUp context.CancelFunc) *parent {
	p := &parent{&link{json.NewEncoder(os.Stdout), json.NewDecoder(os.Stdin)}, make(chan message)}
	go func() {
		defer close(p.said)
		defer hungUp()
		for {
			m, err := p.link.receive()
			if err != nil {
				return // there is nobody to tell
			}
			p.said <- m
		}
	}()
	return p
}

// ask sends a message and returns the answer, or io.EOF.
func (p *parent) ask(m message) (message, error) {
	if err := p.link.send(m); err != nil {
		return message{}, err
	}
	answer, ok := <-p.said
	if !ok {
		return message{}, io.EOF
	}
	return answer, nil
}

// goHome ends a job: with an error, unless it ends because the parent has hung up.
func goHome(ctx context.Context, c *coordinator.Coordinator, err error) error {
	closed := c.Close()
	if ctx.Err() != nil {
		return closed
	}
	return errors.Join(err, closed)
}

// child is a process that does a job.
type child struct {
	*link
	process *os.Process
	hangUp  func() error // closes the link; the child ends its job. To be called once
}

// startChild runs a child until the test has ended, or its job is done.
func startChild(t *testing.T, j job) *child {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), program)
	cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	dieWithParent(cmd)
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{link: &link{json.NewEncoder(in), json.NewDecoder(out)}, process: cmd.Process, hangUp: in.Close}
	t.Cleanup(func() {
		_ = in.Close() // it may be closed
		_ = c.goOn()   // it may have ended
		timer := time.AfterFunc(realMax, func() {
			t.Errorf("child %d did not end by itself", j.Worker)
			_ = cmd.Process.Kill()
		})
		defer timer.Stop()
		_, _ = io.Copy(io.Discard, out) // until it has closed its end, as Wait wants it
		if err := cmd.Wait(); err != nil || said.Len() > 0 {
			t.Errorf("child %d: %v\n%s", j.Worker, err, said.Bytes())
		}
	})
	return c
}

// hear receives what the child has to say. A child that says nothing for very long is sent home.
func (c *child) hear() (message, error) {
	var silent atomic.Bool
	timer := time.AfterFunc(realMax, func() {
		silent.Store(true)
		_ = c.hangUp()
	})
	defer timer.Stop()
	m, err := c.receive()
	if silent.Load() {
		return m, fmt.Errorf("it was silent for %v (%w)", realMax, err)
	}
	return m, err
}

// halt stops the process: it keeps its connections, and does nothing.
func (c *child) halt() error { return c.process.Signal(syscall.SIGSTOP) }

// goOn lets it go on.
func (c *child) goOn() error { return c.process.Signal(syscall.SIGCONT) }
