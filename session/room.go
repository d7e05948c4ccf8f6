package session

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/budget"
)

// This file is about the budget of the session's nodes, see [DefaultNodeBudget].
//
// A seat takes room for all of its nodes with its first request, and returns it when it
// is unseated: by then its machine knows that no node is left. If a server has refused to
// delete a node, it counts until the session ends.
//
// A request that finds no room is refused at once. Exception: it waits while nodes of the
// session go without any user's doing, and it fits when they are gone. Those are idle
// nodes of cached locks, which are given up for it, and the rest of a place in the queue
// that was lost in part.

// seeker is a request that may need room.
type seeker interface {
	request
	// load is the room that it needs, beside what it has.
	load(s *Session) budget.Load
	// enter continues with the request. There is room, and it takes that.
	enter(s *Session)
	// full refuses the request.
	full(s *Session, err error)
}

// roomRequest is a request that waits for room.
type roomRequest struct {
	seeker

	need budget.Load
}

// seek finds room for a request.
func (s *Session) seek(r seeker) {
	need := r.load(s)
	if s.budget.Fits(need) && (len(s.roomless) == 0 || need == budget.Load{}) {
		r.enter(s)
		return
	}
	all := s.waiting.Plus(need)
	for !s.budget.WillFit(all) && s.giveUp() {
	}
	if !s.budget.WillFit(all) {
		r.full(s, s.fullness(need))
		return
	}
	s.roomless, s.waiting = append(s.roomless, roomRequest{r, need}), all
}

// giveUp gives up the idle node of a cached lock. It reports false if there is none.
func (s *Session) giveUp() bool {
	if s.cfg.GiveUp == nil {
		return false
	}
	t := s.cfg.GiveUp()
	if t != nil && t.counts && !t.leaving {
		t.leaving = true
		s.budget.Leaving(t.load())
	}
	return t != nil
}

// roomMade continues with the requests that wait for room, in order. If nodes stay that
// were to go, it finds out for each request whether it may still wait.
func (s *Session) roomMade() {
	s.showFill()
	for len(s.roomless) > 0 && s.budget.Fits(s.roomless[0].need) {
		first := s.roomless[0]
		s.roomless, s.waiting = s.roomless[1:], s.waiting.Minus(first.need)
		first.enter(s)
	}
	if len(s.roomless) > 0 && !s.budget.WillFit(s.waiting) {
		all := s.roomless
		s.roomless, s.waiting = nil, budget.Load{}
		for _, r := range all {
			s.seek(r.seeker)
		}
	}
}

// unpark takes the requests for which out returns true out of those that wait for room,
// and returns them.
func (s *Session) unpark(out func(request) bool) (taken []request) {
	var left []roomRequest
	for _, r := range s.roomless {
		if out(r.seeker) {
			taken = append(taken, r.seeker)
			s.waiting = s.waiting.Minus(r.need)
		} else {
			left = append(left, r)
		}
	}
	s.roomless = left
	return taken
}

func (s *Session) fullness(need budget.Load) error {
	used := s.budget.Used
	if need.Bytes > s.budget.Limit() {
		return fmt.Errorf("%w: one request needs %d bytes for its nodes, and the budget is %d: "+
			"request less, or raise WithNodeBudget as far as the servers can read", ErrSessionFull, need.Bytes, s.budget.Limit())
	}
	return fmt.Errorf("%w: its %d nodes take %d of %d bytes, and this acquisition needs %d more: "+
		"release locks, spread them over several coordinators, or raise WithNodeBudget as far as the servers can read",
		ErrSessionFull, used.Nodes, used.Bytes, s.budget.Limit(), need.Bytes)
}

// Fill reports how much of the budget is used.
type Fill struct{ Nodes, Bytes, Budget int }

// Fill returns how much of the budget is used.
func (s *Session) Fill() Fill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.fill
}

// showFill publishes how much of the budget is used, if that has changed.
func (s *Session) showFill() {
	used := s.budget.Used
	fill := Fill{int(used.Nodes), int(used.Bytes), s.cfg.NodeBudget}
	s.mu.Lock()
	changed := s.view.fill != fill
	s.view.fill = fill
	s.mu.Unlock()
	if changed && s.cfg.OnFill != nil {
		s.cfg.OnFill(fill)
	}
}

// overfull reports whether an option has made the budget so large, and the session has so
// many nodes, that its end is more than the default budget allows. Then as many nodes are
// deleted first.
func (s *Session) overfull() bool {
	c := s.client
	return c != nil && c.phase.Load() == phaseUp && s.budget.Used.Bytes > DefaultNodeBudget
}

var _, _ seeker = (*seatRequest)(nil), (*callRequest)(nil)

func (r *seatRequest) load(*Session) budget.Load {
	if r.seat.counts {
		return budget.Load{}
	}
	return r.seat.load()
}

func (r *seatRequest) full(s *Session, err error) {
	s.cfg.Logger.Warn("session full; acquisition refused", zap.String("path", r.seat.path()), zap.Error(err))
	r.seat.unsent = nil
	r.seat.answer(recipes.Refused{Epoch: r.epoch, Op: r.op}, err)
}

// uncount returns the room of a seat. kept says that its nodes stay until the session
// ends.
func (s *Session) uncount(t *Seat, kept bool) {
	if !t.counts {
		return
	}
	l := t.load()
	if kept {
		s.budget.Keep(l, t.leaving)
	} else {
		s.budget.Return(l, t.leaving)
	}
	t.counts, t.leaving = false, false
	s.roomMade()
}

func (r *callRequest) load(s *Session) budget.Load { return s.nodes.Load(r.txn.ops) }

func (r *callRequest) enter(s *Session) {
	r.txn.begun = s.nodes.Begin(&s.budget, r.txn.ops)
	s.showFill()
	s.pending.add(r)
}

func (r *callRequest) full(s *Session, err error) {
	r.outcome <- err
	r.ends(s)
}
