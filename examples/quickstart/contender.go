package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// contender is one who wants the lock. It has a coordinator of its own, hence a
// session of its own, as if it were a process of its own.
type contender struct {
	name    string
	opt     options
	book    *ledger
	lines   *timeline
	doomed  bool          // its session will be ended while it works
	inQueue chan struct{} // closed when it stands in the queue

	wire    sniffer // knows the session's password, for expire
	lock    *coordinator.Lock
	news    <-chan events.Event
	queued  bool // inQueue is closed
	holding bool
}

// run connects, does the work once under the lock, however often that has to be
// begun, and leaves nothing behind.
func (c *contender) run(ctx context.Context) error {
	zk, err := coordinator.Connect(ctx, c.opt.zk.Servers,
		coordinator.WithSessionTimeout(c.opt.zk.Timeout),
		coordinator.WithDialer(c.wire.DialContext))
	if err != nil {
		return err
	}
	defer func() {
		if err := zk.Close(); err != nil { // not lost: the server ends the session by itself
			c.say(warn, "closed", "%v", err)
		}
	}()

	c.book.arrive(c.name, zk.SessionID())
	c.lock = zk.Mutex(lockPath)
	c.news = zk.Events(ctx)
	for {
		worked, err := c.turn(ctx)
		if worked || err != nil {
			return err
		}
	}
}

// turn queues for the lock and works under it. It reports whether the work was
// done: a loss is no error, but then the work is to be done again.
func (c *contender) turn(ctx context.Context) (worked bool, err error) {
	lock := c.lock.Acquire(ctx, coordinator.WithData([]byte(c.name)))
	defer lock.Release()

	var (
		finished <-chan time.Time // the work is done
		strike   <-chan time.Time // now the session shall end
		struck   <-chan error     // it has, or could not be ended
		over     = ctx.Done()
	)
	for {
		select {
		case grant := <-lock.Granted():
			c.granted(grant, lock.Valid)
			if c.doomed {
				strike = time.After(c.opt.hold / 2)
			} else {
				finished = time.After(c.opt.hold)
			}

		case lost := <-lock.Lost():
			finished, strike = nil, nil
			c.lost(lost)

		case <-finished:
			c.stop() // first: from the Release on somebody else may hold it
			c.say(plain, "released", "its work is done")
			lock.Release()

		case <-lock.Done():
			select {
			case lost := <-lock.Lost(): // both were ready, and select takes any
				c.lost(lost)
			default:
			}
			if struck != nil {
				err = <-struck
			}
			return c.outcome(ctx, lock.Err(), err)

		case ev, ok := <-c.news:
			if !ok {
				c.news = nil // ctx has ended
			}
			c.report(ev)

		case <-strike:
			c.doomed = false
			c.book.condemn(c.name)
			c.say(warn, "struck", "somebody ends its session %#x", c.wire.session())
			struck = c.strike(ctx)

		case <-over:
			over = nil
			c.stop()
			lock.Release() // and wait for Done: then the node is gone
		}
	}
}

// outcome says what the end of an acquisition means to the contender.
func (c *contender) outcome(ctx context.Context, err, strikeErr error) (worked bool, _ error) {
	var lost *coordinator.LostError
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case strikeErr != nil:
		return false, strikeErr
	case errors.As(err, &lost):
		return false, nil
	case err != nil:
		return false, err
	default:
		return true, nil
	}
}

// granted starts the work.
func (c *contender) granted(grant events.Grant, valid func() bool) {
	c.holding = true
	c.book.enter(c.name, grant, valid)
	name, _ := events.ParseName(path.Base(grant.Node))
	c.say(good, "granted", "token %#x, number %d in the queue, waited %v", grant.Token, name.Seq, short(grant.Waited))
	c.standing()
}

// lost stops the work.
func (c *contender) lost(lost events.Lost) {
	c.stop()
	c.book.lose(c.name)
	c.say(bad, "LOST", "%v after %v; stops its work", lost.Reason, short(lost.Held))
}

// stop notes that the work has stopped.
func (c *contender) stop() {
	c.holding = false
	c.book.leave(c.name)
}

// strike ends the session from outside, and sends how that went.
func (c *contender) strike(ctx context.Context) <-chan error {
	answer := make(chan error, 1)
	go func() { // turn waits for the answer
		ctx, cancel := context.WithTimeout(ctx, c.opt.zk.Timeout)
		defer cancel()
		answer <- expire(ctx, &c.wire)
	}()
	return answer
}

// report prints what the coordinator has to tell besides the Grant and its end,
// which have channels of their own.
func (c *contender) report(ev events.Event) {
	switch ev := ev.(type) {
	case events.Queued:
		c.say(plain, "queued", "%d ahead", ev.Ahead)
		c.standing()
	case events.Requeued:
		c.say(warn, "requeued", "its place was lost")
	case events.Suspended:
		what := "no connection; keeps its place while the session lives"
		if c.holding {
			what = fmt.Sprintf("no connection; the lock is good for another %v", short(time.Until(ev.Deadline)))
		}
		c.say(warn, "suspended", "%s", what)
	case events.Resumed:
		c.say(warn, "resumed", "connected again, in the same session")
	case events.SessionExpired:
		c.say(bad, "expired", "session %#x is over", ev.Session)
	case events.Connected:
		c.say(plain, "connected", "session %#x at %s", ev.Session, ev.Server)
	default:
	}
}

// standing tells whoever started the contender that it is in the queue.
func (c *contender) standing() {
	if !c.queued {
		c.queued = true
		close(c.inQueue)
	}
}

func (c *contender) say(tone tone, what, format string, args ...any) {
	c.lines.add(tone, c.name, what, fmt.Sprintf(format, args...))
}

// short rounds a duration to what one wants to read.
func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
