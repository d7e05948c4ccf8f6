package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
)

// only is for a stage in which not every library takes part.
func only(keys ...string) func(library) bool {
	return func(l library) bool { return slices.Contains(keys, l.Key) }
}

// stages are the parts of the contest in their order.
func (d *director) stages() []stage {
	all := []stage{
		{name: "uncontended cycle", run: runCycles},
	}
	for _, locks := range d.effort.locks {
		all = append(all, stage{name: fmt.Sprintf("%d locks at once", locks), run: runMany(locks)})
	}
	all = append(all,
		stage{name: "to the only one waiting, in another session", run: runCross},
		stage{
			name: fmt.Sprintf("to the next of %d, in two sessions", crossCrowd),
			run:  runHandoff(crossCrowd, 2, func(m *Measured, s handoffs) { m.note(figureCross(crossCrowd), s.took) }),
		})
	for _, queue := range d.effort.queues {
		all = append(all, stage{
			name: fmt.Sprintf("handoff, %d waiting", queue),
			who:  func(l library) bool { return queue <= l.crowd },
			run: runHandoff(queue, 1, func(m *Measured, s handoffs) {
				m.note(figureHandoff(queue), s.took)
				m.note(figureBytes(queue), s.bytes)
				m.note(figureAsked(queue), s.requests)
				if m.Key != keyEtcd { // etcd does not count them
					m.note(figureWakeUps(queue), s.wakeUps)
				}
			}),
		})
	}
	return append(all, stage{
		name: fmt.Sprintf("%d locks, and the session expires", d.effort.expired), who: only(keyOurs), run: runExpire,
	})
}

// micros is a number of nanoseconds in microseconds.
func micros(nanos float64) float64 { return nanos / 1e3 }

// session runs f with n sessions open.
func session(ctx context.Context, c *contestant, n int, f func() error) error {
	if err := c.tell(ctx, question{verb: askOpen, n: n}); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return c.tell(ctx, question{verb: askClose})
}

// runCycles also does the cycles with the release awaited, in the same round: they are compared with the cycles of all libraries, and the
// machine's speed varies over time.
func runCycles(ctx context.Context, d *director, c *contestant, m *Measured, path string) error {
	if err := runCycle(ctx, d, c, m, path); err != nil || m.Key != keyOurs {
		return err
	}
	return runAwaited(ctx, d, c, m, d.path(m.Key))
}

func runCycle(ctx context.Context, d *director, c *contestant, m *Measured, path string) error {
	return session(ctx, c, 1, func() error {
		// The first cycles make the directory.
		if err := c.tell(ctx, question{verb: askCycle, path: path, n: 20}); err != nil {
			return err
		}
		var took []int64
		counted, err := d.arena.during(ctx, c.library, func() (err error) {
			return d.work(ctx, c, m, 1, d.effort.cycles, func() (err error) {
				took, err = c.ask(ctx, question{verb: askCycle, path: path, n: d.effort.cycles})
				return err
			})
		})
		if err != nil {
			return err
		}
		m.note(figureCycle, micros(figures.Percentile(took, 0.50)))
		m.note(figureCycleTail, micros(figures.Percentile(took, 0.99)))
		m.note(figureRequests, counted.requests/float64(d.effort.cycles))
		return nil
	})
}

func runAwaited(ctx context.Context, d *director, c *contestant, m *Measured, path string) error {
	return session(ctx, c, 1, func() error {
		if err := c.tell(ctx, question{verb: askAwaited, path: path, n: 20}); err != nil {
			return err
		}
		took, err := c.ask(ctx, question{verb: askAwaited, path: path, n: d.effort.cycles})
		if err != nil {
			return err
		}
		m.note(figureAwaited, micros(figures.Percentile(took, 0.50)))
		m.note(figureAwaitTail, micros(figures.Percentile(took, 0.99)))
		return nil
	})
}

func runMany(locks int) func(context.Context, *director, *contestant, *Measured, string) error {
	return func(ctx context.Context, d *director, c *contestant, m *Measured, path string) error {
		return session(ctx, c, 1, func() error {
			if err := d.many(ctx, c, m, path, locks); err != nil || m.Key != keyOurs {
				return err
			}
			rate, err := d.rate(ctx, c, question{verb: askManyAwaited, path: path, n: locks})
			if err == nil {
				m.note(figureManyAwaited(locks), rate)
			}
			return err
		})
	}
}

// many notes how many cycles a session does with that many locks at once.
func (d *director) many(ctx context.Context, c *contestant, m *Measured, path string, locks int) error {
	var rate float64
	err := d.work(ctx, c, m, locks, locks*(d.each(locks)+1), func() (err error) {
		rate, err = d.rate(ctx, c, question{verb: askMany, path: path, n: locks})
		return err
	})
	if err == nil {
		m.note(figureRate(locks), rate)
	}
	return err
}

// each is how many cycles each of that many locks does.
func (d *director) each(locks int) int { return max(d.effort.many/locks, 1) }

// rate asks for cycles with many locks at once, and returns the cycles a second.
func (d *director) rate(ctx context.Context, c *contestant, q question) (float64, error) {
	q.also = d.each(q.n)
	took, err := c.one(ctx, q)
	return float64(q.n*q.also) / (float64(took) / 1e9), err
}

// work notes the processor time and the system calls of f's cycles.
func (d *director) work(ctx context.Context, c *contestant, m *Measured, locks, cycles int, f func() error) error {
	server, client, err := d.arena.computed(c)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	told := err == nil
	if err := calls(ctx, c, m, locks, cycles, f); err != nil || !told {
		return err
	}
	serverNow, clientNow, err := d.arena.computed(c)
	m.note(figureServer(locks), float64((serverNow-server).Microseconds())/float64(cycles))
	m.note(figureClient(locks), float64((clientNow-client).Microseconds())/float64(cycles))
	return err
}

// calls notes the system calls and the allocations of f's cycles, for clients in Go.
func calls(ctx context.Context, c *contestant, m *Measured, locks, cycles int, f func() error) error {
	if m.Key == keyCurator || m.Key == keyKazoo {
		return f()
	}
	before, err := c.ask(ctx, question{verb: askCalls})
	if err == nil {
		err = f()
	}
	if err != nil {
		return err
	}
	after, err := c.ask(ctx, question{verb: askCalls})
	if err != nil {
		return err
	}
	m.note(figureReads(locks), float64(after[0]-before[0])/float64(cycles))
	m.note(figureWrites(locks), float64(after[1]-before[1])/float64(cycles))
	m.note(figureAllocs(locks), float64(after[2]-before[2])/float64(cycles))
	return nil
}

// pendulum hands a lock back and forth between two sessions. Before each handoff, a waiter queues up in the next session.
type pendulum struct {
	at   *place
	c    *contestant
	path string
	idle counts
	add  int // how many contenders queue up next
}

func newPendulum(ctx context.Context, at *place, c *contestant, path string) (*pendulum, error) {
	idle, err := at.counted(ctx, c.library)
	return &pendulum{at: at, c: c, path: path, idle: idle, add: 2}, err // the first time a holder, too
}

// lineUp returns when one contender waits.
func (p *pendulum) lineUp(ctx context.Context) error {
	if err := p.c.tell(ctx, question{verb: askFill, path: p.path, n: p.add}); err != nil {
		return err
	}
	p.add = 1
	return p.at.queued(ctx, p.c.library, p.idle.watches+1)
}

// swing hands the lock on.
func (p *pendulum) swing(ctx context.Context) ([]int64, error) {
	return p.c.ask(ctx, question{verb: askDrain, n: 1})
}

func runCross(ctx context.Context, d *director, c *contestant, m *Measured, path string) error {
	return session(ctx, c, 2, func() error {
		p, err := newPendulum(ctx, &d.arena.place, c, path)
		if err != nil {
			return err
		}
		var all []int64
		for range d.effort.cross {
			if err := p.lineUp(ctx); err != nil {
				return err
			}
			took, err := p.swing(ctx)
			if err != nil {
				return err
			}
			all = append(all, took...)
		}
		m.note(figureCross(1), micros(figures.Percentile(all, 0.50)))
		return nil
	})
}

// handoffs are the figures of some handoffs, in one round.
type handoffs struct {
	took     float64 // median, in microseconds
	bytes    float64 // each
	requests float64 // each
	wakeUps  float64 // each
}

// atOnce is how many contenders queue up at the same time. Each of them may list all others, and the server keeps an answer in memory
// until the client has read it.
const atOnce = 250

// build puts a holder and that many waiters into the queue.
func (d *director) build(ctx context.Context, c *contestant, path string, waiters int, idle counts) error {
	for there := 0; there < waiters+1; {
		more := min(atOnce, waiters+1-there)
		if err := c.tell(ctx, question{verb: askFill, path: path, n: more}); err != nil {
			return err
		}
		there += more
		if err := d.arena.queued(ctx, c.library, idle.watches+float64(there-1)); err != nil {
			return err
		}
	}
	return nil
}

// firstHandoffs are not counted: a queue at rest has to get going.
const firstHandoffs = 5

// runHandoff builds a queue, waits until every waiter is at rest, and hands the lock on, again and again.
func runHandoff(
	queue, sessions int, note func(*Measured, handoffs),
) func(context.Context, *director, *contestant, *Measured, string) error {
	return func(ctx context.Context, d *director, c *contestant, m *Measured, path string) error {
		n := min(queue-firstHandoffs, d.effort.handoffs)
		return session(ctx, c, sessions, func() error {
			idle, err := d.arena.counted(ctx, c.library)
			if err != nil {
				return err
			}
			if err := d.build(ctx, c, path, queue, idle); err != nil {
				return err
			}
			if err := c.tell(ctx, question{verb: askDrain, n: firstHandoffs}); err != nil {
				return err
			}
			var took []int64
			var before, after int64
			counted, err := d.arena.during(ctx, c.library, func() (err error) {
				if before, err = c.one(ctx, question{verb: askBytes}); err != nil {
					return err
				}
				if took, err = c.ask(ctx, question{verb: askDrain, n: n}); err != nil {
					return err
				}
				after, err = c.one(ctx, question{verb: askBytes})
				return err
			})
			if err != nil {
				return err
			}
			each := math.Max(float64(n), 1)
			note(m, handoffs{
				took:     micros(figures.Percentile(took, 0.50)),
				bytes:    float64(after-before) / each,
				requests: counted.requests / each,
				wakeUps:  counted.fired / each,
			})
			return nil
		})
	}
}

func runExpire(ctx context.Context, d *director, c *contestant, m *Measured, path string) error {
	return session(ctx, c, 1, func() error {
		spread, err := c.one(ctx, question{verb: askExpire, path: path, n: d.effort.expired})
		if err != nil {
			return err
		}
		m.note(figureExpire, float64(spread)/1e6)
		return nil
	})
}
