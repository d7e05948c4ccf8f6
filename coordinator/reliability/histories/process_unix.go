//go:build unix

package histories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// jobVariable makes a process of the test binary a child, which does the job in it and no tests.
const jobVariable = "ZKGRANT_HISTORIES_JOB"

// job is what a child is to do.
type job struct {
	Name    string        `json:"name"` // one of the jobs below
	Servers string        `json:"servers"`
	Path    string        `json:"path"`
	Timeout time.Duration `json:"timeout"` // of the session that holds the lock
	Tick    time.Duration `json:"tick"`
	Worker  int           `json:"worker"`
	Workers int           `json:"workers"` // goroutines that work
	Window  time.Duration `json:"window"`  // between reading and writing, at most
	Rest    time.Duration `json:"rest"`    // between two sections, at most
	Nodes   []string      `json:"nodes"`   // the registers in ZooKeeper
}

// jobs are what children can do. A job ends when the parent hangs up, which also ends its context.
func jobs() map[string]func(context.Context, job, *parent) error {
	return map[string]func(context.Context, job, *parent) error{
		"hold":        holdJob,
		"work":        workJob,
		"work, stock": stockJob,
	}
}

// runChild does the job of this process, if there is one, and does not return then.
func runChild() {
	child.Job(jobVariable, func(text string) error {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			return err
		}
		ctx, hungUp := context.WithCancel(context.Background())
		return jobs()[j.Name](ctx, j, newParent(hungUp))
	})
}

// message is what parent and child tell each other.
type message struct {
	Kind     string   `json:"kind"`
	Time     int64    `json:"time,omitempty"` // of the machine
	Awake    int64    `json:"awake,omitempty"`
	Believed int64    `json:"believed,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Token    int64    `json:"token,omitempty"`
	Turn     uint64   `json:"turn,omitempty"`
	Register string   `json:"register,omitempty"`
	Set      []int    `json:"set,omitempty"`
	Accepted bool     `json:"accepted,omitempty"`
	Section  *section `json:"section,omitempty"`
}

func (m message) fence() fence { return fence{m.Token, m.Turn} }

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
	link   *link
	said   chan message // size 0; closed when the parent has hung up
	asking sync.Mutex
}

func newParent(hungUp context.CancelFunc) *parent {
	p := &parent{link: &link{json.NewEncoder(os.Stdout), json.NewDecoder(os.Stdin)}, said: make(chan message)}
	go func() {
		defer close(p.said)
		defer hungUp()
		for {
			m, err := p.link.receive()
			if err != nil {
				return // there is no parent to tell
			}
			p.said <- m
		}
	}()
	return p
}

// ask sends a message and returns the answer, or io.EOF. It is safe for concurrent use.
func (p *parent) ask(m message) (message, error) {
	p.asking.Lock()
	defer p.asking.Unlock()
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

// helper is a process that does a job.
type helper struct {
	*link
	*child.Child
}

// startChild runs a child until the test has ended, or its job is done.
func startChild(t *testing.T, j job) *helper {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	goOn := func(p *os.Process) { _ = p.Signal(syscall.SIGCONT) } // the child may have ended
	c := child.Start(t, fmt.Sprint("child ", j.Worker), jobVariable, string(text), goOn)
	return &helper{&link{json.NewEncoder(c.In), json.NewDecoder(c.Out)}, c}
}

// hear receives a message of the child. A child that is silent for very long is sent home.
func (c *helper) hear() (message, error) {
	var silent atomic.Bool
	ctx, cancel := eventstest.Patient(realMax)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		silent.Store(true)
		_ = c.HangUp()
	})()
	m, err := c.receive()
	if silent.Load() {
		return m, fmt.Errorf("it was silent for %v (%w)", realMax, err)
	}
	return m, err
}

// halt stops the process: it keeps its connections, and does nothing.
func (c *helper) halt() error { return c.Process.Signal(syscall.SIGSTOP) }

// goOn continues the process.
func (c *helper) goOn() error { return c.Process.Signal(syscall.SIGCONT) }
