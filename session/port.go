package session

import (
	"math/rand/v2"
	"path"
	"runtime"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/budget"
)

// This file is about what a seat does for its machine.

// Open starts the news of the session that come after what it returns.
func (t *Seat) Open(post actors.Post) (opened recipes.Opened) {
	t.post = post
	s := t.session
	if c := s.present(); c != nil && c.is(phaseUp) {
		opened = recipes.Opened{Epoch: c.epoch, Session: c.link.Session()}
	}
	s.actor.Hand(func() { s.seat(t, opened.Epoch) })
	return opened
}

// Close ends the news, and the seat's watches.
func (t *Seat) Close() { t.session.actor.Post(func() { t.session.leave(t) }) }

// Do makes a machine's request.
func (t *Seat) Do(request recipes.Effect) {
	s := t.session
	switch e := request.(type) {
	case recipes.Cancel:
		s.actor.Hand(func() { s.cancel(t, e.Epoch) })
	case recipes.Pause:
		t.pause(e)
	case recipes.Discard:
		t.discard(e)
	case recipes.Revoke:
		s.actor.Post(func() { s.bound(t, e.By) })
	case recipes.Rest:
		s.actor.Post(func() { s.ceased(t) })
	case recipes.Create:
		// If it follows a Delete at once, the two become one request: the delete is posted, and
		// no other goroutine has handled it yet.
		s.handOver(t.ask(e))
	case recipes.Delete:
		t.delete(e)
	default:
		s.submit(t.ask(e))
	}
}

// ask returns the request of a machine. What its answer depends on is noted now, and not when
// the request is carried out: of two watches, for one, the later counts.
func (t *Seat) ask(effect recipes.Effect) *asked {
	r := &asked{seat: t, effect: effect}
	var own string
	if r.op, r.epoch, own = recipes.Requested(effect); own != "" {
		r.node = t.ownPath(own)
	}
	switch e := effect.(type) {
	case recipes.Create:
		r.guid = t.newGUID(e.Attempt)
	case recipes.List:
		if latest, id := t.attempted(); e.Attempt == latest && latest != 0 {
			r.guid = id
		}
		dirs := t.layout.reads(t)
		r.wants = &wanted{dirs: dirs, barrier: e.Barrier && len(dirs) > 0}
	case recipes.Watch:
		r.before = t.follow(t.at(e.Node))
	case recipes.Advance:
		r.past = t.sawAhead(below(t.dir, e.Past))
		r.before = t.follow(below(t.dir, e.Next))
	case recipes.Enter:
		_, r.guid = t.attempted()
	}
	return r
}

// delete removes the own node. If it leaves no floor, and removes nothing else, a Create may join
// it, which takes a moment to come.
func (t *Seat) delete(e recipes.Delete) {
	r := t.ask(e)
	if !e.Floor && !e.Clean {
		t.session.submit(r)
		return
	}
	t.session.handOver(r)
	// The goroutine of this request runs now, as a rule. Otherwise a loop may keep itself slow:
	//
	//  1. The caller asks for the lock again.
	//  2. The goroutine of that create runs first.
	//  3. The new node stands behind the old one, and waits.
	//  4. So the next delete leaves a floor, too.
	runtime.Gosched()
}

// discard removes a node in any later session, and tries until the node is known to be gone or a
// server refuses. If another node may have its name by then, discard removes nothing: the node
// went with its session.
func (t *Seat) discard(e recipes.Discard) {
	if !t.layout.removable() {
		return
	}
	for _, node := range t.nodes(t.at(e.Node)) {
		t.session.submit(&removal{node: node, load: budget.Node(len(path.Dir(node)), len(node))})
	}
}

// Deadline returns until when the epoch's session can be believed alive, in the terms of time.Now. The answer is good for the moment: if
// the machine is suspended, time.Now stands still and a later answer is earlier.
func (t *Seat) Deadline(epoch recipes.Epoch) time.Time { return t.session.deadline(epoch) }

// pause posts Paused after the given time, or after a random time, or when an idle node would have gone. It needs no connection.
func (t *Seat) pause(e recipes.Pause) {
	if e.For > 0 {
		t.session.actor.Post(func() { t.session.delay(t, e) })
		return
	}
	wait := rand.N(pauseBound(e.Attempt))
	if e.Yield {
		wait = t.session.yieldTime()
	}
	time.AfterFunc(wait, func() { t.post(recipes.Paused{Epoch: e.Epoch}, nil) })
}

// pauseBound returns the bound. The first create came too late for every waiter.
func pauseBound(attempt recipes.Attempt) time.Duration {
	bound := firstPause
	for ; attempt > 1 && bound < lastPause; attempt-- {
		bound *= 2
	}
	return bound
}

// The pauses of the waiters for one node take any time up to a bound. The bound doubles with each create that came too late, from the first
// to the last. When it has grown, few of many waiters come back within a round trip of each other.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 320 * time.Millisecond
)

// cancel answers for a create that was not sent. If it was sent, its answer comes by itself, and says what there is to delete.
func (s *Session) cancel(t *Seat, epoch recipes.Epoch) {
	if r := t.unsent; r == nil || r.op != recipes.OpCreate || r.epoch != epoch {
		return
	}
	s.unsend(t)
	s.gaveUp(t)
	t.post(recipes.Canceled{Epoch: epoch}, nil)
}

// unsend takes out the seat's request that waits to be sent. Exception: a delete is sent in any case, because there is a node. Nothing else
// may stay: a caller may try for a lock again and again while no server can be reached.
func (s *Session) unsend(t *Seat) {
	r := t.unsent
	t.unsent = nil
	switch {
	case r == nil:
	case r.with == nil:
		s.wantsNothing(r)
		s.pending.remove(r)
		s.unpark(func(other request) bool { return other == r })
	default: // the delete goes by itself, and another create may join it
		r.with.enter = nil
		if s.leaving[t.dir] == nil {
			s.leaving[t.dir] = r.with
		}
	}
}
