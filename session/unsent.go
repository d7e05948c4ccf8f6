package session

import "github.com/zkgrant/zkgrant/recipes"

// This file is about requests that wait to be sent, and that nobody wants any more: nothing of them stays. A caller may try for a lock
// again and again while no server can be reached, and give each try up after a moment.

// waitsNoMore notes that a request is taken out of those that wait.
func (s *Session) waitsNoMore(r request) {
	s.unpair(r)
	a, _ := r.(*asked)
	if x, ok := r.(*turnover); ok {
		a = x.enter
	}
	if a != nil && a.seat.unsent == a {
		a.seat.unsent = nil
	}
}

// unsend takes out what the seat has asked for and waits to be sent. A delete is sent in any case, for there is a node.
func (s *Session) unsend(t *Seat) {
	r := t.unsent
	t.unsent = nil
	switch {
	case r == nil:
	case r.with == nil:
		s.wantsNothing(r)
		s.pending.remove(r)
	default: // the delete goes by itself, and another create may join it
		r.with.enter = nil
		if s.leaving[t.dir] == nil {
			s.leaving[t.dir] = r.with
		}
	}
}

// onCanceling answers for a create that was not sent. The answer to one that was comes by itself, and says what there is to delete.
func (s *Session) onCanceling(t *Seat, epoch recipes.Epoch) {
	if r := t.unsent; r == nil || r.op != recipes.OpCreate || r.epoch != epoch {
		return
	}
	s.unsend(t)
	s.gaveUp(t)
	t.post(recipes.Canceled{Epoch: epoch}, nil)
}

// drop takes a request out that nobody waits for any more.
func (s *Session) drop(r request) {
	s.pending.remove(r)
	s.unrest(r)
}
