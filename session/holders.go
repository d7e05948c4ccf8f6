package session

import (
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about seats that hold: which they are, what renews their lease, and how
// they learn that it has run out. While no seat holds, and none is next in line, no lease
// is watched or renewed.

// tell gives a seat's machine one input. A machine that does not hold its lock after that
// is no holder any more. Only a proof makes it one, see prove.
func (s *Session) tell(seat *Seat, in recipes.Input, err error) (holds bool) {
	if holds = seat.post(in, err); !holds {
		s.endHold(seat)
	}
	return holds
}

// broadcast notifies all seats, in the order in which they were made, as far as that
// order is kept: of two waiters for one lock the first asks first. With many seats this
// order is also twice as fast as any other, because their memory is in it. A machine that
// ends takes its seat out of s.seats.
func (s *Session) broadcast(in recipes.Input) {
	for _, seat := range slices.Clone(s.seats) {
		s.tell(seat, in, nil)
	}
}

// answer is tell after what the loop is doing: for an answer that is known at once,
// while the machine's effects are still being carried out. Any goroutine may call it.
func (t *Seat) answer(in recipes.Input, err error) {
	t.session.loop.Post(func() { t.session.tell(t, in, err) })
}

// endHold has the lease neither renewed nor watched for the seat any more.
func (s *Session) endHold(seat *Seat) { delete(s.holders, seat) }

// noteRequest notes what a request says about its seat.
func (s *Session) noteRequest(r *seatRequest) {
	switch r.op {
	case recipes.OpCreate, recipes.OpDelete:
		s.noteNodeGone(r.seat)
		r.seat.listed = false
	case recipes.OpList:
		r.turn, r.seat.passed = r.seat.passed, false
		r.seat.turn = r.turn
	case recipes.OpWatch:
		r.turn = r.seat.turn // what the list request has found may be gone
	case recipes.OpClaim, recipes.OpAdvance, recipes.OpSurvey, recipes.OpEnter, recipes.OpArm:
	}
}

// noteNodeGone notes that the seat has no node, or will soon have none.
func (s *Session) noteNodeGone(seat *Seat) {
	s.endHold(seat)
	delete(s.unwatched, seat)
	delete(s.next, seat)
	seat.knows(false)
}

// isOverdue reports whether the deadline of a seat has come. Such a seat does not hold,
// even while that message is on its way.
func (s *Session) isOverdue(seat *Seat) bool {
	d, bounded := s.deadlines[seat]
	return bounded && !time.Now().Before(d.at)
}

// noteOwn notes that an answer has said that the node is the seat's.
func (s *Session) noteOwn(c *client, seat *Seat) {
	if !c.isOver() {
		seat.knows(true)
	}
}

// knows notes whether the one node of a lock is known to be the seat's.
func (t *Seat) knows(own bool) {
	if t.single != nil {
		t.single.known = own
	}
}

// prove passes on an answer that may prove all that a grant needs but the lease, with
// whether the lease is good. The machine of a seat that takes the proof holds from then
// on. The loop judges the lease, and also notifies every holder when the lease has run
// out. So every machine with a fresh proof learns of the end of that lease. A node that
// the answer names is watched when it has been held for a while.
//
// If the lease is not good, a claim proves nothing yet, but it may renew the session. A
// claim that is sent a window later is then a proof, and one that is sent at once is not.
// So the machine gets the answer after the window, and claims again.
func (s *Session) prove(c *client, r *seatRequest, in recipes.Input) {
	t := r.seat
	fresh := !c.isOver() && s.clock.now().Before(c.lease.Deadline())
	proof, proves := recipes.Prove(in, t.permits == nil, fresh)
	if !proves {
		s.tell(t, in, nil)
		return
	}
	in = proof.Answer
	if proof.Node.Text != "" {
		s.noteOwn(c, t)
		r.node = t.ownPath(proof.Node)
	}
	if proof.Unwatched {
		s.unwatched[t] = struct{}{} // until it gives up its node: no listing will watch it
	}
	claim, _ := r.effect.(recipes.Claim)
	if _, claimed := in.(recipes.Claimed); claimed {
		s.noteCertain(c, t)
		if !fresh && !claim.Held && !c.isOver() {
			time.AfterFunc(c.lease.Window(), func() { t.answer(in, nil) })
			return
		}
	}
	if holds := s.tell(t, in, nil); holds && fresh && !claim.Held {
		delete(s.next, t)
		s.holders[t] = r.node
		s.keepLease(c)
	}
}

// noteCertain notes that an answer has said that the node is the seat's. An answer of an
// earlier connection says nothing about what has happened since.
func (s *Session) noteCertain(c *client, t *Seat) {
	if t.single != nil && c.is(phaseUp) {
		t.single.uncertain.Store(false)
	}
}

// keepLease watches and renews the lease.
func (s *Session) keepLease(c *client) {
	if c.pacer == nil {
		s.pace(c, c.lease.State().Written.Add(s.interval(c)).Sub(s.clock.now())) // a warm session has not written just now
	}
}

// pace looks after the lease (see tend) when the wait is over, or when the lease may have
// run out. A timer that has fired and whose message is still in the mailbox has
// the look come too early once, which does no harm.
func (s *Session) pace(c *client, wait time.Duration) {
	if c.pacer != nil {
		c.pacer.Stop()
	}
	wait = min(wait, c.lease.Deadline().Sub(s.clock.now()))
	c.pacer = time.AfterFunc(wait, func() { s.postFor(c, func() { s.tend(c) }) })
}

// probePart is the part of the timeout that is between two probes, unless the config
// says otherwise.
const probePart = 10

// interval returns how long after a write the next one is due.
func (s *Session) interval(c *client) time.Duration {
	timeout := c.link.Timeout()
	if s.cfg.ProbeInterval == 0 {
		return timeout / probePart
	}
	return min(s.cfg.ProbeInterval, timeout/probeMin)
}
