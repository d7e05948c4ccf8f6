package session

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/lease"
	"github.com/zkgrant/zkgrant/session/internal/wire"
)

// This file is about seats that hold: which they are, what renews their lease, and how
// they learn that it has run out. While no seat holds, and none is next in line, no lease
// is watched or renewed, and a silent server is left to the client. While one does, the
// session leaves a silent server itself, if another one serves.

// tell gives a seat's machine one input. A machine that does not hold its lock after that
// is no holder any more. Only a proof makes it one, see prove.
func (s *Session) tell(seat *Seat, in recipes.Input, err error) (holds bool) {
	if holds = seat.post(in, err); !holds {
		delete(s.holders, seat) // its lease is neither renewed nor watched any more
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
	delete(s.holders, seat)
	delete(s.unwatched, seat)
	delete(s.next, seat)
	if seat.single != nil {
		seat.single.known = false
	}
}

// isOverdue reports whether the deadline of a seat has come. Such a seat does not hold,
// even while that message is on its way.
func (s *Session) isOverdue(seat *Seat) bool {
	d, bounded := s.deadlines[seat]
	return bounded && !time.Now().Before(d.at)
}

// prove passes on an answer that may prove all that a grant needs but the lease, with
// whether the lease is good. The machine of a seat that takes the proof holds from then
// on. The loop judges the lease, and also notifies every holder when the lease has run
// out. So every machine with a fresh proof learns of the end of that lease. A node that
// the answer names is watched when it has been held for a while.
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
		if t.single != nil && !c.isOver() {
			t.single.known = true
		}
		r.node = t.ownPath(proof.Node)
	}
	if proof.Unwatched {
		s.unwatched[t] = struct{}{} // until it gives up its node: no listing will watch it
	}
	claim, _ := r.effect.(recipes.Claim)
	if _, claimed := in.(recipes.Claimed); claimed {
		if t.single != nil {
			t.single.noteCertain(c)
		}
		// Without a good lease the claim proves nothing yet, but it may renew the
		// session. A claim that is sent a window later is then a proof, and one that is
		// sent at once is not. So the machine gets the answer after the window, and
		// claims again.
		if !fresh && !claim.Held && !c.isOver() {
			time.AfterFunc(c.lease.Window(), func() { t.answer(in, nil) })
			return
		}
	}
	// A claim that only verifies a held lock makes no holder: the lock may have been lost
	// while it was being verified, and no other caller may enter it then.
	if holds := s.tell(t, in, nil); holds && fresh && !claim.Held {
		delete(s.next, t)
		s.holders[t] = r.node
		if c.pacer == nil {
			s.keepLease(c)
		}
	}
}

// keepLease begins to watch and renew the lease, when the first seat needs it.
func (s *Session) keepLease(c *client) {
	// A warm session has not written just now.
	s.pace(c, c.lease.State().Written.Add(s.interval(c)).Sub(s.clock.now()))
}

// pace looks after the lease (see tend) when the wait is over, or when the lease may have
// run out. If a timer has fired and its message is still in the mailbox, one look
// is too early, which does no harm.
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

// A warm session knows what a claim would say, and does not send it, see recipes/warmth.go.

// isKnown answers a claim or an advance if a warm session knows the answer. If it knows a part of the
// answer, the request is made for the rest, if the session is still warm then.
func (s *Session) isKnown(r *seatRequest) bool {
	c := s.client
	claim, _ := r.effect.(recipes.Claim) // an advance ends in the simplest one
	if !claim.Knowable(r.seat.layout) || !s.warmth(c, r).Claims() {
		return false
	}
	var in recipes.Input = recipes.Claimed{Epoch: r.epoch}
	if advance, is := r.effect.(recipes.Advance); is {
		if in = c.advances(r.seat, advance); in == nil {
			return false // the directory's data have to be read
		}
	}
	// Without an answer, a server that the client connects to may be older than the
	// Grant, see Seat.news.
	if r.seat.passed {
		r.seat.news.Store(true)
	}
	on := c.resumed
	s.loop.Post(func() { // after the machine's effects
		c.outdated = on != c.resumed
		r.settle(s, c, in, nil)
	})
	return true
}

// warmth is what the session knows of the seat that has made the request.
func (s *Session) warmth(c *client, r *seatRequest) recipes.Warmth {
	const half = 2
	return recipes.Warmth{
		Connected: c.phase.Load() == phaseUp,
		Listed:    r.seat.listed,
		Watched:   c.watches.Sure(r.node),
		Lease:     c.lease.Deadline().Sub(s.clock.now()) > c.link.Timeout()/half && s.recent(c),
	}
}

// warm writes for a seat that is next in line; see tend.
func (s *Session) warm(t *Seat) {
	if c := s.client; c.phase.Load() == phaseUp {
		s.next[t] = s.clock.now().Add(c.link.Timeout())
		if c.pacer == nil {
			s.keepLease(c)
		}
	}
}

// Proven reports whether the epoch's session counts as alive, and whether its events
// arrive: then news of another contender are at most two probe intervals old.
func (t *Seat) Proven(epoch recipes.Epoch) (alive, recent bool) {
	s := t.session
	c := s.inEpoch(epoch)
	if c == nil {
		return false, false
	}
	return s.clock.now().Before(c.lease.Deadline()), s.recent(c)
}

// recent reports whether a write was answered that was sent within two probe intervals.
// That answer came after all earlier events of its connection.
func (s *Session) recent(c *client) bool {
	const intervals = 2
	return s.clock.now().Sub(c.lease.State().Written) < intervals*s.interval(c)
}

// cover has the nodes of those watched that have held for a while. A short hold is over
// before, and costs no request for it.
func (s *Session) cover(c *client) {
	for seat := range s.unwatched {
		node, held := s.holders[seat]
		if !held {
			continue // it is about to claim
		}
		delete(s.unwatched, seat)
		if seat.single != nil {
			seat.want(c, node)
			s.take(&verification{epoch: c.epoch, seat: seat})
			continue
		}
		for _, node := range seat.nodes(node) {
			if seat.want(c, node) {
				s.take(&rearm{epoch: c.epoch, node: node})
			}
		}
		// Another seat may have read a revocation request before this watch was armed.
		s.repeatRequest(c, seat, seat.name(node))
	}
}

// ranOut ends the holds: the holders get LeaseRanOut, and hold nothing from then on.
func (s *Session) ranOut(c *client) {
	c.logger.Warn("lease ran out; every held lock counts as lost", zapSession(c),
		zap.Int("holders", len(s.holders)))
	if s.cfg.OnLease != nil {
		s.cfg.OnLease(Lease{Session: c.link.Session(), Deadline: c.deadline(), RanOut: true})
	}
	for seat := range s.holders {
		s.tell(seat, recipes.LeaseRanOut{}, nil)
	}
}

// renewedLate ends the holds that were renewed too late: they were invalid for a moment,
// and that may have been seen.
func (s *Session) renewedLate(c *client) {
	if !c.isOver() && len(s.holders) > 0 {
		s.ranOut(c)
	}
}

// tend looks after the lease of the holders, and of those next in line. It ends the holds
// if the lease has run out. It writes a probe, unless something else was written within
// the interval.
func (s *Session) tend(c *client) {
	now := s.clock.now()
	// The session writes for a seat next in line for one timeout only. The standby of an
	// election waits for as long as the leader leads.
	maps.DeleteFunc(s.next, func(_ *Seat, until time.Time) bool { return !now.Before(until) })
	switch {
	case len(s.holders)+len(s.next) == 0:
		c.pacer = nil
		return
	case !now.Before(c.lease.Deadline()):
		c.pacer = nil
		clear(s.next)
		if len(s.holders) > 0 {
			s.ranOut(c)
		}
		return
	}
	s.cover(c)
	// A probe does not wait for the one before it, see [lease.Pace].
	pace := lease.Pace{
		Interval: s.interval(c), Timeout: c.link.Timeout(), Written: c.lease.State().Written,
		Probed: c.probed, UnderWay: c.probes,
	}
	if wait := pace.Due(now); wait > 0 {
		s.pace(c, s.outwait(c, now, wait))
		return
	}
	s.pace(c, s.outwait(c, now, pace.Interval))
	if c.phase.Load() != phaseUp {
		return
	}
	// One probe does for all that is held, because it renews the life of the session.
	for seat, node := range s.holders { // a different one each time
		s.probe(c, seat, node)
		return
	}
	for seat := range s.next {
		s.probe(c, seat, seat.ownNode())
		return
	}
}

// probe writes, on the condition that the seat's node exists.
func (s *Session) probe(c *client, seat *Seat, node string) {
	c.probes, c.probed = c.probes+1, s.clock.now()
	c.inflight++
	s.group.Go(func() {
		err := c.check(node)
		s.loop.Hand(func() { s.probed(c, seat, node, err) })
	})
}

// probed takes the answer to a probe, or that there will be none.
func (s *Session) probed(c *client, seat *Seat, node string, err error) {
	defer s.finish(c)
	c.probes--
	if err == nil {
		return
	}
	c.logger.Debug("probe failed", zap.String("node", node), zap.Error(err))
	if errors.Is(err, zk.ErrNoNode) && !c.isOver() && s.holders[seat] == node {
		c.owners.lost(seat)
		s.noteNodeGone(seat)
		s.tell(seat, recipes.Gone{Epoch: c.epoch, Node: seat.name(node)}, nil)
	}
}

// outwait does what is to be done about a server that is silent. It returns when to look
// again, after the wait at the latest.
func (s *Session) outwait(c *client, now time.Time, wait time.Duration) time.Duration {
	// With LossOnSuspend a hang-up costs every lock. With one server there is no other to
	// turn to.
	if s.cfg.LossOnSuspend || c.hosts.Len() < 2 {
		return wait
	}
	timeout := c.link.Timeout()
	wait = min(wait, timeout/wire.PatiencePart/2) // the next request may be the first that is not answered
	w, since := c.dialer.Owing()
	if !since.Equal(c.silence) { // an answer has come, or another server is owed one
		c.silence, c.others = since, wire.OthersUnknown
		c.stopAsking()
	}
	q := wire.Silence{Timeout: timeout, Since: since, Took: c.lease.State().Took, Before: c.hungUp,
		Others: c.others}
	move, next := q.Next(now)
	switch move {
	case wire.MoveNone:
		return wait
	case wire.MoveWait:
		return min(wait, next)
	case wire.MoveAsk:
		// Hanging up helps only if another server serves.
		s.askOthers(c)
		return wait
	case wire.MoveHangUp:
	}
	c.hungUp = [2]time.Time{now, c.hungUp[0]}
	c.logger.Warn("server does not answer, but another one does; closing the connection", zapSession(c),
		zapServer(c), zap.Duration("for", now.Sub(since)))
	_ = w.Fail(wire.ErrSilent) // the client learns of it from Read, and moves on to the next server
	return wait
}

// askOthers asks the other servers whether they serve, until the client itself would hang
// up.
//
//nolint:contextcheck,nolintlint // no caller waits for it; the linter heeds this at the callers
func (s *Session) askOthers(c *client) {
	ctx, cancel := context.WithTimeout(context.Background(), wire.ClientPatience(c.link.Timeout()))
	since := c.silence
	c.others, c.stopAsking = wire.OthersAsked, cancel
	s.group.Go(func() {
		defer cancel()
		serves := c.dialer.Ask(ctx)
		s.postFor(c, func() { s.othersAsked(c, since, serves) })
	})
}

// othersAsked takes the answers of the other servers, which were asked in a silence.
// since says when it began.
func (s *Session) othersAsked(c *client, since time.Time, serves bool) {
	if c.phase.Load() != phaseUp || !since.Equal(c.silence) {
		return
	}
	if !serves {
		c.logger.Warn("server does not answer, nor does another one; waiting", zapSession(c), zapServer(c))
		return
	}
	c.others = wire.OthersServe
	if c.pacer != nil {
		s.pace(c, 0)
	}
}
