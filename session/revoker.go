package session

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// This file is about those who want a lock back. Holders are in revoke.go.

var (
	// ErrNotHeld says that nobody holds the lock.
	ErrNotHeld = errors.New("zkgrant: nobody holds the lock")
	// ErrNotRevocable says that a holder has not agreed to give the lock back.
	ErrNotRevocable = errors.New("zkgrant: a holder has not agreed to give the lock back")
)

// mostVisits bounds the holders that one revocation asks or looks after at a time, as mostLooks does looks.
const mostVisits = 8

// Revoke asks whoever holds the lock at the path to give it back within the grace, and returns nil when all of them are gone. Whoever is
// still there when the grace is over, and five quarters of the session timeout behind that, its own or ours, whichever is longer, is
// removed. Who comes to hold it later is not asked.
//
// It waits for a connection, if there is none, and survives the end of the session, until ctx ends: then it returns
// the cause; what was asked is asked, and nobody is removed. The error is that, [ErrNotHeld], [ErrNotRevocable] or [ErrKind], of
// which nobody has heard anything, ErrClosed, or a server's refusal.
func (s *Session) Revoke(ctx context.Context, dir string, grace time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r := &revocation{session: s, dir: join(s.chroot, dir), grace: within(grace).grace, outcome: make(chan error, 1)}
	if !s.actor.Post(revoking{r}) { // nothing is left of the session
		return ErrClosed
	}
	select {
	case err := <-r.outcome:
		return err
	case <-ctx.Done():
		s.actor.Post(unrevoked{r})
		return context.Cause(ctx)
	}
}

// revocation is one wish to have a lock back. Only the session's drain touches it, but for what says otherwise.
type revocation struct {
	session *Session
	dir     string // with the chroot
	grace   time.Duration
	outcome chan error  // size 1; written once, by end
	over    atomic.Bool // set by the drain; what is made behind that does nothing

	holders []*holder // those who are not known to be gone; nil before they are listed
	due     []*visit
	visits  int // parked or under way
}

// patience is how long behind the grace a holder is removed whose node names this session timeout, or 0. The holder believes in its lock
// for no longer than that, though it hears nothing: 1. it holds for less than a probe interval, and does not watch its node yet; 2. the wish
// is written; 3. its session writes for another lock, which renews its lease; 4. its connection falls silent before the interval is over, in
// which it would have read the wish. Its lease ends up to a timeout of its own behind that. An interval is at most a part of the timeout (see
// [Config]). Of a node without a timeout ours is taken.
func (s *Session) patience(holder time.Duration) time.Duration {
	timeout := max(s.Timeout(), holder)
	return timeout + timeout/probeMin
}

// holder is one who is asked: a node, or all the leases of an attempt. While a visit is under way it is that one's, but
// for what says otherwise, and the session's drain's at other times.
type holder struct {
	of    *revocation
	nodes []string // what is left of him; the wish stands in the first
	ours  bool     // he knows our form of the wish
	born  int64    // the zxid that created the first node; 0 before that was read

	until time.Time // when the grace is over; zero before he was asked
	last  time.Time // when he is removed

	// The drain's at any time.
	visit *visit      // due or under way
	again bool        // something has happened since that began
	timer *time.Timer // until last
}

func (s *Session) onRevoking(r *revocation) {
	if s.closing {
		r.end(ErrClosed)
		return
	}
	s.revoking = append(s.revoking, r)
	s.onRequest(&listing{of: r})
}

// found begins with those who hold.
func (r *revocation) found(holders []*holder) {
	r.holders = holders
	for _, h := range holders {
		h.lookAgain(r.session.client, false)
	}
}

// lookAgain has every holder looked at, on a connection behind another one.
func (r *revocation) lookAgain(c *client) {
	for _, h := range r.holders {
		h.lookAgain(c, false)
	}
}

// end says how it went, and forgets everything; nobody is told who does not wait any more. It does nothing the second time.
func (r *revocation) end(err error) {
	if !r.over.CompareAndSwap(false, true) {
		return
	}
	r.outcome <- err
	s := r.session
	s.revoking = slices.DeleteFunc(s.revoking, func(other *revocation) bool { return other == r })
	for q := range s.pending.all() { // a caller that gives up again and again would leave any number
		if r.drops(q) {
			s.pending.remove(q)
		}
	}
	for _, h := range r.holders {
		h.forget(r.session.client)
	}
	r.holders, r.due = nil, nil
}

// drops tells whether the request is one of its own, which will not be made then.
func (r *revocation) drops(q request) bool {
	switch q := q.(type) {
	case *listing:
		return q.of == r
	case *visit:
		if q.holder.of == r {
			q.holder.visit = nil
			return true
		}
	}
	return false
}

// next makes the visits that are due, as many at a time as may be.
func (r *revocation) next() {
	for len(r.due) > 0 && r.visits < mostVisits && !r.over.Load() {
		v := r.due[0]
		r.due = r.due[1:]
		r.visits++
		v.made = true
		r.session.onRequest(v)
	}
}

// gone notes that a holder is. The last one ends it.
func (r *revocation) gone(h *holder) {
	r.holders = slices.DeleteFunc(r.holders, func(other *holder) bool { return other == h })
	if len(r.holders) == 0 {
		r.end(nil)
	}
}

var _ onlooker = (*holder)(nil)

// lookAgain is called when something may have happened to the node, or something is to be done about it.
func (h *holder) lookAgain(_ *client, _ bool) {
	switch {
	case h.of.over.Load():
	case h.visit == nil:
		h.visit, h.again = &visit{holder: h}, false
		h.of.due = append(h.of.due, h.visit)
		h.of.next()
	case h.visit.begun.Load():
		h.again = true
	default: // it will see that
	}
}

// visited goes on after a visit.
func (h *holder) visited(s *Session) {
	h.visit = nil
	switch {
	case len(h.nodes) == 0:
		h.forget(s.client)
		h.of.gone(h)
	case h.again:
		h.lookAgain(s.client, false)
	}
	if h.timer == nil && !h.last.IsZero() && len(h.nodes) > 0 && !h.of.over.Load() {
		h.timer = time.AfterFunc(time.Until(h.last), func() { s.actor.Post(impatient{h}) })
	}
}

// forget ends the interest in the node. A visit that is under way does so itself, when it is over.
func (h *holder) forget(c *client) {
	if h.timer != nil {
		h.timer.Stop()
	}
	if h.visit == nil || !h.visit.made {
		h.unwatch(c)
	}
}

func (h *holder) unwatch(c *client) {
	if c != nil && len(h.nodes) > 0 {
		c.looks.forget(h.nodes[0], h)
	}
}

// zapNode says in the log whose lock it is.
func (h *holder) zapNode() zap.Field { return zap.String("node", h.nodes[0]) }

// askAgain has every revocation look again, on a connection behind another one.
func (s *Session) askAgain(c *client) {
	for _, r := range s.revoking {
		r.lookAgain(c)
	}
}
