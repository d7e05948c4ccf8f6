package session

import (
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about what the loop knows of the one node of a lock: its owner, which seats have to hear that it is gone, and
// what has to wait for what. For the reasons see single.go.

// verifying looks whether a seat's node is still the one that it made, and watches it. It is for a seat that was told that the node is its
// own. It is not for one of which the create is under way: the answer could be older than that.
type verifying struct {
	slot

	epoch recipes.Epoch
	seat  *Seat
	born  int64 // set by the loop, before it is made
}

var _ request = (*verifying)(nil)

func (v *verifying) admit(s *Session) {
	if v.isDue() {
		s.pending.add(v)
	}
}

func (v *verifying) meantFor() recipes.Epoch { return v.epoch }

func (v *verifying) urgency() urgency { return handing }

func (v *verifying) refuse() {} // the nodes of an epoch end with it

func (v *verifying) do(c *client) (func(*Session), error) {
	node, err := c.follow(ofNode, v.seat.single.node, v.seat)
	outcome, err := zkerr.Classify(err)
	return func(s *Session) {
		switch {
		case !v.seat.single.known || v.seat.token(v.seat.single.node) != v.born:
		case errors.Is(err, zk.ErrNoNode), outcome == zkerr.Done && node.stat.Czxid != v.born:
			s.lostSingle(c, v.seat)
		case !outcome.Settled() || c.outdated:
			s.again(c, v)
		case outcome == zkerr.Done:
			s.noteCertain(c, v.seat)
		default: // it cannot be watched
		}
	}, err
}

// isDue reports whether there is something to verify.
func (v *verifying) isDue() bool {
	v.born = v.seat.token(v.seat.single.node)
	return v.seat.single.known
}

// lostSingle tells the seat that its node is gone.
func (s *Session) lostSingle(c *client, t *Seat) {
	gone := recipes.Gone{Epoch: c.epoch, Node: t.single.name}
	c.owners.heard(t, gone)
	s.noteNodeGone(t)
	s.tell(t, gone, nil)
}

// singleGone tells the seats that follow the node, and its owner, that it is gone. An event or a reading has said so. If it was a reading,
// the owner may have made the node since.
func (s *Session) singleGone(c *client, node string, seats []*Seat, event bool) (others []*Seat) {
	if t := c.owners.of(node); t != nil && t.single.known {
		seats = slices.DeleteFunc(seats, func(other *Seat) bool { return other == t })
		if event {
			s.lostSingle(c, t)
		} else {
			s.take(&verifying{epoch: c.epoch, seat: t})
		}
	}
	return seats
}

// isPast reports whether a request of the seat that found no node to watch was about a node before the one which the seat has made, or is
// making. Both nodes have one name, so the machine could not tell:
//
//  1. The machine waits for A's node, and asks for a watch on it.
//  2. The connection breaks, and A's node goes.
//  3. On the next connection the request is made, and so is a look, because after an outage every waiter looks anew. Both find nothing.
//  4. The look's answer is told, and the seat makes its node, and holds.
//  5. Only now the other answer is told: the node is gone.
//
// The machine would give up a node that stands, and no session would ever remove it.
//
// A seat that has a node, or may have one, waits for no other node. If the reading is younger than the node after all, another look tells.
func (s *Session) isPast(c *client, t *Seat) bool {
	if t.single == nil || !c.owners.is(t) {
		return false
	}
	s.take(&verifying{epoch: c.epoch, seat: t})
	return true
}

// rewritten notes that the data of a node have changed. When its owner has it watched again, that shows whether it is another node by now
// (see found). Until then, and for an owner that does not hold any more, it is unknown.
func (s *Session) rewritten(c *client, node string) {
	if t := c.owners.of(node); t != nil {
		t.single.uncertain.Store(true)
	}
}

// rest has a transaction rest on the one node of a lock, if that is the seat's. The transaction is made before the node is removed, or not
// at all. A guard alone would not do, because it knows the node by its name:
//
//  1. The lock is lost, with a transaction under way.
//  2. Our delete overtakes it.
//  3. Another contender makes the next node.
//  4. The guard finds that node.
func (l *single) rest(s *Session, t *Seat) (rests bool) {
	if _, holds := s.holders[t]; !holds || !l.known || s.isOverdue(t) {
		return false
	}
	l.writing++
	return true
}

// keeps has a delete wait for the transactions that rest on the node.
func (l *single) keeps(r *asked) bool {
	if l == nil || r.op != recipes.OpDelete || l.writing == 0 {
		return false
	}
	l.leaving = append(l.leaving, r)
	return true
}

// unrest notes that a transaction is answered, or will never be made.
func (l *single) unrest(s *Session) {
	if l.writing--; l.writing > 0 {
		return
	}
	waiting := l.leaving
	l.leaving = nil
	for _, r := range waiting {
		s.take(r)
	}
}
