package session

import (
	"path"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about the way of a machine's request into the queue, and out of it.

var _ request = (*seatRequest)(nil)

// admit refuses the request, or has it made when there is room for the seat's nodes.
func (r *seatRequest) admit(s *Session) {
	t := r.seat
	if (t.in != nil || t.traded) && !s.mayTakePlace(r) {
		t.answer(recipes.Refused{Epoch: r.epoch, Op: r.op, Missing: true}, ErrGuard)
		return
	}
	s.noteRequest(r)
	if (r.op == recipes.OpClaim || r.op == recipes.OpAdvance) && s.isKnown(r) {
		return
	}
	if r.op == recipes.OpDelete {
		// The caller of Release continues before the request is made. It may ask for the
		// lock again at once, and then both are one request, or the new one is known to
		// stand behind the old one.
		s.loop.Yield()
		r.enter(s)
		return
	}
	t.unsent = r
	if r.op == recipes.OpCreate || !t.counts {
		s.seek(r)
		return
	}
	r.enter(s)
}

// enter takes the room that the seat's nodes need, unless they have it, and has the
// request made, by itself or together with another one.
func (r *seatRequest) enter(s *Session) {
	t := r.seat
	if !t.counts && r.op != recipes.OpDelete { // a node that is to go takes no more room
		t.counts = true
		s.budget.Take(t.load())
		s.showFill()
	}
	if r.wants != nil && s.reads(r) || t.single != nil && t.single.keeps(r) {
		return
	}
	var made request = r
	if r.op == recipes.OpDelete || r.op == recipes.OpCreate && s.leaving[t.dir] != nil {
		made = s.paired(r)
	}
	if made != nil {
		s.pending.add(made)
	}
}

// begins judges the warmth once more: the request may have waited for another connection.
func (r *seatRequest) begins(s *Session) {
	if r.seat.unsent == r {
		r.seat.unsent = nil
	}
	r.warm = r.op == recipes.OpAdvance && r.knowable() && s.warmth(s.client, r).Claims()
}

func (r *seatRequest) do(c *client) (func(*Session), error) {
	if r.wants != nil && r.wants.barrier {
		return r.doBarrier(c)
	}
	in, err := r.run(c)
	return func(s *Session) { r.settle(s, c, in, err) }, err
}

// run makes the client's blocking calls, in a goroutine of its own. It returns the answer
// for the machine; nil is no answer.
func (r *seatRequest) run(c *client) (in recipes.Input, err error) {
	t := r.seat
	switch e := r.effect.(type) {
	case recipes.Create:
		in, err = c.create(t, e, r.guid)
	case recipes.List:
		switch {
		case t.single != nil:
			in, err = c.look(t, e)
		case t.permits != nil:
			return c.listSemaphore(t, e, r.guid, r.wants.found[0])
		case t.members != nil:
			return c.listMembers(t, e, r.guid, r.wants.found)
		default:
			return c.list(t, e, r.guid, r.wants.found[0])
		}
	case recipes.Watch:
		t.drop(c, r.before)
		if t.single != nil && c.watches.Subscribed(t.single.node, t) {
			return nil, nil // the watch of the look before is still armed
		}
		return c.watch(t, e)
	case recipes.Claim:
		in, err = c.claim(t, e)
	case recipes.Advance:
		t.drop(c, r.before)
		return c.advance(t, e, r.past, r.warm)
	case recipes.Survey:
		return c.survey(t, e)
	case recipes.Enter:
		in, err = c.enter(t, e, r.guid)
		if _, entered := in.(recipes.Entered); entered {
			c.renewBehind(t, []string{t.at(e.Node)})
		}
	case recipes.Delete:
		nodes := t.nodes(r.node)
		in, err = c.remove(t, e, nodes)
		if _, gone := in.(recipes.Deleted); gone {
			if t.permits != nil {
				c.permitsLeft(t, nodes)
			}
			c.renewBehind(t, nodes)
		}
	case recipes.Arm:
		return c.arm(t, e)
	}
	if t.single != nil {
		c.owners.heard(t, in) // before any machine receives the answer
	}
	return in, err
}

// paired takes a delete or a create that is to be parked, and returns what to park for
// it. It returns nil if a create has joined a delete that is parked.
func (s *Session) paired(r *seatRequest) request {
	t := r.seat
	leave, _ := r.effect.(recipes.Delete)
	create, _ := r.effect.(recipes.Create)
	x := recipes.Errand{Op: r.op, Layout: t.layout, Floor: leave.Floor, Clean: leave.Clean}
	v := recipes.View{Brief: t.brief}
	switch {
	case t.members != nil:
		v = s.client.viewOfMembers(t, MaxRequest/2) // the deletes take less than the creates
	case r.op == recipes.OpCreate:
		v.Dir = s.client.dirs.book(t.dir)
	}
	switch {
	case x.Leads(v) && (path.Dir(r.node) == t.dir || t.permits != nil) && !events.Late(r.node):
		made := &turnover{leave: r}
		s.leaving[t.dir] = made
		return made
	case x.Follows(v) && create.Back.Text == "": // it deletes no permits itself
		if joined := s.leaving[t.dir]; joined != nil && joined.leave.epoch == r.epoch {
			joined.enter, r.with = r, joined
			delete(s.leaving, t.dir)
			return nil
		}
	}
	return r
}
