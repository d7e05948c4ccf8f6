package session

import (
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about the way of an answer back to the machine.

// settle passes the answer on.
func (r *seatRequest) settle(s *Session, c *client, in recipes.Input, err error) {
	if in == nil {
		return
	}
	if err != nil {
		r.log(c, in, err)
	}
	if c.outdated && !recipes.Lasts(in) {
		s.tell(r.seat, recipes.Unknown{Epoch: r.epoch, Op: r.op}, err)
		return
	}
	switch in := in.(type) {
	case recipes.Claimed, recipes.Created, recipes.Enqueued, recipes.Advanced, recipes.Entered:
		s.prove(c, r, in)
	case recipes.Listed:
		if in.Own.Token != 0 {
			s.noteOwn(c, r.seat)
			r.seat.listed = true
		}
		s.tell(r.seat, in, err)
		s.repeatRequest(c, r.seat, in.Own.Name)
	case recipes.Refused:
		if recipes.Disproves(in) && !c.isOver() && s.holders[r.seat] == r.node {
			c.owners.lost(r.seat)
			s.noteNodeGone(r.seat)
		}
		if r.op == recipes.OpDelete && !c.isOver() {
			s.uncount(r.seat, true)
		}
		s.tell(r.seat, in, err)
	case recipes.Unknown:
		if !c.is(phaseUp) {
			s.tell(r.seat, in, err)
			return
		}
		if r.op == recipes.OpCreate && r.seat.single == nil && zkerr.IsThrottled(err) {
			r.seat.unsent = r
			c.afterPause(func() {
				s.loop.Post(func() { s.makeAgain(r) })
			})
			return
		}
		// The machine repeats the request as soon as it receives the answer.
		c.afterPause(func() { s.loop.Post(func() { s.tell(r.seat, in, err) }) })
	case recipes.Gone:
		if !s.isPast(c, r.seat) {
			r.seat.passed = true
			s.tell(r.seat, in, err)
		}
	default:
		s.tell(r.seat, in, err)
	}
}

// makeAgain is for a create that was turned away, when its pause is over. Nothing was
// made, so the request is as good as one that was not sent: the machine need not look for
// the node, and a seat that is withdrawn meanwhile leaves nothing behind.
func (s *Session) makeAgain(r *seatRequest) {
	switch {
	case r.seat.unsent != r: // withdrawn
	case s.late(r):
		s.refuse(r)
	default:
		s.pending.add(r)
	}
}

// log logs why a request was not made. A refused delete is an error: the node blocks
// other contenders until the session ends.
func (r *seatRequest) log(c *client, in recipes.Input, err error) {
	level, what := zap.DebugLevel, "request failed"
	if _, refused := in.(recipes.Refused); refused {
		level, what = zap.WarnLevel, "request refused"
		if r.op == recipes.OpDelete {
			level, what = zap.ErrorLevel, "could not delete a node; it stays until the session ends"
		}
	}
	c.logger.Log(level, what, zap.Stringer("request", r.op), zap.String("path", r.seat.path()), zap.Error(err))
}
