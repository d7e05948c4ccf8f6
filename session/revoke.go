package session

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about holders who are asked to give the lock back, by what somebody writes to their nodes (see wish.go). Those
// who ask are in revoker.go.
//
// The grace runs from when this process reads the wish, by its own clock, and no clock is compared with another one. It runs once:
// the same wish is read again whenever the node's watch is armed again, and told to those who enter the lock
// again while it stands, and leaves them no more time than the first who was told. Who has not agreed to give the lock back, which its
// node says (see [events.MarkRevocable]), is told of the wish alone.

// heed tells of a wish if the reading of a node has found one that has armed the watch on it.
func (c *client) heed(node string, data []byte, stat *zk.Stat, err error) {
	if err != nil {
		return
	}
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

// wish notes that somebody wants the lock back, as the reading says that has armed the watch, and by when. If it has fired since, another
// reading will tell. It returns the soonest moment of this and earlier readings; 0 is at no time.
func (c *client) wish(node string, by recipes.Moment) recipes.Moment {
	return c.watches.Note(node, func(before recipes.Moment) recipes.Moment {
		if before != 0 && (by == 0 || before < by) {
			return before
		}
		return by
	})
}

// wished tells whether a wish is known to stand in any of the nodes, and by when the lock is to be back by that.
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

// remind tells a seat of a wish that was told before the seat could take it for its own, and that nobody will read
// again. There are two ways to that.
//
//   - The machine did not know its node: 1. the reply to a create is lost; 2. somebody asks for the lock back;
//     3. the look for the GUID finds the node and the wish; 4. the machine hears of the wish before it hears which node
//     is its own.
//   - Another seat of the session had the node watched: 1. A is granted in one request, and its node is not
//     watched yet; 2. somebody asks for the lock back; 3. B, which waits for A, has the node watched, and is told; 4. A
//     finds the node watched, and does not read it.
//
// Who is told twice takes no notice.
func (c *client) remind(seat *Seat, own string) {
	if own == "" {
		return
	}
	if by, wished := c.wished(seat.nodes(seat.at(own))...); wished {
		seat.post(recipes.AskedBack{Epoch: c.epoch, Node: own, By: by}, nil)
	}
}

// wished: somebody wants a lock back.
type wished struct {
	c    *client
	node string
	wish asking
}

// tellAskedBack passes the wish on to whoever is interested in the node; those to whom it
// belongs take it for theirs. The data are read whenever the node's watch is armed, and a change of
// them makes that fire, so no wish is missed that stands while the watch is armed again; and a
// watch that fires for it says nothing about the end of the node.
//
// The one node of a lock may be another one by the time that this is told: czxid says which was read.
func (m wished) on(s *Session) {
	for _, seat := range m.c.watches.Subscribers(m.node) {
		if seat.single != nil && seat.token(m.node) != m.wish.czxid {
			continue
		}
		seat.post(recipes.AskedBack{Epoch: m.c.epoch, Node: seat.name(m.node), By: m.wish.by}, nil)
	}
}
