package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
)

// lookEvery is between two looks at a crowd that is waited for. What it does is stamped by its own processes.
const lookEvery = 100 * time.Millisecond

// crowd is sessions in several processes.
type crowd struct {
	sessions  int
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

// tell has all processes follow the order, and returns what they report together.
func (c *crowd) tell(ctx context.Context, o order) (report, error) {
	return c.each(ctx, func(int) order { return o })
}

// each is tell with an order for each process.
func (c *crowd) each(ctx context.Context, orderOf func(i int) order) (all report, _ error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*patience, fmt.Errorf("no answer within %v", 2*patience))
	defer cancel()
	type answer struct {
		report
		err error
	}
	answers := make(chan answer, len(c.processes))
	for i, p := range c.processes {
		go func() {
			r, err := ask(ctx, p, orderOf(i))
			answers <- answer{r, err}
		}()
	}
	var errs []error
	for range c.processes {
		a := <-answers
		all.add(a.report)
		errs = append(errs, a.err)
	}
	return all, errors.Join(errs...)
}

// ask has one process follow the order.
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
		if r, err = c.tell(ctx, order{Verb: verbLook}); err != nil || done(r) {
			return r, err
		}
		r.Fates = nil
		if err := pause(ctx, lookEvery); err != nil {
			return r, fmt.Errorf("waiting until %s: %w, at %+v", what, err, r)
		}
	}
}

// holding waits until every session holds.
func (c *crowd) holding(ctx context.Context) (report, error) {
	return c.until(ctx, "every session holds", func(r report) bool { return r.Holding == c.sessions })
}

// computed is how long the processes have computed so far, all together.
func (c *crowd) computed() (all time.Duration, _ error) {
	for _, p := range c.processes {
		d, err := p.ProcessorTime()
		if err != nil {
			return 0, err
		}
		all += d
	}
	return all, nil
}

// memory is how many bytes of memory the processes take up, all together.
func (c *crowd) memory() (all int64, _ error) {
	for _, p := range c.processes {
		n, err := p.Memory()
		if err != nil {
			return 0, err
		}
		all += n
	}
	return all, nil
}

// close ends all processes.
func (c *crowd) close() error {
	closed := make(chan error, len(c.processes))
	for _, p := range c.processes {
		go func() { closed <- p.Close() }()
	}
	var errs []error
	for range c.processes {
		errs = append(errs, <-closed)
	}
	return errors.Join(errs...)
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
