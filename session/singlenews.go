package session

import (
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is what the session's drain knows of the one node of a lock: whose it is, who has to hear
// that it is gone, and what has to wait for what. For the reasons see single.go.

// verifying looks whether a seat's node is still the one that it made, and watches it. It is for a
// seat that was told so, and not for one whose create is under way: the answer could be older than that.
type verifying struct {
	slot

	epoch recipes.Epoch
	seat  *Seat
	born  int64 // set by the drain, before it is made
}

var _ request = (*verifying)(nil)

func (v *verifying) on(s *Session) {
	if v.isDue() {
		s.pending.add(v)
	}
}

func (v *verifying) meantFor() recipes.Epoch { return v.epoch }

func (v *verifying) urgency() urgency { return handing }

func (v *verifying) refuse() {} // the nodes of an epoch end with it

func (v *verifying) do(c *client) (func(*Session), error) {
	stat, err := c.readWatched(v.seat.single.node, v.seat)
	outcome, err := zkerr.Classify(err)
	return func(s *Session) {
		switch {
		case !v.seat.single.known || v.seat.token(v.seat.single.node) != v.born:
		case errors.Is(err, zk.ErrNoNode), outcome == zkerr.Done && stat.Czxid != v.born:
			s.lostSingle(c, v.seat)
		case outcome == zkerr.Unknown || zkerr.Unsettled(err) || c.outdated:
			s.again(c, v)
		case outcome == zkerr.Done:
			s.noteCertain(c, v.seat)
		default: // it cannot be watched
		}
	}, err
}

// isDue tells whether there is something to verify.
func (v *verifying) isDue() bool {
	v.born = v.seat.token(v.seat.single.node)
	return v.seat.single.known
}

// lostSingle tells the seat that its node is gone.
func (s *Session) lostSingle(c *client, t *Seat) {
	gone := recipes.Gone{Epoch: c.epoch, Node: t.single.name}
	c.claimants.heard(t, gone)
	s.gaveUp(t)
	t.post(gone, nil)
}

// singleGone tells those who are interested in the node, and the one that has it, that it is gone. They
// were told by an event, or by a reading: then the one that has it may have made it since.
func (s *Session) singleGone(c *client, node string, seats []*Seat, event bool) (others []*Seat) {
	if t := c.claimants.of(node); t != nil && t.single.known {
		seats = slices.DeleteFunc(seats, func(other *Seat) bool { return other == t })
		if event {
			s.lostSingle(c, t)
		} else {
			s.handle(&verifying{epoch: c.epoch, seat: t})
		}
	}
	return seats
}

// isPast tells whether a request of the seat's that found no node to watch was about one before that which the seat has
// made, or is making. Both bear one name, so the machine could not tell: 1. it waits for A's node, and asks
// for a watch on it; 2. the connection breaks, and A's node goes; 3. on the next one the request is made, and so is a
// look, for after an outage every waiter looks anew; both find nothing; 4. the look's answer is told, and
// the seat makes its node, and holds; 5. only now the other answer is told: the node is gone. The
// machine would give up a node that stands, and nobody would ever remove it.
//
// Who has a node, or may have one, waits for nobody's. Should the reading be younger than the node after all, to look again tells.
func (s *Session) isPast(c *client, t *Seat) bool {
	if t.single == nil || !c.claimants.is(t) {
		return false
	}
	s.handle(&verifying{epoch: c.epoch, seat: t})
	return true
}

// rewritten notes that the data of a node have changed. Whoever has it watched again finds out whether it is another one
// by now (see found), but until then, and for one that does not hold any more, nobody can tell.
func (s *Session) rewritten(c *client, node string) {
	if t := c.claimants.of(node); t != nil {
		t.single.uncertain.Store(true)
	}
}

// rest has a transaction rest on the one node of a lock, if that is the seat's. It is made before the node is removed, or not at all. Its guard
// would not do, which knows the node by its name: 1. the lock is lost, with a transaction under way; 2. our delete
// overtakes it; 3. somebody else makes the next node; 4. the guard finds that.
func (l *single) rest(s *Session, t *Seat) (rests bool) {
	if !l.known || !s.holds(t) {
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

// unrest says that a transaction is answered, or never will be made.
func (l *single) unrest(s *Session) {
	if l.writing--; l.writing > 0 {
		return
	}
	waiting := l.leaving
	l.leaving = nil
	for _, r := range waiting {
		s.handle(r)
	}
}
