package cache

import (
	"context"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/recipes"
)

// stay is one node and the turns that wait for it or hold under it. A cache usually has
// one; while its node is about to go, another one may queue up. The methods of a stay are
// called with the mutex of all caches held, except start, and onIdle and hear, which lock
// it. A turn that holds reads node without it.
type stay struct {
	cache *cache
	terms *Terms
	book  recipes.Stay
	node  *actors.Lookout // the acquisition that owns the node or queues up for it

	epoch       recipes.Epoch // of the grant
	grant       recipes.Grant
	revocation  *recipes.Revoke // the latest revocation request; nil: there was none
	unplaced    bool            // its waiters have yet to be told their places
	loss        recipes.Lose    // once the lock is lost
	first, last *turn           // of the waiters
	holders     []*turn
	idleSince   time.Time   // zero: the process uses the node
	idle        *time.Timer // runs while the node is idle, or longer
	resting     bool        // the renewal of its lease was stopped
	bound       *time.Timer // ends the local grants once another contender is known
	released    bool
}

// start makes the node queue up. It is called without the mutex held. The wait ends with
// the stay.
//
//nolint:contextcheck,nolintlint // the context of one caller does not bound it; the linter heeds this at the callers
func (s *stay) start(try bool) {
	s.node.Start(context.Background(), 0, actors.Want{Try: try, Keep: true, Strict: s.cache.all.cfg.Strict})
}

// add adds a turn to the waiters: at the end, or at the front if it has waited at another
// stay.
func (s *stay) add(t *turn) {
	switch {
	case s.first == nil:
		s.first, s.last = t, t
	case t.is == turnWaits:
		t.next, s.first.prev, s.first = s.first, t, t
	default:
		t.prev, s.last.next, s.last = s.last, t, t
	}
	t.stay, t.is, s.idleSince = s, turnWaits, time.Time{}
	s.book.Waiting++
}

// remove removes a waiter.
func (s *stay) remove(t *turn) {
	s.unlink(t)
	s.book.Waiting--
}

// unlink removes a turn from the queue.
func (s *stay) unlink(t *turn) {
	if t.prev == nil {
		s.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		s.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
}

// move makes the book's moves until there are none left. It is called after every change.
func (s *stay) move() {
	for {
		switch s.book.Next(s.node.Known) {
		case recipes.StayWaits:
			s.settle()
			return
		case recipes.StayGrants:
			t := s.first
			s.unlink(t)
			t.is, s.holders = turnHolds, append(s.holders, t)
			s.publish(t)
			if s.unplaced { // the holder is the one that is ahead of them
				s.displace()
			}
		case recipes.StayWatches:
			s.node.Watch()
		case recipes.StayGoes: // settle does it
		}
	}
}

// settle acts on the state once the book has no move left.
func (s *stay) settle() {
	for range s.book.Excess() { // the last first, because each is put in front
		t := s.last
		s.remove(t)
		if t.try {
			t.turnAway()
			continue
		}
		t.Displace()
		s.cache.queue(t, s.cache.after(s)) // ahead of those that came later
	}
	switch {
	case s.book.Over && len(s.holders) == 0:
		s.release()
	case s.book.Idle() && s.idleSince.IsZero():
		s.beIdle()
	}
}

// publish grants a holder the lock, and passes on an earlier revocation request. If the
// lock is lost already, the holder gets the loss instead.
func (s *stay) publish(t *turn) {
	if t.lost {
		s.tellLoss(t)
		return
	}
	g := s.grant
	g.Turn = s.book.Turns - 1
	if log := t.Grant(g, s.epoch); log != nil {
		s.cache.all.then(log)
	}
	if revocation := s.revocation; revocation != nil {
		s.cache.all.then(func() { t.Revoke(*revocation) })
	}
}

// release gives up the node.
func (s *stay) release() {
	if s.released {
		return
	}
	s.released = true
	for _, t := range [...]*time.Timer{s.idle, s.bound} {
		if t != nil {
			t.Stop()
		}
	}
	s.cache.end(s)
	s.cache.all.then(s.node.Release)
}

// want notes that another contender is known, and limits how long the node may still be
// handed on locally.
func (s *stay) want() {
	if !s.book.Want(s.terms.Handoffs) {
		return
	}
	s.node.Find()
	if s.terms.For <= 0 {
		s.book.EndHandoffs()
	} else {
		s.bound = time.AfterFunc(s.terms.For, func() {
			s.cache.all.mu.Lock()
			defer s.cache.all.unlock()
			s.book.EndHandoffs()
			s.move()
		})
	}
	s.move()
}

// spend gives up the node as soon as it is not held.
func (s *stay) spend() {
	s.book.Spent = true
	s.move()
}

// beIdle notes that the process no longer uses the node.
func (s *stay) beIdle() {
	s.idleSince = time.Now()
	if s.idle == nil {
		s.idle = time.AfterFunc(s.node.Port().Interval(), s.onIdle)
	} else if s.resting { // the last turn's claim has resumed the renewal
		s.idle.Reset(s.node.Port().Interval())
	}
	s.resting = false
	s.cache.rest()
}

// onIdle stops the renewal of the node's lease after a probe interval, and later gives up
// the node.
func (s *stay) onIdle() {
	all := s.cache.all
	all.mu.Lock()
	defer all.unlock()
	if !s.book.Idle() {
		s.idle = nil
		return
	}
	idle, interval := time.Since(s.idleSince), s.node.Port().Interval()
	if idle < interval {
		s.idle.Reset(interval - idle)
		return
	}
	s.resting = s.node.Rest()
	switch left := all.cfg.Idle - idle; {
	case left <= 0:
		s.spend()
	case s.resting:
		s.idle.Reset(left)
	default: // a claim is unanswered, or there is no connection
		s.idle.Reset(min(interval, left))
	}
}

// hear receives each input of the node's acquisition, with the effects of its machine.
func (s *stay) hear(epoch recipes.Epoch, in recipes.Input, effects []recipes.Effect) {
	all := s.cache.all
	all.mu.Lock()
	defer all.unlock()
	if s.released {
		return
	}
	if _, resumed := in.(recipes.Reconnected); resumed {
		s.book.Resume()
	}
	for _, e := range effects {
		s.take(epoch, e)
	}
	found, blind := s.node.Contended()
	s.book.Spent = s.book.Spent || blind
	if found {
		s.want()
	}
	s.move()
}

// take passes an effect of the node's acquisition on to the waiters and holders.
func (s *stay) take(epoch recipes.Epoch, e recipes.Effect) {
	switch e := e.(type) {
	case recipes.Grant:
		s.epoch, s.grant = epoch, e
		s.book.Stands, s.book.Worth = true, s.cache.worth(s)
	case recipes.Lose:
		s.lose(e)
	case recipes.Finish:
		s.finish(e)
	case recipes.Queue:
		s.tellPlacesBehind(e.Ahead)
	case recipes.Requeue:
		s.requeue()
	case recipes.Revoke:
		s.revocation, s.book.Spent = &e, true
		for _, t := range s.holders {
			if t.Holding() { // else it gets the request with its Grant
				s.cache.all.then(func() { t.Revoke(e) })
			}
		}
	}
}

// requeue reports to each waiter that its place is lost, because the node is.
func (s *stay) requeue() {
	s.unplaced = true
	for t := s.first; t != nil; t = t.next {
		t.Requeue()
	}
}

// displace notes that the waiters' places have changed. One change may move many waiters,
// so they are told at its end. If nothing is known by then, they are told at the node's
// Grant or listing.
func (s *stay) displace() {
	s.unplaced = true
	s.cache.all.displaced = append(s.cache.all.displaced, s)
}

// tellPlaces reports to each waiter how many contenders are ahead, if that is known and
// has yet to be told.
func (s *stay) tellPlaces() {
	if ahead, known := s.placeOf(0); known && s.unplaced {
		s.tellPlacesBehind(ahead)
	}
}

func (s *stay) tellPlacesBehind(ahead int) {
	s.unplaced = false
	for t := s.first; t != nil; t = t.next {
		t.Queue(ahead)
		ahead++
	}
}

// placeOf returns how many contenders are ahead of the waiter behind so many others. That
// is known of a node that is held, or has listed the queue.
func (s *stay) placeOf(waiting int) (ahead int, known bool) {
	if len(s.holders) > 0 {
		return 1 + waiting, true
	}
	ahead, known = s.node.Position()
	return ahead + waiting, known
}

// lose notifies the holders and the waiters. A holder that was admitted but has not
// started yet is notified when it starts.
func (s *stay) lose(e recipes.Lose) {
	s.book.Over, s.loss = true, e
	s.requeue()
	var told []*turn
	for _, t := range s.holders {
		if t.lost = true; t.Holding() {
			told = append(told, t)
		}
	}
	s.tellLoss(told...)
}

// tellLoss takes the lock away from holders, and notifies them once the mutex is
// unlocked, after any Grant published earlier. All of them lose the lock before the first
// one is notified.
func (s *stay) tellLoss(told ...*turn) {
	reports := make([]func(), len(told))
	for i, t := range told {
		reports[i] = t.Lose(s.loss)
	}
	s.cache.all.then(func() {
		for _, report := range reports {
			report()
		}
	})
}

// finish handles the end of the node's acquisition. If a server refused its request, it
// would refuse those of all waiters, too, so they end. If other contenders were ahead of
// a Try, turns that only try end, and the others queue up again.
func (s *stay) finish(e recipes.Finish) {
	s.book.Over = true
	if e.Why != recipes.WhyRefused && e.Why != recipes.WhySequenceEnd && e.Why != recipes.WhyMixed {
		return
	}
	err := s.node.Err()
	for s.first != nil {
		t := s.first
		s.remove(t)
		t.fail(func() { t.Refuse(err) })
	}
}
