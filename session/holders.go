package session

import (
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about seats that hold: who they are, what keeps their lease alive,
// and how they hear that it has run out. As long as nobody holds, no lease is
// watched and none is renewed.

// note writes down what a seat's tenure is now, and lists the seat by it. A seat that has come to hold is listed with its node before.
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

// noteTenure takes a request for what it says about its seat.
func (s *Session) noteTenure(r *asked) {
	if s.lastAsked++; s.lastAsked == 0 {
		s.lastAsked++ // 0 is none
	}
	r.number = s.lastAsked
	s.note(r.seat, r.seat.tenure.Asked(r.op, r.number, r.held))
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

// ceased: the seat is no holder any more, see [recipes.Tenure.Ceased].
func (s *Session) ceased(seat *Seat) { s.note(seat, seat.tenure.Ceased()) }

// holds tells whether the seat holds, before its node is shared or its place is taken. One whose deadline has come does not, even
// while the message of that is on its way.
func (s *Session) holds(seat *Seat) bool {
	d, bounded := s.deadlines[seat]
	return seat.tenure.Holds() && (!bounded || time.Now().Before(d.at))
}

// noteOwn notes that an answer has said that the node is the seat's.
func (s *Session) noteOwn(c *client, seat *Seat) {
	if c == s.client && !c.over {
		seat.layout.told(true)
	}
}

// nobodyHolds: there is no session.
func (s *Session) nobodyHolds() {
	for _, seat := range s.seats {
		s.note(seat, seat.tenure.GaveUp())
	}
	clear(s.shares)
}

// judge tells whether the lease is good, for an answer that proves all the rest, and
// takes the seat for a holder if it is. LeaseRanOut is sent by the same goroutine, and
// nobody's proof is fresh who is no holder then; so whoever is told that it is will
// hear of the end of that lease.
func (s *Session) judge(c *client, r *asked) (fresh bool) {
	now, fresh := r.seat.tenure.Proven(r.number, c == s.client && !c.over && s.clock.now().Before(c.lease.Deadline()))
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
// A claim may renew the life of a session that nothing was known of for so long that it proves nothing yet. It does to one that is sent
// so much later, and not to one that is sent at once, so the seat hears of it when trying again makes sense.
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
		if !fresh && r.seat.tenure.Awaits(r.number) && c == s.client && !c.over {
			time.AfterFunc(c.lease.Window(), func() { r.seat.post(in, nil) })
			return
		}
	}
	r.seat.post(in, nil)
}

// noteCertain notes that an answer has said that the node is the seat's. One of the connection before says
// nothing of what has happened since.
func (s *Session) noteCertain(c *client, t *Seat) {
	if t.single != nil && c.up {
		t.single.uncertain.Store(false)
	}
}

// keepLease sees to it that the lease is watched and renewed.
func (s *Session) keepLease(c *client) {
	if c.watchdog == nil {
		s.schedule(c)
	}
	if c.pacer == nil {
		s.pace(c, c.lease.Written().Add(s.interval(c)).Sub(s.clock.now())) // a warm session has not written just now
	}
}

// schedule has the lease looked at when it may have run out.
func (s *Session) schedule(c *client) {
	if c.watchdog != nil {
		c.watchdog.Stop()
	}
	c.watchdog = time.AfterFunc(c.lease.Deadline().Sub(s.clock.now()), func() { s.actor.Post(ticked{c}) })
}

// pace has it looked at after the wait, and not before, whether a probe is due. One
// that has fired and is still in the mailbox comes too early once, and no harm is done.
func (s *Session) pace(c *client, wait time.Duration) {
	if c.pacer != nil {
		c.pacer.Stop()
	}
	c.pacer = time.AfterFunc(wait, func() { s.actor.Post(paced{c}) })
}

// probePart is which part of the timeout lies between two probes, unless the config says something else.
const probePart = 10

// interval returns how long after a write the next one is due.
func (s *Session) interval(c *client) time.Duration {
	timeout := c.link.Timeout()
	if s.cfg.ProbeInterval == 0 {
		return timeout / probePart
	}
	return min(s.cfg.ProbeInterval, timeout/probeMin)
}

// ticked: the lease may have run out.
type ticked struct{ c *client }

// paced: a probe may be due.
type paced struct{ c *client }
