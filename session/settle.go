package session

import (
	"strings"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is the way of an answer back to the machine.

// settle passes the answer on.
func (r *asked) settle(s *Session, c *client, in recipes.Input, err error) {
	if in == nil {
		return
	}
	r.log(c, in, err)
	if c.outdated && !lasts(in) {
		r.seat.post(recipes.Unknown{Epoch: r.epoch, Op: r.op}, err)
		return
	}
	switch in := in.(type) {
	case recipes.Claimed, recipes.Created, recipes.Enqueued, recipes.Advanced, recipes.Entered:
		s.prove(c, r, in)
	case recipes.Listed:
		if in.Own.Token != 0 {
			s.noteOwn(c, r.seat)
		}
		r.seat.post(in, err)
		c.remind(r.seat, in.Own.Name.Text)
	case recipes.Refused:
		if r.op == recipes.OpClaim && in.Missing && c == s.client && s.holders[r.seat] == r.node {
			s.lostNode(c, r.seat)
		}
		r.seat.post(in, err)
	case recipes.Unknown:
		if !c.up {
			r.seat.post(in, err)
			return
		}
		// Whoever is told makes the request again at once.
		afterPause(func() { r.seat.post(in, err) })
	case recipes.Gone:
		if !s.isPast(c, r.seat) {
			r.seat.passed = true
			r.seat.post(in, err)
		}
	default:
		r.seat.post(in, err)
	}
}

// log says what nobody else may hear: a refused delete leaves a node that blocks
// others until the session ends.
func (r *asked) log(c *client, in recipes.Input, err error) {
	if err == nil {
		return
	}
	level, what := zap.DebugLevel, "request failed"
	if _, refused := in.(recipes.Refused); refused {
		level, what = zap.WarnLevel, "request refused"
		if r.op == recipes.OpDelete {
			level, what = zap.ErrorLevel, "could not remove a node; it stays until the session ends"
		}
	}
	c.logger.Log(level, what, zap.Stringer("request", r.op), zap.String("path", strings.TrimPrefix(r.seat.dir, r.seat.session.chroot)), zap.Error(err))
}

// lasts tells whether what the answer says stays true. The others may come on one connection, and reach the session behind the news of the
// next one, because the goroutine of the request was not scheduled in between:
//
//  1. A create is answered: nobody else is in the queue. A claim is answered: the node is there.
//  2. The connection is lost, and somebody removes the node.
//  3. The session is resumed. All are told, and verify what they know.
//  4. Only now the answer of 1 is settled. It was right, and nobody would verify it any more.
//
// So the session counts its connections, and an answer that was asked for on an earlier one is as good as lost: the machine is told
// Unknown, and asks again. Answers that stay true pass. An answer that comes before 3 passes, too: it is verified by what follows.
func lasts(in recipes.Input) bool {
	switch in.(type) {
	case recipes.Refused, recipes.Deleted, recipes.Gone, recipes.Occupied:
		return true
	default:
		return false
	}
}
