package actors

import (
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about re-entry: a holder acquires the lock that it already holds. That
// takes no request: the inner lock holds the node of the outer one. From then on the two
// are equals, and the node is deleted when the last one has left. [recipes.Share]
// decides.
//
// An inner lock is admitted in its caller's goroutine, under the outer lock's mutex.
// Everything after that happens in the loop. The races, and how each one ends:
//
//   - The outer lock is released before the first inner one is admitted: admit sees that
//     in the state, and the caller queues up like any other contender.
//   - The outer lock is released after that: its Withdrawn finds two holders, and removes
//     only the outer one. As long as any of them holds, more are admitted, even through a
//     lock that has just been released.
//   - The lock is lost before the inner one is admitted: admit sees that in the state or
//     in the book.
//   - The lock is lost after that: the inner one is lost, too. If it has not started yet,
//     it gets the loss when it starts, instead of a Grant. So nothing happens to an inner
//     lock before the caller knows of it.
//   - The lease has run out, or the deadline of a revocation has passed, and the loop has
//     not noticed yet: no lock is admitted.
//   - A holder has lost the lock while a function still runs under it: it has not left,
//     so the node stays.

// inner is a lock that has re-entered another one.
type inner struct {
	Lock

	outer *queuer
}

// shared is a node that inner locks hold or have held. The mutex of the outer lock guards
// it.
type shared struct {
	book    recipes.Share
	holders []*Lock       // those that have not left, and the last one even after it has
	lost    *recipes.Lose // nil: the lock is not lost
}

// Admit returns a lock that re-enters this one, or nil if this one is not held. The node
// then stays until the new lock has ended, too. The caller must call Start or Fail on it.
func (l *Lock) Admit(cfg Config) *Lock { return l.drive.admit(cfg) }

func (q *queuer) admit(cfg Config) *Lock {
	q.mu.Lock()
	defer q.mu.Unlock()
	lease := q.deadline(q.epoch)
	switch now := time.Now(); { // read after the lease, as in Valid
	case !now.Before(lease), q.isOverdue(now):
		return nil
	case q.shared == nil:
		if q.state != holding {
			return nil
		}
		q.shared = &shared{book: recipes.NewShare(), holders: []*Lock{&q.Lock}}
	}
	at := q.shared
	book, entered := at.book.Enters()
	if !entered {
		return nil
	}
	l := &inner{outer: q}
	l.init(cfg, l)
	at.book, at.holders = book, append(at.holders, &l.Lock)
	return &l.Lock
}

// isOverdue reports whether the deadline of a revocation has passed. It is called with mu
// held.
func (q *queuer) isOverdue(now time.Time) bool {
	return q.rare != nil && q.rare.revocation != nil && q.rare.revocation.By != 0 &&
		!now.Before(q.cfg.Time(q.rare.revocation.By))
}

func (l *inner) admit(cfg Config) *Lock { return l.outer.admit(cfg) }

func (l *inner) deadline(epoch recipes.Epoch) time.Time { return l.outer.deadline(epoch) }

func (l *inner) use() (port Port, done func(spent bool)) { return l.outer.use() }

// hand passes on the messages that concern an inner lock.
func (l *inner) hand(m message) bool {
	if m.bound != 0 {
		if !l.boundReached(&m) {
			return true
		}
		m = message{input: recipes.Withdrawn{Why: m.bound}}
	}
	if _, started := m.input.(recipes.Started); started && !m.open {
		return true // the end of its context ends it
	}
	m.of = &l.Lock
	return l.outer.hand(m)
}

func (l *inner) drop() {
	l.outer.hand(message{input: recipes.Withdrawn{Why: recipes.WhyReleased}, of: &l.Lock})
}

// grantTo grants the lock to an inner lock. The loop calls it.
func (q *queuer) grantTo(l *Lock) {
	q.mu.Lock()
	e := recipes.Grant{Node: q.grant.node, Token: q.grant.token, Session: q.grant.session}
	var revocation *recipes.Revoke
	if q.rare != nil {
		e.Abandoned, revocation = q.rare.abandoned, q.rare.revocation
	}
	epoch, lost, left := q.epoch, q.shared.lost, !slices.Contains(q.shared.holders, l)
	q.mu.Unlock()
	switch {
	case left:
		return
	case lost != nil:
		l.forfeit(*lost)()
		return
	}
	if grant, logs := l.onGrant(e, epoch); logs {
		l.log(grant)
	}
	if revocation != nil {
		l.revoke(*revocation)
	}
}

// removeHolder removes a holder of a shared node. If it was the last one, all is the
// input for the machine. The loop calls it.
func (q *queuer) removeHolder(holder *Lock, in recipes.Withdrawn) (all recipes.Withdrawn, last bool) {
	failed := holder != &q.Lock && holder.hasFailed()
	q.mu.Lock()
	at := q.shared
	i := slices.Index(at.holders, holder)
	if i < 0 { // it has already left
		q.mu.Unlock()
		return in, false
	}
	at.book, all, last = at.book.Leaves(in)
	if !last || failed {
		at.holders = slices.Delete(at.holders, i, i+1)
	}
	q.mu.Unlock()
	// The machine finishes the last holder. A holder that failed has ended already.
	if last || failed {
		return all, last
	}
	// Others still hold, so this one ends without the machine.
	holder.finish(recipes.Finish{Why: in.Why}, 0, false, nil)
	if holder != &q.Lock {
		holder.onNodeGone()
		return all, false
	}
	// Nobody needs to wait for the outer lock any more, but [Owner.Gone] is not called
	// before the node is gone.
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = true
	if q.rare != nil && q.rare.cleared != nil {
		close(q.rare.cleared)
		q.rare.cleared = nil
	}
	return all, false
}

// onLose reports the loss to all holders. All states change before the first report, so
// that no holder can take its Grant after the Lost of another. The outer lock changes
// first: after that, it admits no first inner lock.
func (q *queuer) onLose(e recipes.Lose) {
	reports := []func(){q.forfeit(e)}
	q.mu.Lock()
	if at := q.shared; at != nil {
		at.book, at.lost = at.book.Lost(), &e
	}
	q.mu.Unlock()
	for _, l := range q.remaining() {
		if l != &q.Lock && l.Holding() {
			reports = append(reports, l.forfeit(e))
		}
	}
	for _, report := range reports {
		report()
	}
}

// onRevoke passes a revocation request on to the holders, and reports whether it reached
// one. A holder that has no Grant yet gets the request with its Grant.
func (q *queuer) onRevoke(e recipes.Revoke) (reached bool) {
	q.mu.Lock()
	q.rarely().revocation = &e
	q.mu.Unlock()
	for _, l := range q.remaining() {
		if l != &q.Lock && !l.Holding() || l.revoke(e) {
			reached = true
		}
	}
	return reached
}

// remaining returns the remaining holders: usually just the outer lock itself. It comes
// last, so a revocation request reaches inner locks first. When the machine finishes, at
// most one holder is left: the machine learns only of the last withdrawal.
func (q *queuer) remaining() []*Lock {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shared == nil {
		return []*Lock{&q.Lock}
	}
	holders := slices.Clone(q.shared.holders)
	if i := slices.Index(holders, &q.Lock); i >= 0 {
		holders = append(slices.Delete(holders, i, i+1), &q.Lock)
	}
	return holders
}
