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
	at, lease := q.company(), q.deadline(q.epoch)
	switch now := time.Now(); { // read after the lease, as in Valid
	case !now.Before(lease):
		return nil
	case q.rare != nil && isDue(q.rare.wish, now):
		return nil
	case at == nil:
		if q.state != holding {
			return nil
		}
		at = &shared{book: recipes.NewShare(), holders: []*Lock{&q.Lock}}
		q.rarely().shared = at
	}
	book, entered := at.book.Enters()
	if !entered {
		return nil
	}
	l := &inner{outer: q}
	l.init(cfg, l)
	at.book, at.holders = book, append(at.holders, &l.Lock)
	return &l.Lock
}

// company returns the shared node, or nil if no lock was ever admitted. It is called with
// mu held.
func (l *Lock) company() *shared {
	if l.rare == nil {
		return nil
	}
	return l.rare.shared
}

func (l *inner) admit(cfg Config) *Lock { return l.outer.admit(cfg) }

func (l *inner) deadline(epoch recipes.Epoch) time.Time { return l.outer.deadline(epoch) }

func (l *inner) use() (port Port, done func(spent bool)) { return l.outer.use() }

// hand passes on what an inner lock can ask for.
func (l *inner) hand(m message) {
	if m.bound != 0 {
		if !l.boundReached(&m) {
			return
		}
		m = message{input: recipes.Withdrawn{Why: m.bound}}
	}
	switch m.input.(type) {
	case recipes.Started:
		if m.open { // else the bound ends it
			l.outer.hand(message{input: m.input, of: &l.Lock})
		}
	case recipes.Withdrawn:
		l.outer.hand(message{input: m.input, of: &l.Lock})
	}
}

func (l *inner) drop() {
	l.outer.hand(message{input: recipes.Withdrawn{Why: recipes.WhyReleased}, of: &l.Lock})
}

// receives grants the lock to an inner one. The loop calls it.
func (q *queuer) receives(l *Lock) {
	q.mu.Lock()
	e := recipes.Grant{Node: q.grant.node, Token: q.grant.token, Session: q.grant.session, Abandoned: q.rare.abandoned}
	epoch, wish, lost, left := q.epoch, q.rare.wish, q.rare.shared.lost, !slices.Contains(q.rare.shared.holders, l)
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
		l.onRevoke(*wish)
	}
}

// leaves takes a holder out. It returns what the machine hears, if that was the last one.
// The loop calls it.
func (q *queuer) leaves(holder *Lock, in recipes.Withdrawn) (all recipes.Withdrawn, last bool) {
	failed := holder != &q.Lock && holder.hasFailed()
	q.mu.Lock()
	at := q.company()
	if at == nil {
		q.mu.Unlock()
		return in, true
	}
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
	if last || failed {
		return all, last
	}
	holder.onFinish(recipes.Finish{Why: in.Why}, 0, false)
	if holder == &q.Lock {
		holder.isGone() // and [Owner.Gone] comes when the node has gone
	} else {
		holder.nothingIsLeft()
	}
	return all, false
}

// loses reports the loss to all holders. Once the outer one's state has changed, no first
// inner one is admitted. All states change before the first report, so no Grant of one
// holder can be taken after the Lost of another.
func (q *queuer) loses(e recipes.Lose) {
	reports := []func(){q.forfeits(e)}
	q.mu.Lock()
	if at := q.company(); at != nil {
		at.book, at.lost = at.book.Lost(), &e
	}
	q.mu.Unlock()
	for _, l := range q.inners() {
		if l.Holding() {
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
	told = q.onRevoke(e)
	for _, l := range q.inners() {
		if !l.Holding() || l.onRevoke(e) {
			told = true
		}
	}
	return told
}

// inners returns the holders that have entered again.
func (q *queuer) inners() []*Lock {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.company()
	if at == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(at.holders), func(l *Lock) bool { return l == &q.Lock })
}

// left calls f with each holder that is left.
func (q *queuer) left(f func(l *Lock)) {
	for _, l := range q.inners() {
		f(l)
	}
	q.mu.Lock()
	at := q.company()
	stays := at == nil || slices.Contains(at.holders, &q.Lock)
	q.mu.Unlock()
	if stays {
		f(&q.Lock)
	}
}
