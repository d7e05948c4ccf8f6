package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// side is one of the two that compete, and what it knows of its locks. Only the
// loop touches it; there is nothing to guard.
type side struct {
	name string
	c    *coordinator.Coordinator
	news <-chan events.Event

	under map[uint64]*coordinator.Acquisition // what is asked for or held, by ID
	held  map[string]*coordinator.Acquisition // what is held, by path

	grants, losses, finished int
	waited                   time.Duration // of all grants
}

// due says when a lock has been held for long enough. All are held for the same
// time, so what was granted first is due first: a queue will do, and one timer.
type due struct {
	at   time.Time
	side *side
	path string
	lock *coordinator.Acquisition
}

// loop is the service.
type loop struct {
	opt   options
	out   progress
	sides [2]*side
	dues  []due
	begin time.Time
}

func newLoop(left, right *coordinator.Coordinator, out io.Writer, opt options) *loop {
	return &loop{
		opt: opt, out: progress{out: out, terminal: opt.terminal},
		sides: [2]*side{newSide("left", left), newSide("right", right)},
	}
}

func newSide(name string, c *coordinator.Coordinator) *side {
	return &side{
		name: name, c: c,
		under: map[uint64]*coordinator.Acquisition{}, held: map[string]*coordinator.Acquisition{},
	}
}

// run asks for every lock on both sides and handles what happens, until each side
// has held each lock for its time, or ctx ends. What is held or asked for then is
// the caller's to give back, by closing the coordinators.
func (l *loop) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx) // ends the two streams, however run returns
	defer cancel()
	defer l.out.end()
	for _, s := range l.sides {
		s.news = s.c.Events(ctx)
	}
	l.begin = time.Now()
	for i := range l.opt.locks {
		// The sides take turns in being the first to ask, so that each has to wait
		// for about a half of its locks.
		first, second := l.sides[i%2], l.sides[1-i%2]
		path := fmt.Sprintf("%s/lock-%04d", lockRoot, i)
		first.ask(ctx, path)
		second.ask(ctx, path)
	}

	left, right := l.sides[0], l.sides[1]
	clock := time.NewTimer(0) // runs while something is held
	defer clock.Stop()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for left.finished+right.finished < 2*l.opt.locks {
		var err error
		select {
		case ev := <-left.news:
			err = l.handle(ctx, left, ev)
		case ev := <-right.news:
			err = l.handle(ctx, right, ev)
		case now := <-clock.C:
			l.giveBack(now)
		case <-ticker.C:
			l.out.bar(left.finished+right.finished, 2*l.opt.locks, "left holds %d, right holds %d", len(left.held), len(right.held))
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
		if len(l.dues) > 0 {
			clock.Reset(time.Until(l.dues[0].at))
		}
	}
	l.out.bar(1, 1, "all given back")
	l.summary()
	return nil
}

// ask asks for a lock. It returns at once; the answer is an event.
func (s *side) ask(ctx context.Context, path string) {
	lock := s.c.Mutex(path).Acquire(ctx)
	s.under[lock.ID()] = lock
}

// handle is where a service does its work: start it on Grant, stop it on Lost.
func (l *loop) handle(ctx context.Context, s *side, ev events.Event) error {
	switch ev := ev.(type) {
	case events.Grant: // seen here, it is taken: nobody need read Granted
		lock := s.under[ev.ID]
		s.held[ev.Path] = lock
		s.grants++
		s.waited += ev.Waited
		l.dues = append(l.dues, due{time.Now().Add(l.opt.hold), s, ev.Path, lock})
		return l.alone(ev.Path)

	case events.Lost: // the last word on this acquisition: ask again
		delete(s.under, ev.ID)
		delete(s.held, ev.Path)
		s.losses++
		s.ask(ctx, ev.Path)

	case events.Ended: // released; or it could not be had
		delete(s.under, ev.ID)
		if ev.Err != nil && ctx.Err() == nil { // ctx ends all that wait, too
			return fmt.Errorf("%s: %s: %w", s.name, ev.Path, ev.Err)
		}
		s.finished++

	case events.Suspended:
		l.out.line("%s: no connection; its locks are good for another %v", s.name, time.Until(ev.Deadline).Round(time.Millisecond))
	case events.Resumed:
		l.out.line("%s: connected again", s.name)
	case events.SessionExpired:
		l.out.line("%s: its session is over", s.name)
	default: // Queued and the like; or nothing at all, the stream having ended with ctx
	}
	return nil
}

// giveBack releases what has been held for long enough. Release does not wait.
func (l *loop) giveBack(now time.Time) {
	for len(l.dues) > 0 && !l.dues[0].at.After(now) {
		d := l.dues[0]
		l.dues = l.dues[1:]
		if d.side.held[d.path] != d.lock {
			continue // lost in the meantime
		}
		delete(d.side.held, d.path) // first: from the Release on the other side may have it
		d.lock.Release()
	}
}
