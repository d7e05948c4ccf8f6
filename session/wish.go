package session

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about holders that receive a revocation request, in their nodes' data (see
// node.go). The side that makes the request is in revoke.go.
//
// The grace starts when this process reads the request, by its own clock, and no clock is
// compared with another one. It starts once. The same request is read again whenever the
// node's watch is armed again. Callers that enter the lock again receive it, too, with no
// more time than the first. A holder that is not revocable, as its node says (see
// [events.MarkRevocable]), only receives the request.

// asking is a revocation request that was read.
type asking struct {
	czxid int64          // of the node that was read
	by    recipes.Moment // the earliest deadline that was read; 0: none
}

// onNodeData takes the data that a read returned when it armed the node's watch, and
// reports a revocation request in them.
func (c *client) onNodeData(node string, data []byte, stat *zk.Stat) {
	w, _ := read(data)
	if !w.stands {
		c.watches.Unnote(node)
		return
	}
	var by recipes.Moment
	if marks, ours := events.MarksOf(node); w.bounded && ours && marks&events.MarkRevocable != 0 {
		by = actors.MomentOf(time.Now().Add(w.grace))
	}
	c.askedBack(node, asking{czxid: stat.Czxid, by: c.wish(node, by)})
}

// wish notes that the lock is requested, and its deadline, from the read that armed the
// watch. If the watch has fired since, another read follows. It returns the earliest
// deadline of this and earlier reads; 0 is none.
func (c *client) wish(node string, by recipes.Moment) recipes.Moment {
	return c.watches.Note(node, func(before recipes.Moment) recipes.Moment {
		if before != 0 && (by == 0 || before < by) {
			return before
		}
		return by
	})
}

// requestIn reports whether a revocation request is known in any of the nodes, and its
// deadline.
func (c *client) requestIn(nodes ...string) (by recipes.Moment, wished bool) {
	for _, node := range nodes {
		asked, stands := c.watches.Noted(node)
		wished = wished || stands
		if stands && asked != 0 && (by == 0 || asked < by) {
			by = asked
		}
	}
	return by, wished
}

// repeatRequest repeats a revocation request for a seat that could not recognize it as
// its own before, and that no later read will repeat. This happens in two ways.
//
// The machine did not know its node:
//
//  1. The reply to a create is lost.
//  2. The lock is requested by a revocation.
//  3. The search for the GUID finds the node and the request.
//  4. The machine receives the request before it knows which node is its own.
//
// Another seat of the session watched the node:
//
//  1. A is granted in one request, and its node is not watched yet.
//  2. The lock is requested by a revocation.
//  3. B, which waits for A, watches the node, and receives the request.
//  4. A finds the node watched, and does not read it.
//
// A seat that receives the request twice ignores the second one.
func (s *Session) repeatRequest(c *client, seat *Seat, own events.Name) {
	if own.Text == "" {
		return
	}
	if by, wished := c.requestIn(seat.nodes(seat.at(own))...); wished {
		s.tell(seat, recipes.AskedBack{Epoch: c.epoch, Node: own, By: by}, nil)
	}
}

// askBack passes the request on to the subscribers of the node; those that own it take it
// as theirs. No request is missed that is in the node when the watch is armed again: the
// data are read whenever the watch is armed, and a change of them fires it. A watch that
// fires for a change of data says nothing about the end of the node.
//
// The one node of a lock may be another one by the time that this is delivered: czxid
// says which one was read.
func (s *Session) askBack(c *client, node string, wish asking) {
	for _, seat := range c.watches.Subscribers(node) {
		if seat.single != nil && seat.token(node) != wish.czxid {
			continue
		}
		s.tell(seat, recipes.AskedBack{Epoch: c.epoch, Node: seat.name(node), By: wish.by}, nil)
	}
}

// startDeadline starts the timer of a holder with a deadline. When it fires, the lock is
// lost: as with every loss, the session knows before the holder does, and no reader takes
// its place after that. The deadline is the earliest so far.
func (s *Session) startDeadline(seat *Seat, by recipes.Moment) {
	s.stopDeadline(seat)
	at := actors.TimeOf(by)
	overdue := func() {
		s.tell(seat, recipes.Overdue{By: by}, nil)
	}
	s.deadlines[seat] = deadline{at, time.AfterFunc(time.Until(at), func() { s.loop.Post(overdue) })}
}

// stopDeadline stops the timer of a seat.
func (s *Session) stopDeadline(seat *Seat) {
	if d, ok := s.deadlines[seat]; ok {
		d.timer.Stop()
		delete(s.deadlines, seat)
	}
}
