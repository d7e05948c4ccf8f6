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

// canceling: a seat does not want its create any more.
type canceling struct {
	seat  *Seat
	epoch recipes.Epoch
}

func (m canceling) on(s *Session) { s.onCanceling(m.seat, m.epoch) }

// Open starts the news of the session that come after what it returns.
func (t *Seat) Open(post actors.Post) (opened recipes.Opened) {
	t.post = post
	t.session.mu.Lock()
	if v := &t.session.view; v.state == Connected {
		opened = recipes.Opened{Epoch: v.client.epoch, Session: v.client.link.Session()}
	}
	t.session.mu.Unlock()
	t.session.actor.Hand(seated{t, opened.Epoch})
	return opened
}

// Close ends the news, and the seat's watches.
func (t *Seat) Close() { t.session.actor.Post(unseated{t}) }

// Do makes a machine's request.
func (t *Seat) Do(request recipes.Effect) {
	switch e := request.(type) {
	case recipes.Create:
		t.Create(e)
	case recipes.Cancel:
		t.Cancel(e)
	case recipes.List:
		t.List(e)
	case recipes.Watch:
		t.Watch(e)
	case recipes.Advance:
		t.Advance(e)
	case recipes.Claim:
		t.Claim(e)
	case recipes.Survey:
		t.Survey(e)
	case recipes.Enter:
		t.Enter(e)
	case recipes.Delete:
		t.Delete(e)
	case recipes.Pause:
		t.Pause(e)
	case recipes.Discard:
		t.Discard(e)
	case recipes.Revoke:
		t.session.actor.Post(bounded{t, e.By})
	case recipes.Arm:
		t.requestFor(e.Node, e.Epoch, recipes.OpArm, func(_ *asked, c *client) (recipes.Input, error) { return c.arm(t, e) })
	case recipes.Rest:
		t.session.actor.Post(resting{t})
	}
}

// Create makes the node of a new attempt. If it follows a Delete at once, the two become one request: the delete is posted, and no other
// goroutine has handled it yet.
func (t *Seat) Create(e recipes.Create) {
	t.session.actor.Hand(&asked{seat: t, epoch: e.Epoch, op: recipes.OpCreate, guid: t.newGUID(e.Attempt), run: (*asked).create})
}

// Cancel takes back a Create that has not been sent.
func (t *Seat) Cancel(e recipes.Cancel) { t.session.actor.Hand(canceling{t, e.Epoch}) }

// List reads the directory.
func (t *Seat) List(e recipes.List) {
	t.mu.Lock()
	var id guid
	if t.attempt == e.Attempt && e.Attempt != 0 {
		id = t.guid
	}
	t.mu.Unlock()
	t.session.actor.Post(t.listing(e, id))
}

// Watch asks to be told when a node of the directory is gone. It replaces the Watch before it.
func (t *Seat) Watch(e recipes.Watch) {
	// This is noted here and not when the request is carried out: of two, the later counts.
	before := t.follow(t.at(e.Node))
	t.request(e.Epoch, recipes.OpWatch, func(_ *asked, c *client) (recipes.Input, error) {
		t.drop(c, before)
		return t.layout.watch(c, t, e)
	})
}

// Advance asks whether the seat's turn has come, now that the node it waited for is gone, and asks to be told when the next node is gone.
func (t *Seat) Advance(e recipes.Advance) {
	t.mu.Lock()
	var past int64
	if t.pred == below(t.dir, e.Past) {
		past = t.ahead
	}
	t.mu.Unlock()
	before := t.follow(below(t.dir, e.Next))
	r := &asked{seat: t, epoch: e.Epoch, op: recipes.OpAdvance, node: t.ownPath(e.Node)}
	r.run = func(r *asked, c *client) (recipes.Input, error) {
		t.drop(c, before)
		return c.advance(t, e, past, r.warm)
	}
	if claim := (recipes.Claim{}); claim.Knowable(t.layout.form()) {
		r.known = func(c *client) recipes.Input { return c.advances(t, e) }
	}
	t.session.actor.Post(r)
}

// Claim proves that the own node exists and the session lives.
func (t *Seat) Claim(e recipes.Claim) {
	r := &asked{
		seat: t, epoch: e.Epoch, op: recipes.OpClaim, node: t.ownPath(e.Node), held: e.Held, joint: e.Joint(t.layout.form()),
	}
	r.run = func(r *asked, c *client) (recipes.Input, error) {
		if r.warm {
			return c.glance(r.node, e.Epoch)
		}
		return t.layout.claim(c, t, e)
	}
	if e.Knowable(t.layout.form()) {
		r.known = func(*client) recipes.Input {
			if t.passed {
				return nil
			}
			return recipes.Claimed{Epoch: e.Epoch}
		}
	}
	t.session.actor.Post(r)
}

// Delete removes the own node. If it leaves no floor, and removes nothing else, a Create may join it, which takes a moment to come; see
// Create.
func (t *Seat) Delete(e recipes.Delete) {
	r := &asked{seat: t, epoch: e.Epoch, op: recipes.OpDelete, node: t.ownPath(e.Node), floor: e.Floor, clean: e.Clean, run: (*asked).remove}
	if e.Floor || e.Clean {
		t.session.actor.Hand(r)
		// The goroutine of this request runs now, as a rule. Otherwise a loop may keep itself slow:
		//
		//  1. The caller asks for the lock again.
		//  2. The goroutine of that create runs first.
		//  3. The new node stands behind the old one, and waits.
		//  4. So the next delete leaves a floor, too.
		runtime.Gosched()
		return
	}
	t.session.actor.Post(r)
}

// Discard removes a node in any later session, and tries until the node is known to be gone or a server refuses. If another node may have
// its name by then, Discard removes nothing: the node went with its session.
func (t *Seat) Discard(e recipes.Discard) {
	if !t.layout.removable() {
		return
	}
	for _, node := range t.nodes(t.at(e.Node)) {
		t.session.actor.Post(&removal{node: node, load: budget.Node(len(path.Dir(node)), len(node))})
	}
}

// Deadline returns until when the epoch's session can be believed alive, in the terms of time.Now. The answer is good for the moment: if
// the machine is suspended, time.Now stands still and a later answer is earlier.
func (t *Seat) Deadline(epoch recipes.Epoch) time.Time { return t.session.deadline(epoch) }

func (t *Seat) request(epoch recipes.Epoch, op recipes.Op, run func(*asked, *client) (recipes.Input, error)) {
	t.session.actor.Post(&asked{seat: t, epoch: epoch, op: op, run: run})
}

// requestFor is request for one that may end in a grant of the own node.
func (t *Seat) requestFor(own string, epoch recipes.Epoch, op recipes.Op, run func(*asked, *client) (recipes.Input, error)) {
	t.session.actor.Post(&asked{seat: t, epoch: epoch, op: op, node: t.ownPath(own), run: run})
}

// Survey asks whether there is room.
func (t *Seat) Survey(e recipes.Survey) {
	survey := func(_ *asked, c *client) (recipes.Input, error) { return c.survey(t, e) }
	if e.Node == "" {
		t.request(e.Epoch, recipes.OpSurvey, survey)
		return
	}
	t.requestFor(e.Node, e.Epoch, recipes.OpSurvey, survey)
}

// Enter trades the place in the queue for the permits.
func (t *Seat) Enter(e recipes.Enter) {
	t.mu.Lock()
	id := t.guid
	t.mu.Unlock()
	t.requestFor(e.Node, e.Epoch, recipes.OpEnter, func(_ *asked, c *client) (recipes.Input, error) {
		in, err := c.enter(t, e, id)
		if _, entered := in.(recipes.Entered); entered {
			c.renewBehind(t, []string{t.at(e.Node)})
		}
		return in, err
	})
}

// Pause posts Paused after the given time, or after a random time, or when an idle node would have gone. It needs no connection.
func (t *Seat) Pause(e recipes.Pause) {
	if e.For > 0 {
		t.session.actor.Post(delayed{t, e})
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

// onCanceling answers for a create that was not sent. If it was sent, its answer comes by itself, and says what there is to delete.
func (s *Session) onCanceling(t *Seat, epoch recipes.Epoch) {
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

// listing returns a list request that looks for the attempt with the id.
func (t *Seat) listing(e recipes.List, id guid) *asked {
	dirs := t.layout.reads(t)
	r := &asked{seat: t, epoch: e.Epoch, op: recipes.OpList, wants: &wanted{dirs: dirs, barrier: e.Barrier && len(dirs) > 0}}
	r.run = func(r *asked, c *client) (recipes.Input, error) { return t.layout.list(c, t, e, id, r.wants.found) }
	return r
}
