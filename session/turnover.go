package session

import (
	"errors"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file makes turnovers, see [recipes.Errand.Leads].

// turnover is the delete of a node. If a create of another seat in the same directory
// joins it while it is parked, both are one request.
type turnover struct {
	slot

	leave *seatRequest
	enter *seatRequest // nil: only the delete
}

var _ request = (*turnover)(nil)

func (x *turnover) admit(s *Session) { s.pending.add(x) }

// begins ends the time in which a create may join.
func (x *turnover) begins(s *Session) {
	if s.leaving[x.leave.seat.dir] == x {
		delete(s.leaving, x.leave.seat.dir)
	}
	if x.enter != nil {
		x.enter.begins(s)
		x.enter.with = nil // a create that is made again later goes by itself
	}
}

func (x *turnover) meantFor() recipes.Epoch { return x.leave.epoch }

func (x *turnover) urgency() urgency { return handing }

func (x *turnover) refuse() {
	x.leave.refuse()
	if x.enter != nil {
		x.enter.refuse()
	}
}

func (x *turnover) do(c *client) (func(*Session), error) {
	if x.enter == nil {
		return x.leave.do(c)
	}
	left, entered, err := c.turnOver(x)
	return func(s *Session) {
		x.leave.settle(s, c, left.in, left.err)
		x.enter.settle(s, c, entered.in, entered.err)
	}, err
}

// pairReply is the answer for a seat's machine, and its error.
type pairReply struct {
	in  recipes.Input
	err error
}

// turnOver makes the transaction. If a server refuses it, it was not executed at all.
// Then making the two requests one after the other finds out why.
func (c *client) turnOver(w *turnover) (left, entered pairReply, _ error) {
	old, next := w.leave, w.enter
	t := next.seat
	x := &recipes.Errand{
		Op: recipes.OpCreate, Epoch: next.epoch, Layout: t.layout, Dir: t.dir, Leavers: old.seat.nodes(old.node),
		Nodes: t.prefixes(next.guid), Data: t.dataIn(c),
	}
	if t.permits != nil {
		c.mayEnterAtOnce(t, x, next.guid)
	}
	v := c.view(t, x)
	if !x.Follows(v) {
		return c.oneByOne(w) // one transaction would not say more
	}
	p := x.Plan(v)
	a, err := c.perform(t, p)
	m := c.means(t, x, p, a)
	if m.Then == recipes.ThenApart {
		return c.oneByOne(w)
	}
	if _, counted := m.In.(recipes.Entered); !counted && a.Result == recipes.ResultDone && old.seat.permits != nil {
		c.permitsLeft(old.seat, x.Leavers)
	}
	entered.in, entered.err = m.In, t.explain(p, a, m.In, err)
	if left.in = x.Left(a); a.Result == recipes.ResultUnknown {
		left.err = err
	}
	return left, entered, left.err
}

func (c *client) oneByOne(x *turnover) (left, entered pairReply, _ error) {
	left.in, left.err = x.leave.run(c)
	entered.in, entered.err = x.enter.run(c)
	return left, entered, errors.Join(left.err, entered.err)
}
