package session

import (
	"errors"
	"path"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/budget"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file has the special ways to delete nodes: together with another seat's create
// (see [recipes.Delete.Leads]), many at once, in a later session, and along with their
// directory.

// pairReply is the answer for a seat's machine and its error.
type pairReply struct {
	in  recipes.Input
	err error
}

// turnOver sends a delete and the create that joined it, in one transaction.
func (c *client) turnOver(old, next *seatRequest) (left, entered pairReply, _ error) {
	t := next.seat
	x := &recipes.Errand{
		Op: recipes.OpCreate, Epoch: next.epoch, Layout: t.layout, Dir: t.dir,
		Leavers: old.seat.nodes(old.node),
		Nodes:   t.prefixes(next.guid), Data: t.dataIn(c),
	}
	if t.permits != nil {
		c.mayEnterAtOnce(t, x, next.guid)
	}
	v := c.view(t, x)
	if !(recipes.Create{}).Follows(t.layout, v) {
		return c.oneByOne(old, next) // a single transaction would not prove more
	}
	p := x.Plan(v)
	a, err := c.perform(t, p)
	m := c.means(t, x, p, a)
	// A refused transaction had no effect. The two requests, made one after the other,
	// show why.
	if m.Then == recipes.ThenApart {
		return c.oneByOne(old, next)
	}
	if _, counted := m.In.(recipes.Entered); !counted && a.Result == recipes.ResultDone &&
		old.seat.permits != nil {
		c.permitsLeft(old.seat, x.Leavers)
	}
	entered.in, entered.err = m.In, t.explain(p, a, m.In, err)
	if left.in = x.Left(a); a.Result == recipes.ResultUnknown {
		left.err = err
	}
	return left, entered, left.err
}

func (c *client) oneByOne(old, next *seatRequest) (left, entered pairReply, _ error) {
	left.in, left.err = old.run(c)
	entered.in, entered.err = next.run(c)
	return left, entered, errors.Join(left.err, entered.err)
}

// mostDeletes limits the nodes that one transaction deletes.
const mostDeletes = 128

// jointDelete is a transaction that deletes several nodes. It is for the last flights of
// a session that has more nodes than its end may list, and little time left; see
// [Session.Quiesce].
type jointDelete struct{ joint }

var _ joiner = (*jointDelete)(nil)

// add adds a delete that a create could have joined, if none has.
func (j *jointDelete) add(r *seatRequest) bool {
	return r.leads && r.with == nil && j.addNodes(r, r.seat.nodes(r.node), mostDeletes)
}

func (j *jointDelete) admit(s *Session) { s.pending.add(j) }

// do makes the transaction or, if a server refuses it, one request for each delete.
func (j *jointDelete) do(c *client) (func(*Session), error) {
	ops := make([]any, 0, j.count)
	for _, r := range j.of {
		for _, node := range r.nodes {
			ops = append(ops, &zk.DeleteRequest{Path: node, Version: anyVersion})
		}
	}
	outcome, _, err := zkerr.ClassifyMulti(c.conn.Multi(ops...))
	answers := make([]pairReply, len(j.of))
	for i, r := range j.of {
		switch {
		case outcome == zkerr.Done:
			answers[i].in = recipes.Deleted{Epoch: r.epoch}
		case !outcome.Settled():
			answers[i] = pairReply{recipes.Unknown{Epoch: r.epoch, Op: r.op}, err}
		default:
			// One of the nodes is gone or may not be deleted, but the other deletes must
			// still be made.
			answers[i].in, answers[i].err = r.run(c)
		}
	}
	var errs []error
	for _, a := range answers {
		errs = append(errs, a.err)
	}
	return func(s *Session) {
		for i, r := range j.of {
			r.settle(s, c, answers[i].in, answers[i].err)
		}
	}, errors.Join(errs...)
}

// removal deletes a node, in any epoch. It is repeated until its outcome is known.
type removal struct {
	slot

	node string
	debt budget.Debt // the node counts in the budget until it is known to be gone
}

// admit counts the node in the budget. It may belong to this session, and its seat may
// have queued up again with another node.
func (r *removal) admit(s *Session) {
	if r.debt == (budget.Debt{}) {
		r.debt = s.budget.Remove(budget.Node(len(path.Dir(r.node)), len(r.node)))
		s.showFill()
	}
	s.pending.add(r)
}

func (r *removal) do(c *client) (func(*Session), error) {
	outcome, err := zkerr.Classify(c.conn.Delete(r.node, anyVersion))
	gone := outcome == zkerr.Done || errors.Is(err, zk.ErrNoNode)
	if outcome.Settled() && !gone {
		c.logger.Error("could not delete a node that no acquisition uses", zap.String("node", r.node),
			zap.Error(err))
	}
	return func(s *Session) {
		if !outcome.Settled() {
			s.again(c, r)
			return
		}
		s.budget.Removed(r.debt, gone)
		s.roomMade()
	}, nil
}

// renewDirectory deletes a directory whose numbers are almost used up, together with the
// seat's node unless own is empty; see [recipes.Renewal]. It reports whether the
// directory was deleted. If not, nothing has changed or the outcome is unknown; the
// delete of the seat's node that follows finds out.
func (c *client) renewDirectory(t *Seat, dir, own string) bool {
	data, stat, err := c.conn.Get(dir)
	if err != nil {
		return false
	}
	p := recipes.Renewal{
		Dir: dir, Version: stat.Version, Data: recipes.ParseDirectoryData(data), Children: stat.NumChildren,
		Own: own, Stays: t.kind.Kazoo(),
	}.Plan()
	if len(p) == 0 {
		return false
	}
	a, _ := c.perform(t, p)
	if a.Result != recipes.ResultDone {
		return false
	}
	c.dirs.forget(dir)
	return true
}
