package session

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about holders that are asked to give the lock back, by a wish in their
// nodes' data (see nodedata.go). The side that asks is in revoke.go.
//
// The grace runs from when this process reads the wish, by its own clock, and no clock is
// compared with another one. It runs once. The same wish is read again whenever the
// node's watch is armed again. It is told to callers that enter the lock again while it
// stands, and leaves them no more time than the first. A holder that has not agreed to
// give the lock back, as its node says (see [events.MarkRevocable]), is only told of the
// wish.

// asking says that the lock of a node is asked back.
type asking struct {
	czxid int64          // of the node that was read
	by    recipes.Moment // the soonest moment that was read; 0: none
}

// heed takes the data of a node from the reading that has armed the watch on it, and
// tells of a wish in them.
func (c *client) heed(node string, data []byte, stat *zk.Stat) {
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

// wish notes that the lock is asked back, and by when, from the reading that has armed
// the watch. If the watch has fired since, another reading will tell. It returns the
// soonest moment of this and earlier readings; 0 is none.
func (c *client) wish(node string, by recipes.Moment) recipes.Moment {
	return c.watches.Note(node, func(before recipes.Moment) recipes.Moment {
		if before != 0 && (by == 0 || before < by) {
			return before
		}
		return by
	})
}

// wished reports whether a wish is known to stand in any of the nodes, and by when it
// wants the lock back.
func (c *client) wished(nodes ...string) (by recipes.Moment, wished bool) {
	for _, node := range nodes {
		asked, stands := c.watches.Noted(node)
		wished = wished || stands
		if stands && asked != 0 && (by == 0 || asked < by) {
			by = asked
		}
	}
	return by, wished
}

// remind tells a seat of a wish that was told before the seat could take it for its own,
// and that no later reading will tell. There are two ways to that.
//
// The machine did not know its node:
//
//  1. The reply to a create is lost.
//  2. The lock is asked back.
//  3. The look for the GUID finds the node and the wish.
//  4. The machine hears of the wish before it hears which node is its own.
//
// Another seat of the session had the node watched:
//
//  1. A is granted in one request, and its node is not watched yet.
//  2. The lock is asked back.
//  3. B, which waits for A, has the node watched, and is told.
//  4. A finds the node watched, and does not read it.
//
// A seat that is told twice ignores the second time.
func (s *Session) remind(c *client, seat *Seat, own events.Name) {
	if own.Text == "" {
		return
	}
	if by, wished := c.wished(seat.nodes(seat.at(own))...); wished {
		s.tell(seat, recipes.AskedBack{Epoch: c.epoch, Node: own, By: by}, nil)
	}
}

// askBack passes the wish on to the subscribers of the node; those that own it take it
// for theirs. No wish is missed that stands while the watch is armed again: the data are
// read whenever the watch is armed, and a change of them makes it fire. A watch that
// fires for a change of data says nothing about the end of the node.
//
// The one node of a lock may be another one by the time that this is told: czxid says
// which one was read.
func (s *Session) askBack(c *client, node string, wish asking) {
	for _, seat := range c.watches.Subscribers(node) {
		if seat.single != nil && seat.token(node) != wish.czxid {
			continue
		}
		s.tell(seat, recipes.AskedBack{Epoch: c.epoch, Node: seat.name(node), By: wish.by}, nil)
	}
}

// bound starts the clock of a holder that was told by when to give its lock back. The
// lock is lost then: as with every loss, the session knows before the holder hears of it,
// and no reader takes its place after that. The moment is the soonest so far.
func (s *Session) bound(seat *Seat, by recipes.Moment) {
	s.unbound(seat)
	at := actors.TimeOf(by)
	overdue := func() {
		s.tell(seat, recipes.Overdue{By: by}, nil)
	}
	s.deadlines[seat] = deadline{at, time.AfterFunc(time.Until(at), func() { s.loop.Post(overdue) })}
}

// unbound stops the clock of a seat.
func (s *Session) unbound(seat *Seat) {
	if d, ok := s.deadlines[seat]; ok {
		d.timer.Stop()
		delete(s.deadlines, seat)
	}
}
