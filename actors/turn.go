package actors

import (
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// turn is a lock that a [Cache] drives.
type turn struct {
	Lock

	cache *Cache
	port  StayPort // of the node; set before the Grant

	// The cache's mutex guards these.
	stay       *stay // the stay for which it waits, or whose node it holds; nil: none
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

// NewTurn returns a lock that the cache drives.
func NewTurn(cfg Config, cache *Cache) *Lock {
	t := &turn{cache: cache}
	t.init(cfg, t)
	return &t.Lock
}

func (t *turn) admit(cfg Config) *Lock {
	c := t.cache
	c.mu.Lock()
	defer c.unlock()
	if t.is != turnHolds || !t.stay.mayEnter() {
		return nil
	}
	inner := &turn{cache: c}
	inner.init(cfg, inner)
	t.stay.admits(inner)
	return &inner.Lock
}

func (t *turn) drop() {
	c := t.cache
	c.mu.Lock()
	defer c.unlock()
	if t.is == turnHolds {
		t.is = turnOver
		t.stay.parts(t)
		t.stay = nil
	}
}

// hand does what the message says at once, in the goroutine of the caller.
func (t *turn) hand(m message) {
	if m.bound != 0 {
		if !t.boundReached(m) {
			return
		}
		m.input = recipes.Withdrawn{Why: m.bound}
	}
	switch in := m.input.(type) {
	case recipes.Started:
		if t.try = in.Try; m.open {
			t.cache.ask(t)
		}
	case recipes.Withdrawn:
		t.part(in.Why)
		if in.Ran {
			t.hasReturned()
		}
	}
}

func (t *turn) deadline(epoch recipes.Epoch) time.Time { return t.port.Deadline(epoch) }

// use returns the port of the node. done with spent has the node go at the release, because its name may leave the process: a late
// write could not be told from one of a later turn.
func (t *turn) use() (port Port, done func(spent bool)) {
	c := t.cache
	c.mu.Lock()
	defer c.unlock()
	s := t.stay
	if t.is != turnHolds || t.lost {
		return nil, func(bool) {}
	}
	s.book = s.book.Transacts(1)
	return s.port, func(spent bool) {
		c.mu.Lock()
		defer c.unlock()
		if s.book = s.book.Transacts(-1); spent {
			s.book = s.book.Spends()
		}
		s.move()
	}
}

// part ends the turn. Its end is published before the next turn's Grant.
func (t *turn) part(why recipes.Why) {
	c := t.cache
	c.mu.Lock()
	was := t.is
	t.is = turnOver
	if was == turnWaits {
		t.stay.withdraw(t)
	}
	if t.lost {
		why = recipes.WhyLost
	}
	c.unlock()
	if was == turnOver {
		return
	}
	t.onFinish(recipes.Finish{Why: why}, 0)
	c.mu.Lock()
	if was == turnHolds {
		t.stay.parts(t)
	}
	t.stay = nil
	c.unlock()
	t.nothingIsLeft()
}

// fails ends a turn that does not get the lock. Its caller has taken it out of the queue.
func (t *turn) fails(end func()) {
	t.is, t.stay = turnOver, nil
	t.cache.then(func() {
		end()
		t.nothingIsLeft()
	})
}

// isTurnedAway ends a turn that only tries.
func (t *turn) isTurnedAway() {
	t.fails(func() { t.onFinish(recipes.Finish{Why: recipes.WhyBusy}, 0) })
}

// isRefused ends a turn for which there is no node.
func (t *turn) isRefused(err error) {
	t.fails(func() { t.finish(func() error { return err }) })
}

// stay is one node, and the turns of the process that wait for it or hold it. The mutex of its cache guards it.
type stay struct {
	cache *Cache
	book  recipes.Stay
	port  StayPort
	queue *Lock // the lock that has the node, or queues up for it

	epoch       recipes.Epoch
	grant       recipes.Grant
	wish        *recipes.Revoke // the latest; nil: the lock was not asked back
	loss        recipes.Lose    // once it is lost
	first, last *turn           // of the waiters
	holders     []*turn
	ahead       int // of the node, in the servers' queue
	released    bool
	isIdle      bool
	idleSince   time.Time
	idle        *time.Timer // runs while the node is idle, and may run longer
	bound       *time.Timer // ends the local grants, once the node is wanted
}

// add adds a turn to the waiters: behind them, or before them if it has waited at another stay.
func (s *stay) add(t *turn) {
	t.stay, s.isIdle = s, false
	switch {
	case s.first == nil:
		s.first, s.last = t, t
	case t.is == turnWaits:
		t.next, s.first.prev, s.first = s.first, t, t
	default:
		t.prev, s.last.next, s.last = s.last, t, t
	}
	t.is = turnWaits
	s.book = s.book.Asks()
}

// unlink takes a turn out of the queue.
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

// withdraw removes a waiter.
func (s *stay) withdraw(t *turn) {
	s.unlink(t)
	s.book = s.book.Leaves()
	s.move()
}

// parts removes a holder.
func (s *stay) parts(t *turn) {
	i := slices.Index(s.holders, t)
	s.holders = slices.Delete(s.holders, i, i+1)
	s.book = s.book.Parts()
	s.move()
}

// mayEnter reports whether a turn may enter the held lock again. If the lease has run out, or the lock was to be back by now, it may
// not: the loss is about to be told.
func (s *stay) mayEnter() bool {
	if !s.book.Held() || s.book.Over() {
		return false
	}
	lease := s.port.Deadline(s.epoch)
	now := time.Now() // read behind the lease, as in Valid
	return now.Before(lease) && !isDue(s.wish, now)
}

// admits makes the turn a holder, which gets the present grant when it is started.
func (s *stay) admits(t *turn) {
	t.stay, t.is, t.port = s, turnHolds, s.port
	s.holders = append(s.holders, t)
	s.book = s.book.Joins()
}

// holds makes the turn a holder, and grants it the lock.
func (s *stay) holds(t *turn) {
	t.is, t.port = turnHolds, s.port
	s.holders = append(s.holders, t)
	s.grants(t)
}

// grants publishes the present grant for a holder, and the wish that came before, or the loss.
func (s *stay) grants(t *turn) {
	if t.lost {
		s.tellsLoss(t)
		return
	}
	g := s.grant
	g.Turn = s.book.Turn()
	if grant, logs := t.onGrant(g, s.epoch); logs {
		s.cache.then(func() { t.log(grant) })
	}
	if wish := s.wish; wish != nil {
		s.cache.then(func() { t.onRevoke(*wish) })
	}
}

// move makes the book's moves until it has none. It is called behind every change.
func (s *stay) move() {
	for {
		book, move := s.book.Next(true)
		if move == recipes.StayGrants && !s.port.Proven(s.epoch) { // the clock is read only for this move
			book, move = s.book.Next(false)
		}
		s.book = book
		switch move {
		case recipes.StayWaits:
			s.rest()
			return
		case recipes.StayGrants:
			t := s.first
			s.unlink(t)
			s.holds(t)
		case recipes.StayArms:
			s.do(recipes.Arm{Epoch: s.epoch, Node: s.grant.Node})
		case recipes.StayClaims:
			s.do(recipes.Claim{Epoch: s.epoch, Node: s.grant.Node})
		case recipes.StayGoes: // rest does it
		}
	}
}

// do has the loop make a request for the node.
func (s *stay) do(request recipes.Effect) {
	s.queue.cfg.Loop.Post(func() { s.port.Do(request) })
}

// rest does what follows when the book has no move.
func (s *stay) rest() {
	for range s.book.Excess() { // the last first: each goes before the later ones
		t := s.last
		s.unlink(t)
		s.book = s.book.Leaves()
		t.losesPlace()
		s.cache.elsewhere(t)
	}
	switch {
	case s.book.Over() && len(s.holders) == 0:
		s.release()
	case s.book.Idle():
		s.idles()
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
	s.cache.forget(s)
	queue := s.queue
	s.cache.then(func() { queue.Withdraw(recipes.WhyReleased) })
}

// wants notes that another contender is known.
func (s *stay) wants() {
	if s.book.Wanted() {
		return
	}
	s.book = s.book.Wants(s.cache.terms.Handoffs)
	s.wanted()
}

// wanted starts the time for which the node may still be handed on locally.
func (s *stay) wanted() {
	if s.bound != nil {
		return
	}
	c := s.cache
	if c.terms.For <= 0 {
		s.book = s.book.TimeIsUp()
		return
	}
	s.bound = time.AfterFunc(c.terms.For, func() {
		c.mu.Lock()
		s.book = s.book.TimeIsUp()
		s.move()
		c.unlock()
	})
}

// idles notes that the process does not use the node from now on.
func (s *stay) idles() {
	c := s.cache
	if s.isIdle {
		return
	}
	s.isIdle, s.idleSince = true, time.Now()
	c.cfg.All.quiet(c)
	if s.idle == nil {
		s.idle = time.AfterFunc(c.cfg.Interval(), s.onIdle)
	}
}

// onIdle has the session rest, and later gives up the node.
func (s *stay) onIdle() {
	c := s.cache
	c.mu.Lock()
	defer c.unlock()
	if !s.book.Idle() {
		s.idle = nil
		return
	}
	idle := time.Since(s.idleSince)
	if interval := c.cfg.Interval(); idle < interval {
		s.idle.Reset(interval - idle)
		return
	}
	book, rests := s.book.Rests()
	if s.book = book; rests {
		s.do(recipes.Rest{})
	}
	if idle < c.cfg.Idle {
		s.idle.Reset(c.cfg.Idle - idle)
		return
	}
	s.book = s.book.Spends()
	s.move()
}

// hears is told of each input of the lock that has the node, behind the machine, with the machine's effects.
func (s *stay) hears(epoch recipes.Epoch, in recipes.Input, effects []recipes.Effect) {
	c := s.cache
	c.mu.Lock()
	defer c.unlock()
	s.book = s.book.Hears(in, c.terms.Handoffs)
	for _, e := range effects {
		s.takes(epoch, e)
	}
	if s.book.Wanted() {
		s.wanted()
	}
	s.move()
}

// takes applies an effect of the machine to the waiters and holders.
func (s *stay) takes(epoch recipes.Epoch, e recipes.Effect) {
	switch e := e.(type) {
	case recipes.Grant:
		s.queue.taken() // else the node would go at a loss, even while a function runs under a turn
		s.epoch, s.grant, s.ahead = epoch, e, 0
		s.book = s.book.Stands(epoch, s.cache.worth(e.Node))
	case recipes.Lose:
		s.lose(e)
	case recipes.Finish:
		s.finish(e)
	case recipes.Queue:
		s.ahead = e.Ahead
		i := 0
		for t := s.first; t != nil; t = t.next {
			t.stands(s.ahead + i)
			t.queues(recipes.Queue{Ahead: s.ahead + i})
			i++
		}
	case recipes.Requeue:
		for t := s.first; t != nil; t = t.next {
			t.requeues()
		}
	case recipes.Revoke:
		s.wish, s.book = &e, s.book.Spends()
		for _, t := range s.holders {
			if t.Holding() { // else it hears of the wish with its Grant
				s.cache.then(func() { t.onRevoke(e) })
			}
		}
	}
}

// lose tells the holders. One that was admitted and is not started is told when it is.
func (s *stay) lose(e recipes.Lose) {
	s.book, s.loss = s.book.Ends(), e
	var told []*turn
	for _, t := range s.holders {
		if t.lost = true; t.Holding() {
			told = append(told, t)
		}
	}
	s.tellsLoss(told...)
}

// tellsLoss tells holders, outside of the mutex, so that it comes behind a Grant that was published before. As in [queuer.loses] all
// states change before the first holder is told.
func (s *stay) tellsLoss(told ...*turn) {
	e := s.loss
	s.cache.then(func() {
		reports := make([]func(), len(told))
		for i, t := range told {
			reports[i] = t.forfeits(e)
		}
		for i, t := range told {
			reports[i]()
			if !t.runs() {
				t.part(recipes.WhyLost)
			}
		}
	})
}

// finish is the end of the lock that has the node. What a server has refused to it, it would refuse to all waiters: they end, too.
// If other contenders stood in the way, the turns that only try end in elsewhere, and the others queue up again.
func (s *stay) finish(e recipes.Finish) {
	s.book = s.book.Ends()
	if e.Why != recipes.WhyRefused && e.Why != recipes.WhySequenceEnd && e.Why != recipes.WhyMixed {
		return
	}
	err := s.queue.Err()
	for s.first != nil {
		t := s.first
		s.unlink(t)
		s.book = s.book.Leaves()
		t.isRefused(err)
	}
}

// runs reports whether a function runs under the lock.
func (l *Lock) runs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}
