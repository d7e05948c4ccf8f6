package session

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about the last flights of a session that has more nodes than its end may
// list, see [Session.Quiesce]. Its deletes go together, many in a transaction: the
// session has little time left.

// mostDeletes and mostDeleted bound the deletes of one transaction, in nodes and in
// bytes.
const (
	mostDeletes = 128
	mostDeleted = 64 << 10
)

// jointDelete is the deletes of several nodes, in one transaction.
type jointDelete struct {
	slot

	of    []*seatRequest
	nodes [][]string // of each
	count int        // of them together
	bytes int
}

var (
	_ request  = (*jointDelete)(nil)
	_ gatherer = (*turnover)(nil)
)

// add takes a delete in, unless a create has joined it or there is no room.
func (j *jointDelete) add(x *turnover) bool {
	const each = 32 // more than what a delete takes beside its path
	nodes := x.leave.seat.nodes(x.leave.node)
	bytes := len(nodes) * (each + len(x.leave.node))
	full := len(j.of) > 0 && (j.count+len(nodes) > mostDeletes || j.bytes+bytes > mostDeleted)
	if x.enter != nil || full {
		return false
	}
	j.of, j.nodes = append(j.of, x.leave), append(j.nodes, nodes)
	j.count, j.bytes = j.count+len(nodes), j.bytes+bytes
	return true
}

// gather takes along the deletes that wait behind this one, if the session ends and has
// too many nodes.
func (x *turnover) gather(s *Session) request {
	joint := &jointDelete{}
	if s.quiet == nil || !s.overfull() || !joint.add(x) {
		return x
	}
	for {
		next, ok := s.pending.first(handing).(*turnover)
		if !ok || next.meantFor() != x.meantFor() || !joint.add(next) {
			return joint
		}
		s.pending.remove(next)
		next.begins(s)
	}
}

func (j *jointDelete) admit(s *Session) { s.pending.add(j) }

func (j *jointDelete) meantFor() recipes.Epoch { return j.of[0].epoch }

func (j *jointDelete) urgency() urgency { return handing }

func (j *jointDelete) refuse() {
	for _, r := range j.of {
		r.refuse()
	}
}

// do makes the transaction. If a server refuses it, one of the nodes is gone or may not
// be deleted. Then each delete is made by itself.
func (j *jointDelete) do(c *client) (func(*Session), error) {
	ops := make([]any, 0, j.count)
	for _, nodes := range j.nodes {
		for _, node := range nodes {
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
