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
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// jobVariable makes a process of the test binary a child, which does the job in the
// variable and runs no tests.
const jobVariable = "ZKGRANT_HISTORIES_JOB"

// job is the job of a child: to hold a lock, or to work under it.
type job struct {
	Holds         bool
	Servers, Path string
	Timeout, Tick time.Duration // of the lock's session
	Worker        int
	Workers       int           // working goroutines
	Window        time.Duration // longest time between reading and writing
	Rest          time.Duration // longest time between two sections
	Nodes         []string      // the registers in ZooKeeper
}

// runChild does the job of this process if there is one, and then does not return. A job
// ends when the parent hangs up, which also ends its context.
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
			return closed // ended because the parent has hung up
		}
		return errors.Join(err, closed)
	})
}

// message is what parent and child send each other.
type message struct {
	Kind                  string
	Time, Awake, Believed int64 // times of the machine
	Reason                string
	fence
	Register string
	Set      []int
	Accepted bool
	Section  *section
}

// parent is the child's end of the link. One goroutine uses each direction.
type parent struct {
	out    *json.Encoder
	in     *json.Decoder
	said   chan message // unbuffered; closed when the parent has hung up
	asking sync.Mutex
}

func newParent(hungUp context.CancelFunc) *parent {
	p := &parent{out: json.NewEncoder(os.Stdout), in: json.NewDecoder(os.Stdin), said: make(chan message)}
	go func() {
		defer close(p.said)
		defer hungUp()
		for {
			var m message
			if p.in.Decode(&m) != nil {
				return // the parent has hung up
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

// startChild runs a child until the test ends, or its job is done.
func startChild(t *testing.T, j job) *child.Child {
	t.Helper()
	text, err := json.Marshal(j)
	eventstest.Must(t, err)
	wake := func(p *os.Process) { _ = p.Signal(syscall.SIGCONT) } // the child may have ended already
	return child.Start(t, fmt.Sprint("child ", j.Worker), jobVariable, string(text), wake)
}

// halt stops the process: it keeps its connections, but does nothing. goOn continues it.
func halt(c *child.Child) error { return c.Process.Signal(syscall.SIGSTOP) }
func goOn(c *child.Child) error { return c.Process.Signal(syscall.SIGCONT) }
