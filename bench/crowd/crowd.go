package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
)

// lookEvery is the time between two looks at a crowd. The crowd's processes timestamp
// their own events, so looks may be rare. A look wakes up to hundreds of processes that
// share the CPUs with the servers. So after each look there is a rest of lookRest times
// its duration.
const (
	lookEvery = 100 * time.Millisecond
	lookRest  = 3
)

// crowd is a set of sessions in several processes. After the first error its methods do
// nothing.
type crowd struct {
	ctx       context.Context
	err       error
	sessions  int
	folder    string // of the locks
	processes []*peers.Dialogue
}

type size struct{ sessions, processes int }

// gather starts the processes, and returns once all sessions are connected. The caller
// must close the crowd.
func gather(ctx context.Context, command func() *exec.Cmd, of size, as opening) *crowd {
	c := &crowd{ctx: ctx, sessions: of.sessions}
	for range of.processes {
		p, err := peers.StartDialogue(command())
		if err != nil {
			c.err = err
			return c
		}
		c.processes = append(c.processes, p)
	}
	c.each(func(i int) order {
		part := as
		part.First = i * of.sessions / of.processes
		part.N, part.Of = (i+1)*of.sessions/of.processes-part.First, of.sessions
		return order{Verb: verbOpen, Opening: part}
	})
	return c
}

// tell sends the order to all processes, and returns the sum of their reports.
func (c *crowd) tell(o order) report { return c.each(func(int) order { return o }) }

// each is tell with an order for each process.
func (c *crowd) each(orderOf func(i int) order) (all report) {
	if c.err != nil {
		return all
	}
	var mu sync.Mutex
	c.err = peers.Together(len(c.processes), func(i int) error {
		r, err := ask(c.ctx, c.processes[i], orderOf(i))
		mu.Lock()
		defer mu.Unlock()
		all.add(r)
		return err
	})
	return all
}

// do calls f unless there was an error.
func (c *crowd) do(f func() error) {
	if c.err == nil {
		c.err = f()
	}
}

func ask(ctx context.Context, p *peers.Dialogue, o order) (r report, _ error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*patience, fmt.Errorf("no answer within %v", 2*patience))
	defer cancel()
	line, err := json.Marshal(o)
	if err != nil {
		return r, err
	}
	said, err := p.Ask(ctx, string(line))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(said), &r); err != nil {
		return r, fmt.Errorf("a report that is none: %.100q: %w", said, err)
	}
	if r.Err != "" {
		return r, fmt.Errorf("a process, asked to %s: %s", o.Verb, r.Err)
	}
	return r, nil
}

// until polls the crowd until the condition holds, and returns the last report.
func (c *crowd) until(what string, done func(report) bool) (r report) {
	for start := time.Now(); ; {
		began := time.Now()
		if r = c.tell(order{Verb: verbLook}); c.err != nil || done(r) {
			return r
		}
		r.Fates = nil
		c.rest(max(lookEvery, lookRest*time.Since(began)))
		if c.err == nil && time.Since(start) > patience {
			c.err = fmt.Errorf("waiting until %s, for %v: %+v", what, patience, r)
		}
	}
}

func (c *crowd) holding() report {
	return c.until("every session holds", func(r report) bool { return r.Holding == c.sessions })
}

func (c *crowd) rest(d time.Duration) { c.do(func() error { return peers.Pause(c.ctx, d) }) }

// sum adds up a usage over the processes.
func sum[T int64 | time.Duration](c *crowd, used func(*peers.Process) (T, error)) (all T, _ error) {
	for _, p := range c.processes {
		n, err := used(p.Process)
		if err != nil {
			return 0, err
		}
		all += n
	}
	return all, nil
}

func (c *crowd) close() error {
	return peers.Together(len(c.processes), func(i int) error { return c.processes[i].Close() })
}
