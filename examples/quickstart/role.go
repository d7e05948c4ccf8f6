package main

import (
	"context"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// role is what a contender plays besides contending: its work is to wait for a while, it tells what happens to it, and the
// session of one of them is ended while it works. Only the contender's goroutine calls its methods.
type role struct {
	name    string
	opt     options
	book    *ledger
	lines   *timeline
	doomed  bool          // its session will be ended while it works
	inQueue chan struct{} // closed when it stands in the queue
	fail    func(error)   // ends the play
	crew    *sync.WaitGroup

	play    context.Context // the whole, for the strike
	wire    sniffer         // knows the session's password, for expire
	news    <-chan events.Event
	done    <-chan time.Time // ready when the work is done; nil while there is none
	queued  bool             // inQueue is closed
	holding bool
	since   time.Time // when it was granted the lock
}

// options are how it connects.
func (r *role) options() []coordinator.Option {
	return []coordinator.Option{coordinator.WithSessionTimeout(r.opt.zk.Timeout), coordinator.WithDialer(r.wire.DialContext)}
}

// enter is its first appearance.
func (r *role) enter(ctx context.Context, c *coordinator.Coordinator) {
	r.book.arrive(r.name, c.SessionID())
	r.play, r.news = ctx, c.Events(ctx)
}

// start starts the work.
func (r *role) start(grant events.Grant, valid func() bool) {
	r.holding, r.since = true, time.Now()
	r.book.enter(r.name, grant, valid)
	name, _ := events.ParseName(path.Base(grant.Node))
	r.say(good, "granted", "token %#x, number %d in the queue, waited %v", grant.Token, name.Seq, short(grant.Waited))
	r.standing()
	if !r.doomed {
		r.done = time.After(r.opt.hold)
		return
	}
	r.doomed = false
	r.crew.Go(r.strike)
}

// strike ends the session from outside, in the middle of the work, which will not be done.
func (r *role) strike() {
	select {
	case <-time.After(r.opt.hold / 2):
	case <-r.play.Done():
		return
	}
	r.book.condemn(r.name)
	r.say(warn, "struck", "somebody ends its session %#x", r.wire.session())
	ctx, cancel := context.WithTimeout(r.play, r.opt.zk.Timeout)
	defer cancel()
	if err := expire(ctx, &r.wire); err != nil {
		r.fail(err)
	}
}

// finish tells that the work is done.
func (r *role) finish() {
	r.stop() // first: from the Release on somebody else may hold it
	r.say(plain, "released", "its work is done")
}

// stop ends the work, if it was started.
func (r *role) stop() {
	r.holding, r.done = false, nil
	r.book.leave(r.name)
}

// lost tells of a loss.
func (r *role) lost(reason events.Reason) {
	r.book.lose(r.name)
	r.say(bad, "LOST", "%v after %v; stops its work", reason, short(time.Since(r.since)))
}

// report tells what happens besides the Grant and its end, which have channels of their own.
func (r *role) report(ev events.Event) {
	switch ev := ev.(type) {
	case events.Queued:
		r.say(plain, "queued", "%d ahead", ev.Ahead)
		r.standing()
	case events.Requeued:
		r.say(warn, "requeued", "its place was lost")
	case events.Suspended:
		what := "no connection; keeps its place while the session lives"
		if r.holding {
			what = fmt.Sprintf("no connection; the lock is good for another %v", short(time.Until(ev.Deadline)))
		}
		r.say(warn, "suspended", "%s", what)
	case events.Resumed:
		r.say(warn, "resumed", "connected again, in the same session")
	case events.SessionExpired:
		r.say(bad, "expired", "session %#x is over", ev.Session)
	case events.Connected:
		r.say(plain, "connected", "session %#x at %s", ev.Session, ev.Server)
	default: // or nothing, the stream having ended with ctx
	}
}

// standing tells whoever started the contender that it is in the queue.
func (r *role) standing() {
	if !r.queued {
		r.queued = true
		close(r.inQueue)
	}
}

func (r *role) say(tone tone, what, format string, args ...any) {
	r.lines.add(tone, r.name, what, fmt.Sprintf(format, args...))
}

// short rounds a duration to what one wants to read.
func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
