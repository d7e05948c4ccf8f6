package session

import (
	"path"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is the way of a request of a machine's into the queue, and out of it.

var _ request = (*asked)(nil)

// on answers the request without a server, refuses it, or has it made: by itself, or with another one.
func (r *asked) on(s *Session) {
	if s.answerHere(r) {
		return
	}
	if !s.mayTakePlace(r) {
		r.seat.post(recipes.Refused{Epoch: r.epoch, Op: r.op, Missing: true}, ErrGuard)
		return
	}
	s.noteTenure(r)
	if r.op != recipes.OpDelete {
		r.seat.unsent = r
	}
	if s.reads(r) || r.seat.single.keeps(r) {
		return
	}
	if made := s.paired(r); made != nil {
		s.pending.add(made)
	}
}

func (r *asked) do(c *client) (func(*Session), error) {
	if r.wants != nil && r.wants.barrier {
		return r.doBarrier(c)
	}
	in, err := r.run(c)
	return func(s *Session) { r.settle(s, c, in, err) }, err
}

// paired takes a request that is to be parked, and returns what to park for it: nil
// if it has joined one that is.
func (s *Session) paired(r *asked) request {
	switch {
	case !r.seat.layout.turnsOver():
	case r.op == recipes.OpDelete && !r.floor && !r.clean && r.seat.brief() && path.Dir(r.node) == r.seat.dir:
		x := &turnover{leave: r}
		s.leaving[r.seat.dir] = x
		return x
	case r.op == recipes.OpCreate && r.seat.in == nil && r.seat.brief() && s.client.dirs.book(r.seat.dir).Markable() != 0:
		if x := s.leaving[r.seat.dir]; x != nil && x.leave.epoch == r.epoch {
			x.enter, r.with = r, x
			delete(s.leaving, r.seat.dir)
			return nil
		}
	}
	return r
}
