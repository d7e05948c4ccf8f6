package session

import (
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about seats that hold: which they are, what renews their lease, and how they hear that it has run out. While no seat
// holds, no lease is watched or renewed.

// note sets a seat's tenure. A seat that does not hold leaves holders. Before a seat comes to hold, judge puts it there with its node.
func (s *Session) note(seat *Seat, now recipes.Tenure[uint32]) {
	seat.tenure = now
	if !now.Holds() {
		delete(s.holders, seat)
	}
	if now.LacksWatch() {
		s.unwatched[seat] = struct{}{}
	} else {
		delete(s.unwatched, seat)
	}
}

// noteTenure notes what a request says about its seat.
func (s *Session) noteTenure(r *asked) {
	if s.lastAsked++; s.lastAsked == 0 {
		s.lastAsked++ // 0 is none
	}
	r.number = s.lastAsked
	claim, _ := r.effect.(recipes.Claim)
	s.note(r.seat, r.seat.tenure.Asked(r.op, r.number, claim.Held))
	switch r.op {
	case recipes.OpCreate, recipes.OpDelete:
		r.seat.layout.told(false)
		r.seat.listed = false
	case recipes.OpList:
		r.turn, r.seat.passed = r.seat.passed, false
		r.seat.turn = r.turn
	case recipes.OpWatch:
		r.turn = r.seat.turn // what the list request has found may be gone
	case recipes.OpClaim, recipes.OpAdvance, recipes.OpSurvey, recipes.OpEnter, recipes.OpArm:
	}
}

// gaveUp: the seat has no node, or will soon have none.
func (s *Session) gaveUp(seat *Seat) {
	s.note(seat, seat.tenure.GaveUp())
	seat.layout.told(false)
}

// lostNode: the node of a seat that holds is gone.
func (s *Session) lostNode(c *client, seat *Seat) {
	seat.layout.lost(c, seat)
	s.gaveUp(seat)
}

// ceased: the seat is no holder any more, see [recipes.Tenure.Ceased].
func (s *Session) ceased(seat *Seat) { s.note(seat, seat.tenure.Ceased()) }

// isOverdue reports whether the deadline of a seat has come. Such a seat does not hold, even while that message is on its way.
func (s *Session) isOverdue(seat *Seat) bool {
	d, bounded := s.deadlines[seat]
	return bounded && !time.Now().Before(d.at)
}

// noteOwn notes that an answer has said that the node is the seat's.
func (s *Session) noteOwn(c *client, seat *Seat) {
	if !c.isOver() {
		seat.layout.told(true)
	}
}

// nobodyHolds: there is no session.
func (s *Session) nobodyHolds() {
	for _, seat := range s.seats {
		s.note(seat, seat.tenure.GaveUp())
	}
}

// judge reports whether the lease is good, for an answer that proves the rest, and makes the seat a holder if it is. An
// answer is fresh only before the deadline of the lease, and then its seat is in holders. The drain judges, and the drain also sends
// LeaseRanOut to every seat in holders. So every seat with a fresh proof hears of the end of that lease.
func (s *Session) judge(c *client, r *asked) (fresh bool) {
	now, fresh := r.seat.tenure.Proven(r.number, !c.isOver() && s.clock.now().Before(c.lease.Deadline()))
	if now.Holds() && !r.seat.tenure.Holds() {
		s.holders[r.seat] = r.node
		s.keepLease(c)
	}
	s.note(r.seat, now)
	return fresh
}

// prove passes on an answer that may prove all that a grant needs. A node that the answer names is watched when it has been held for a
// while.
//
// If the lease is not good, a claim proves nothing yet, but it may renew the session. A claim that is sent a window later is then a
// proof, and one that is sent at once is not. So the seat gets the answer after the window, and its machine claims again.
func (s *Session) prove(c *client, r *asked, in recipes.Input) {
	node, unwatched, proves := recipes.Proves(in, r.seat.layout.firstHolds())
	if !proves {
		r.seat.post(in, nil)
		return
	}
	if node != "" {
		s.noteOwn(c, r.seat)
		r.node = r.seat.ownPath(node)
	}
	fresh := s.judge(c, r)
	if unwatched {
		s.note(r.seat, r.seat.tenure.Unwatched(r.number))
	}
	in = recipes.Judged(in, fresh)
	if _, claimed := in.(recipes.Claimed); claimed {
		s.noteCertain(c, r.seat)
		if !fresh && r.seat.tenure.Awaits(r.number) && !c.isOver() {
			time.AfterFunc(c.lease.Window(), func() { r.seat.post(in, nil) })
			return
		}
	}
	r.seat.post(in, nil)
}

// noteCertain notes that an answer has said that the node is the seat's. An answer of an earlier connection says nothing of what has
// happened since.
func (s *Session) noteCertain(c *client, t *Seat) {
	if t.single != nil && c.is(phaseUp) {
		t.single.uncertain.Store(false)
	}
}

// keepLease has the lease watched and renewed.
func (s *Session) keepLease(c *client) {
	if c.watchdog == nil {
		s.schedule(c)
	}
	if c.pacer == nil {
		s.pace(c, c.lease.Written().Add(s.interval(c)).Sub(s.clock.now())) // a warm session has not written just now
	}
}

// schedule has the lease checked when it may have run out.
func (s *Session) schedule(c *client) {
	if c.watchdog != nil {
		c.watchdog.Stop()
	}
	c.watchdog = time.AfterFunc(c.lease.Deadline().Sub(s.clock.now()), func() { s.postFor(c, func() { s.checkLease(c) }) })
}

// pace has it checked after the wait, and not before, whether a probe is due. A timer that has fired and of which the message is still
// in the mailbox has the check come too early once, which does no harm.
func (s *Session) pace(c *client, wait time.Duration) {
	if c.pacer != nil {
		c.pacer.Stop()
	}
	c.pacer = time.AfterFunc(wait, func() { s.postFor(c, func() { s.probe(c) }) })
}

// probePart is the part of the timeout that lies between two probes, unless the config says otherwise.
const probePart = 10

// interval returns how long after a write the next one is due.
func (s *Session) interval(c *client) time.Duration {
	timeout := c.link.Timeout()
	if s.cfg.ProbeInterval == 0 {
		return timeout / probePart
	}
	return min(s.cfg.ProbeInterval, timeout/probeMin)
}
