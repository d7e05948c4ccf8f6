package session

import (
	"fmt"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/budget"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
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
	used := s.budget.Used()
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
	used := s.budget.Used()
	fill := Fill{int(used.Nodes), int(used.Bytes), s.cfg.NodeBudget}
	s.mu.Lock()
	changed := s.view.fill != fill
	s.view.fill = fill
	s.mu.Unlock()
	if changed && s.cfg.OnFill != nil {
		s.cfg.OnFill(fill)
	}
}

// nextBudget begins the budget of the next session.
func (s *Session) nextBudget() {
	s.budget.Next()
	s.nodes.Next()
	s.roomMade()
}

// overfull reports whether an option has made the budget so large, and the session has so
// many nodes, that its end is more than the default budget allows. Then as many nodes are
// deleted first.
func (s *Session) overfull() bool {
	c := s.client
	return c != nil && c.is(phaseUp) && s.budget.Used().Bytes > DefaultNodeBudget
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

// contender is the load of a contender's node in a queue. dir is the lock's path, and
// below is the length of what is between it and the node's name.
func contender(dir string, below int, kind events.Kind) budget.Load {
	const guid, digits, slash = len(guidMark) + 37, 10, 1
	return budget.Node(len(dir), len(dir)+below+slash+guid+len(kind.Marker())+digits)
}

// txn is what a user's transaction does to ephemeral nodes of the session.
type txn struct {
	ops     []budget.Op
	indexes []int // of the numbered creates among the operations
	begun   *budget.Transaction
	outcome zkerr.Outcome // 0: it was not sent
	made    []string      // the paths of the numbered nodes
}

// newTxn returns nil for a transaction that neither creates an ephemeral node nor deletes
// a node.
func newTxn(operations []any) *txn {
	x := &txn{}
	for i, op := range operations {
		switch o := op.(type) {
		case *zk.CreateRequest:
			if o.Flags&zk.FlagEphemeral == 0 {
				continue
			}
			numbers := o.Flags&zk.FlagSequence != 0
			if numbers {
				x.indexes = append(x.indexes, i)
			}
			x.ops = append(x.ops, budget.Op{Path: o.Path, Creates: true, Numbers: numbers})
		case *zk.DeleteRequest:
			x.ops = append(x.ops, budget.Op{Path: o.Path, Deletes: true})
		}
	}
	if x.ops == nil {
		return nil
	}
	return x
}

// answered takes the outcome. It is called in the request's goroutine.
func (x *txn) answered(responses []zk.MultiResponse, err error) {
	if x == nil {
		return
	}
	x.outcome, _ = zkerr.Classify(err)
	for _, i := range x.indexes {
		if x.outcome == zkerr.Done && i < len(responses) {
			x.made = append(x.made, responses[i].String)
		}
	}
}

// end takes note of what is left of the transaction, when no more is learned of it. A
// caller may give up while the transaction is on its way: then both of them end it.
func (x *txn) end(s *Session) {
	begun := x.begun
	x.begun = nil
	s.nodes.End(&s.budget, begun, x.outcome, x.made)
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
