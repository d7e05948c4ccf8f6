package session

import (
	"math/rand/v2"
	"path"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/budget"
)

// This file is about what a seat does for its machine.

// Open starts the news of the session, which continue from what it returns.
func (t *Seat) Open(post actors.Post) recipes.Opened {
	t.post = post
	return t.session.seat(t)
}

// Close stops the news and the seat's watches.
func (t *Seat) Close() { t.session.leave(t) }

// Do makes a machine's request.
func (t *Seat) Do(request recipes.Effect) {
	s := t.session
	switch e := request.(type) {
	case recipes.Cancel:
		s.cancel(t, e.Epoch)
	case recipes.Pause:
		t.pause(e)
	case recipes.Discard:
		t.discard(e)
	case recipes.Revoke:
		s.startDeadline(t, e.By)
	case recipes.Warm:
		s.warm(t)
	case recipes.Rest:
		s.endHold(t)
	default:
		s.take(t.ask(e))
	}
}

// ask returns the request of a machine. What its answer depends on is noted now, and not
// when the request is carried out: of two watches, for one, the later counts.
func (t *Seat) ask(effect recipes.Effect) *seatRequest {
	r := &seatRequest{seat: t, effect: effect}
	var own events.Name
	if r.op, r.epoch, own = recipes.Requested(effect); own.Text != "" {
		r.node = t.ownPath(own)
	}
	switch e := effect.(type) {
	case recipes.Create:
		if e.Back.Text != "" {
			_, r.guid = t.attempted()
			break
		}
		permits := int32(0)
		if t.permits != nil {
			permits = t.permits.wanted
		}
		r.guid = newGUID(t.marks, permits)
		t.mu.Lock()
		t.attempt, t.guid = e.Attempt, r.guid
		if t.several != nil {
			t.several.nodes = nil // they were of the attempt before
		}
		t.mu.Unlock()
	case recipes.List:
		if latest, id := t.attempted(); e.Attempt == latest && latest != 0 {
			r.guid = id
		}
		dirs := t.listedDirs()
		r.wants = &listNeeds{dirs: dirs, barrier: e.Barrier && len(dirs) > 0}
	case recipes.Watch:
		r.before = t.follow(t.at(e.Node))
	case recipes.Advance:
		r.past = t.sawAhead(t.at(e.Past))
		r.before = t.follow(t.at(e.Next))
	case recipes.Enter:
		_, r.guid = t.attempted()
	}
	return r
}

// discard removes a node in any later session, and tries until the node is known to be
// gone or a server refuses. If another node may have its name by then, discard removes
// nothing: the node went with its session.
func (t *Seat) discard(e recipes.Discard) {
	if t.single != nil {
		return
	}
	for _, node := range t.nodes(t.at(e.Node)) {
		t.session.take(&removal{node: node, load: budget.Node(len(path.Dir(node)), len(node))})
	}
}

// Deadline returns until when the epoch's session counts as alive, in terms of time.Now.
// The answer is valid for the moment: if the machine is suspended, time.Now stands still,
// and a later answer is earlier.
func (t *Seat) Deadline(epoch recipes.Epoch) time.Time { return t.session.deadline(epoch) }

// pause posts Paused after the given time, or after a random time, or when an idle node
// would have gone. It needs no connection.
func (t *Seat) pause(e recipes.Pause) {
	if e.For > 0 {
		t.session.delay(t, e)
		return
	}
	wait := rand.N(pauseBound(e.Attempt))
	if e.Yield {
		wait = t.session.yieldTime()
	}
	time.AfterFunc(wait, func() {
		t.answer(recipes.Paused{Epoch: e.Epoch}, nil)
	})
}

// pauseBound returns the bound. The first create came too late for every waiter.
func pauseBound(attempt recipes.Attempt) time.Duration {
	bound := firstPause
	for ; attempt > 1 && bound < lastPause; attempt-- {
		bound *= 2
	}
	return bound
}

// The pauses of the waiters for one node take any time up to a bound. The bound doubles
// with each create that came too late, from the first to the last. When it has grown, few
// of many waiters come back within a round trip of each other.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 320 * time.Millisecond
)

// cancel answers for a create that was not sent. If it was sent, its answer comes by
// itself, and says what there is to delete.
func (s *Session) cancel(t *Seat, epoch recipes.Epoch) {
	if r := t.unsent; r == nil || r.op != recipes.OpCreate || r.epoch != epoch {
		t.withdrawn.Store(uint32(epoch))
		return
	}
	s.unsend(t)
	s.noteNodeGone(t)
	t.answer(recipes.Canceled{Epoch: epoch}, nil)
}

// unsend removes the seat's request that waits to be sent. A delete, however, is sent
// in any case, because there is a node. Nothing else may stay: a caller may try for a
// lock again and again while no server can be reached.
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
