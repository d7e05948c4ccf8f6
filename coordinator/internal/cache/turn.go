package cache

import (
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/recipes"
)

// turn is a caller's lock, which waits for a cached node and holds under it.
type turn struct {
	actors.Guest

	of *Handle

	// The mutex of all caches guards these. Deadline reads stay without it.
	stay       *stay // the stay at which it waits or holds; nil: none
	prev, next *turn // in the stay's queue
	is         turnState
	try        bool
	lost       bool
}

type turnState uint8

const (
	turnNew turnState = iota
	turnWaits
	turnHolds
	turnOver
)

// Ask makes the turn wait for the lock. A turn that was admitted is granted the lock at
// once.
func (t *turn) Ask(try bool) {
	all := t.of.Caches
	all.mu.Lock()
	defer all.unlock()
	switch t.is {
	case turnNew:
		c := all.at(t.of.Path)
		s := c.newest(&t.of.Terms)
		free := s == nil || s.book.Accepts() && s.book.Stands && s.book.Holders == 0 && s.first == nil
		if t.try = try; try && !free {
			t.turnAway()
			return
		}
		if s != nil && !s.book.Accepts() {
			s = nil // begin a new stay
		}
		c.queue(t, s)
	case turnHolds:
		t.stay.publish(t)
	case turnWaits, turnOver:
	}
}

// Leave ends the turn. The end is published before the next turn's Grant.
func (t *turn) Leave(why recipes.Why) {
	all := t.of.Caches
	all.mu.Lock()
	was := t.is
	t.is = turnOver
	if was == turnWaits {
		t.stay.remove(t)
		t.stay.move()
	}
	if t.lost {
		why = recipes.WhyLost
	}
	all.unlock()
	if was == turnOver {
		return
	}
	t.End(why)
	if was == turnHolds {
		all.mu.Lock()
		s := t.stay
		s.holders = slices.DeleteFunc(s.holders, func(other *turn) bool { return other == t })
		s.book.Holders--
		t.stay = nil
		s.move()
		all.unlock()
	}
	t.Vacate()
}

// Admit returns a lock that re-enters this one, or nil if this one is not held. If the
// lease has run out, or a revocation's deadline has passed, the loss will soon be
// reported, and no lock is admitted.
func (t *turn) Admit(cfg actors.Config) *actors.Lock {
	all := t.of.Caches
	all.mu.Lock()
	defer all.unlock()
	s := t.stay
	if t.is != turnHolds || s.book.Over || !s.node.Valid() {
		return nil
	}
	inner := &turn{of: t.of, stay: s, is: turnHolds}
	inner.Init(cfg, inner)
	s.holders = append(s.holders, inner)
	s.book.Holders++
	return &inner.Lock
}

// Deadline returns the time until which the session of the epoch counts as alive. It
// needs no mutex: stay is set before the Grant, and does not change while the turn holds.
func (t *turn) Deadline(epoch recipes.Epoch) time.Time { return t.stay.node.Port().Deadline(epoch) }

// Use returns the port of the node. If done is called with spent, the node is given up at
// the release, because a late write that names it would look like one of a later turn.
func (t *turn) Use() (port actors.Port, done func(spent bool)) {
	all := t.of.Caches
	all.mu.Lock()
	defer all.unlock()
	s := t.stay
	if t.is != turnHolds || t.lost {
		return nil, func(bool) {}
	}
	s.book.Busy++
	return s.node.Port(), func(spent bool) {
		all.mu.Lock()
		defer all.unlock()
		s.book.Busy--
		s.book.Spent = s.book.Spent || spent
		s.move()
	}
}

// turnAway ends a turn that only tries. The turn must not be in a queue.
func (t *turn) turnAway() { t.fail(func() { t.End(recipes.WhyBusy) }) }

// fail ends a turn that does not get the lock. The turn must not be in a queue.
func (t *turn) fail(end func()) {
	t.is, t.stay = turnOver, nil
	t.of.Caches.then(func() {
		end()
		t.Vacate()
	})
}
