package actors

import (
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about a lock that its holder enters again. No request is made for that:
// the inner lock holds the node of the outer one. From then on the two are equal, and the
// node goes when the last of them has left. [recipes.Share] decides.
//
// An inner lock is admitted in the goroutine of its caller, under the outer one's mutex.
// The loop does all that follows.
//
//   - The outer lock is released before the first inner one is admitted: the state says
//     so, and the caller queues up like any other contender.
//   - The outer lock is released after that: its Withdrawn finds two holders, and removes
//     only the outer one. As long as one of them holds, others are admitted, also with a
//     lock that was released just now.
//   - The lock is lost before the inner one is admitted: the state, or the book, says so.
//   - The lock is lost after that: the inner one gets the loss, too. One that has not
//     been started gets it when it starts, in place of its Grant. So nothing happens to
//     an inner lock before the caller knows of it.
//   - The lease runs out, or the moment comes by which the lock was to be given back, and
//     it is not noticed yet: none is admitted.
//   - A holder has lost the lock, and a function still runs under it: it has not left, so
//     the node stays.

// inner is a lock that has entered another one again.
type inner struct {
	Lock

	outer *queuer
}

// shared is a node that inner locks have, or had. The mutex of the outer one guards it.
type shared struct {
	book    recipes.Share
	holders []*Lock       // that have not left, and the last that has
	lost    *recipes.Lose // nil: the lock is not lost
}

// Admit returns a lock that enters this one again, or nil if this one is not held. From
// then on the node stays until the new lock has ended, too. Start or Fail must follow.
func (l *Lock) Admit(cfg Config) *Lock { return l.drive.admit(cfg) }

func (q *queuer) admit(cfg Config) *Lock {
	q.mu.Lock()
	defer q.mu.Unlock()
	lease := q.deadline(q.epoch)
	switch now := time.Now(); { // read after the lease, as in Valid
	case !now.Before(lease):
		return nil
	case q.rare != nil && isDue(q.rare.wish, now):
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

func (l *inner) admit(cfg Config) *Lock { return l.outer.admit(cfg) }

func (l *inner) deadline(epoch recipes.Epoch) time.Time { return l.outer.deadline(epoch) }

func (l *inner) use() (port Port, done func(spent bool)) { return l.outer.use() }

// hand passes on what an inner lock can ask for.
func (l *inner) hand(m message) bool {
	if m.bound != 0 {
		if !l.boundReached(&m) {
			return true
		}
		m = message{input: recipes.Withdrawn{Why: m.bound}}
	}
	switch m.input.(type) {
	case recipes.Started:
		if !m.open {
			return true // the bound ends it
		}
		return l.outer.hand(message{input: m.input, of: &l.Lock})
	case recipes.Withdrawn:
		return l.outer.hand(message{input: m.input, of: &l.Lock})
	default:
		return true
	}
}

func (l *inner) drop() {
	l.outer.hand(message{input: recipes.Withdrawn{Why: recipes.WhyReleased}, of: &l.Lock})
}

// receives grants the lock to an inner one. The loop calls it.
func (q *queuer) receives(l *Lock) {
	q.mu.Lock()
	e := recipes.Grant{Node: q.grant.node, Token: q.grant.token, Session: q.grant.session}
	var wish *recipes.Revoke
	if q.rare != nil {
		e.Abandoned, wish = q.rare.abandoned, q.rare.wish
	}
	epoch, lost, left := q.epoch, q.shared.lost, !slices.Contains(q.shared.holders, l)
	q.mu.Unlock()
	switch {
	case left:
		return
	case lost != nil:
		l.forfeits(*lost)()
		return
	}
	if grant, logs := l.onGrant(e, epoch); logs {
		l.log(grant)
	}
	if wish != nil {
		l.revoke(*wish)
	}
}

// leaves takes a holder of a shared node out. It returns what the machine hears, if that
// was the last one. The loop calls it.
func (q *queuer) leaves(holder *Lock, in recipes.Withdrawn) (all recipes.Withdrawn, last bool) {
	failed := holder != &q.Lock && holder.hasFailed()
	q.mu.Lock()
	at := q.shared
	i := slices.Index(at.holders, holder)
	if i < 0 { // it has left before
		q.mu.Unlock()
		return in, false
	}
	at.book, all, last = at.book.Leaves(in)
	if !last || failed {
		at.holders = slices.Delete(at.holders, i, i+1)
	}
	q.mu.Unlock()
	// The machine finishes the last holder. One that failed has ended already.
	if last || failed {
		return all, last
	}
	// Others hold on, so this one ends without the machine.
	holder.finish(recipes.Finish{Why: in.Why}, 0, false, nil)
	if holder != &q.Lock {
		holder.nothingIsLeft()
		return all, false
	}
	// It has nothing to wait for, but [Owner.Gone] comes when the node has gone.
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = true
	if q.rare != nil && q.rare.cleared != nil {
		close(q.rare.cleared)
		q.rare.cleared = nil
	}
	return all, false
}

// loses reports the loss to all holders. Once the outer one's state has changed, no first
// inner one is admitted. All states change before the first report, so no Grant of one
// holder can be taken after the Lost of another.
func (q *queuer) loses(e recipes.Lose) {
	reports := []func(){q.forfeits(e)}
	q.mu.Lock()
	if at := q.shared; at != nil {
		at.book, at.lost = at.book.Lost(), &e
	}
	q.mu.Unlock()
	for _, l := range q.left() {
		if l != &q.Lock && l.Holding() {
			reports = append(reports, l.forfeits(e))
		}
	}
	for _, report := range reports {
		report()
	}
}

// asksBack passes a revocation request on to the holders, and reports whether it reached
// one. A holder without a Grant gets the request with its Grant.
func (q *queuer) asksBack(e recipes.Revoke) (told bool) {
	q.mu.Lock()
	q.rarely().wish = &e
	q.mu.Unlock()
	for _, l := range q.left() {
		if l != &q.Lock && !l.Holding() || l.revoke(e) {
			told = true
		}
	}
	return told
}

// left returns the holders that are left: mostly the lock alone. It comes last, so
// a revocation request reaches those that have entered it again first. When the machine
// finishes, at most one holder is left: the machine learns only of the last withdrawal.
func (q *queuer) left() []*Lock {
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
