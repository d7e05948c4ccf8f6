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

// job is what a child is to do: to hold a lock, or to work under it.
type job struct {
	Holds         bool
	Servers, Path string
	Timeout, Tick time.Duration // of the session that holds the lock
	Worker        int
	Workers       int           // goroutines that work
	Window        time.Duration // between reading and writing, at most
	Rest          time.Duration // between two sections, at most
	Nodes         []string      // the registers in ZooKeeper
}

// runChild does the job of this process, if there is one, and does not return then. A job ends when the
// parent hangs up, which also ends its context.
func runChild() {
	child.Job(jobVariable, func(text string) error {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			return err
		}
		ctx, hungUp := context.WithCancel(context.Background())
		defer hungUp()
		c, err := coordinator.Connect(ctx, j.Servers, coordinator.WithSessionTimeout(j.Timeout), coordinator.WithTickTime(j.Tick))
		if err != nil {
			return err
		}
		do := workJob
		if j.Holds {
			do = holdJob
		}
		err = do(ctx, c, j, newParent(hungUp))
		closed := c.Close()
		if ctx.Err() != nil {
			return closed // it has ended because the parent has hung up
		}
		return errors.Join(err, closed)
	})
}

// message is what parent and child tell each other.
type message struct {
	Kind                  string
	Time, Awake, Believed int64 // of the machine
	Reason                string
	Token                 int64
	Turn                  uint64
	Register              string
	Set                   []int
	Accepted              bool
	Section               *section
}

func (m message) fence() fence { return fence{m.Token, m.Turn} }

// link carries messages. Each direction is used by one goroutine.
type link struct {
	out *json.Encoder
	in  *json.Decoder
}

// parent is the child's end of the link.
type parent struct {
	link
	said   chan message // size 0; closed when the parent has hung up
	asking sync.Mutex
}

func newParent(hungUp context.CancelFunc) *parent {
	p := &parent{link: link{json.NewEncoder(os.Stdout), json.NewDecoder(os.Stdin)}, said: make(chan message)}
	go func() {
		defer close(p.said)
		defer hungUp()
		for {
			var m message
			if p.in.Decode(&m) != nil {
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
	if err := p.out.Encode(m); err != nil {
		return message{}, err
	}
	answer, ok := <-p.said
	if !ok {
		return message{}, io.EOF
	}
	return answer, nil
}

// helper is a process that does a job, and the parent's end of the link.
type helper struct {
	link
	*child.Child
}

// startChild runs a child until the test has ended, or its job is done.
func startChild(t *testing.T, j job) *helper {
	t.Helper()
	text, err := json.Marshal(j)
	eventstest.Must(t, err)
	goOn := func(p *os.Process) { _ = p.Signal(syscall.SIGCONT) } // the child may have ended
	c := child.Start(t, fmt.Sprint("child ", j.Worker), jobVariable, string(text), goOn)
	return &helper{link{json.NewEncoder(c.In), json.NewDecoder(c.Out)}, c}
}

// hear receives a message of the child. A child that is silent for very long is sent home.
func (c *helper) hear() (m message, err error) {
	var silent atomic.Bool
	ctx, cancel := eventstest.Patient(realMax)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		silent.Store(true)
		_ = c.HangUp()
	})()
	if err = c.in.Decode(&m); err != nil {
		err = fmt.Errorf("waiting for the child (silent for %v: %t): %w", realMax, silent.Load(), err)
	}
	return m, err
}

// halt stops the process: it keeps its connections, and does nothing. goOn continues it.
func (c *helper) halt() error { return c.Process.Signal(syscall.SIGSTOP) }
func (c *helper) goOn() error { return c.Process.Signal(syscall.SIGCONT) }
