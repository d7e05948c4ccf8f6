package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
)

// lookEvery is the time between two looks at a crowd. The crowd's own processes stamp what it does. A look wakes hundreds of processes, on
// the processors that the servers share. After a look there is none for lookRest times as long as it took.
const (
	lookEvery = 100 * time.Millisecond
	lookRest  = 3
)

// crowd is sessions in several processes.
type crowd struct {
	sessions  int
	folder    string // of the locks
	processes []*peers.Dialogue
}

// size is how many sessions a crowd has, in how many processes.
type size struct{ sessions, processes int }

// gather starts the processes, and returns when all sessions are connected. The caller must close the crowd.
func gather(ctx context.Context, command func() *exec.Cmd, of size, as opening) (c *crowd, err error) {
	c = &crowd{sessions: of.sessions}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	for range of.processes {
		p, err := peers.StartDialogue(command())
		if err != nil {
			return c, err
		}
		c.processes = append(c.processes, p)
	}
	_, err = c.each(ctx, func(i int) order {
		part := as
		part.First = i * of.sessions / of.processes
		part.N, part.Of = (i+1)*of.sessions/of.processes-part.First, of.sessions
		return order{Verb: verbOpen, Opening: &part}
	})
	return c, err
}

// tell gives all processes the order, and returns the sum of their reports.
func (c *crowd) tell(ctx context.Context, o order) (report, error) {
	return c.each(ctx, func(int) order { return o })
}

// each is tell with an order for each process.
func (c *crowd) each(ctx context.Context, orderOf func(i int) order) (all report, _ error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*patience, fmt.Errorf("no answer within %v", 2*patience))
	defer cancel()
	var mu sync.Mutex
	err := together(len(c.processes), func(i int) error {
		r, err := ask(ctx, c.processes[i], orderOf(i))
		mu.Lock()
		defer mu.Unlock()
		all.add(r)
		return err
	})
	return all, err
}

// ask gives one process the order.
func ask(ctx context.Context, p *peers.Dialogue, o order) (r report, _ error) {
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

// until looks at the crowd until the condition holds, and returns the last report.
func (c *crowd) until(ctx context.Context, what string, done func(report) bool) (r report, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		began := time.Now()
		if r, err = c.tell(ctx, order{Verb: verbLook}); err != nil || done(r) {
			return r, err
		}
		r.Fates = nil
		if err := pause(ctx, max(lookEvery, lookRest*time.Since(began))); err != nil {
			return r, fmt.Errorf("waiting until %s: %w, at %+v", what, err, r)
		}
	}
}

// holding waits until every session holds.
func (c *crowd) holding(ctx context.Context) (report, error) {
	return c.until(ctx, "every session holds", func(r report) bool { return r.Holding == c.sessions })
}

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

// close ends all processes.
func (c *crowd) close() error {
	return together(len(c.processes), func(i int) error { return c.processes[i].Close() })
}

// pause lets time pass, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
