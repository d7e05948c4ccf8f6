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

// This file is about seats that hold: which ones they are, what renews their lease, and
// how they learn that it has run out. The lease is watched and renewed only while a seat
// holds or is next in line. During that time, the session itself leaves a silent server
// if another one serves; at other times, only the client does.

// tell passes one input to a seat's machine. If the machine does not hold its lock after
// that, the seat is no longer a holder. Only prove makes it one.
func (s *Session) tell(seat *Seat, in recipes.Input, err error) (holds bool) {
	if holds = seat.post(in, err); !holds {
		delete(s.holders, seat) // stop renewing and watching its lease
	}
	return holds
}

// broadcast notifies all seats, roughly in the order in which they were opened, so that
// of two waiters for one lock the first usually asks first. With many seats, that is also
// twice as fast as a random order, because it follows their layout in memory. The slice
// is cloned because a machine that ends removes its seat from s.seats.
func (s *Session) broadcast(in recipes.Input) {
	for _, seat := range slices.Clone(s.seats) {
		s.tell(seat, in, nil)
	}
}

// answer is like tell, but is posted to the loop. It is for an answer known at once,
// while the machine's effects are still being executed. Any goroutine may call it.
func (t *Seat) answer(in recipes.Input, err error) {
	t.session.loop.Post(func() { t.session.tell(t, in, err) })
}

// noteRequest notes what a request implies about its seat.
func (s *Session) noteRequest(r *seatRequest) {
	switch r.op {
	case recipes.OpCreate, recipes.OpDelete:
		s.noteNodeGone(r.seat)
		r.seat.listed = false
	case recipes.OpList:
		r.turn, r.seat.passed = r.seat.passed, false
		r.seat.turn = r.turn
	case recipes.OpWatch:
		r.turn = r.seat.turn // what the list request found may be gone
	case recipes.OpClaim, recipes.OpAdvance, recipes.OpSurvey, recipes.OpEnter, recipes.OpArm:
	}
}

// noteNodeGone notes that the seat has no node, or soon will not.
func (s *Session) noteNodeGone(seat *Seat) {
	delete(s.holders, seat)
	delete(s.unwatched, seat)
	delete(s.next, seat)
	if seat.single != nil {
		seat.single.known = false
	}
}

// lostNode notifies the seat that its node is gone.
func (s *Session) lostNode(c *client, seat *Seat, node string) {
	if seat.single != nil {
		c.owners.leave(seat)
	}
	s.noteNodeGone(seat)
	s.tell(seat, recipes.Gone{Epoch: c.epoch, Node: seat.name(node)}, nil)
}

// isOverdue reports whether the seat's revocation deadline has passed. Such a seat no
// longer holds, even before its machine receives the news.
func (s *Session) isOverdue(seat *Seat) bool {
	d, bounded := s.deadlines[seat]
	return bounded && !s.clock.now().Before(d.at)
}

// prove passes on an answer that may prove everything a grant needs except the lease, and
// adds whether the lease is good. If the machine then holds its lock, its seat is a
// holder from now on. The loop both judges the lease here and notifies all holders when
// it runs out, so every machine with a fresh proof learns of the end of that lease. A
// node that the answer names is watched only once it has been held for a while.
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
	if proof.Unwatched && !c.isOver() {
		s.unwatched[t] = struct{}{} // until it gives up its node, because no listing watches it
	}
	claim, _ := r.effect.(recipes.Claim)
	if _, claimed := in.(recipes.Claimed); claimed {
		if t.single != nil {
			t.single.noteCertain(c)
		}
		// Without a good lease, the claim proves nothing yet, but it may renew the
		// session. Then a claim sent one window later is a proof, whereas one sent at
		// once is not. So the machine gets the answer after the window, and claims again.
		if !fresh && !claim.Held && !c.isOver() {
			time.AfterFunc(c.lease.State().Window, func() { t.answer(in, nil) })
			return
		}
	}
	// A claim that only verifies a held lock does not make the seat a holder: the lock
	// may have been lost in the meantime, and must not be entered again then.
	if holds := s.tell(t, in, nil); holds && fresh && !claim.Held {
		delete(s.next, t)
		s.holders[t] = r.node
		if c.pacer == nil {
			s.keepLease(c)
		}
	}
}

// keepLease starts to watch and renew the lease, when the first seat needs it.
func (s *Session) keepLease(c *client) {
	// The last write may have been a while ago: a warm session grants without one.
	s.pace(c, c.lease.State().Written.Add(s.interval(c)).Sub(s.clock.now()))
}

// pace schedules tend for the end of the wait, or for when the lease may run out, if that
// is earlier. If the old timer has fired and its message is still in the mailbox, tend
// runs once too early, which does no harm.
func (s *Session) pace(c *client, wait time.Duration) {
	if c.pacer != nil {
		c.pacer.Stop()
	}
	wait = min(wait, c.lease.Deadline().Sub(s.clock.now()))
	c.pacer = time.AfterFunc(wait, func() { s.postFor(c, func() { s.tend(c) }) })
}

// probePart is the number of probes per session timeout, unless the config says
// otherwise.
const probePart = 10

// interval returns how long after a write the next one is due.
func (s *Session) interval(c *client) time.Duration {
	timeout := c.link.Timeout()
	if s.cfg.ProbeInterval == 0 {
		return timeout / probePart
	}
	return min(s.cfg.ProbeInterval, timeout/probeMin)
}

// A warm session knows the answer to a claim and does not send it; see recipes/warmth.go.

// isKnown answers a claim or an advance if a warm session knows the answer, and reports
// whether it did. If the session knows only a part of an advance, the request is sent for
// the other parts.
func (s *Session) isKnown(r *seatRequest) bool {
	c := s.client
	claim, _ := r.effect.(recipes.Claim) // the zero value for an advance, which includes a simple claim
	if !claim.Knowable(r.seat.layout, r.seat.needs(r.node)) || !s.warmth(c, r).Claims() {
		return false
	}
	var in recipes.Input = recipes.Claimed{Epoch: r.epoch}
	if e, is := r.effect.(recipes.Advance); is {
		a := recipes.Handoff{}.Knows(c.dirs.isFree(r.seat.dir, e.Past.Text, e.Next.Text)).Claims()
		if a.Wants(recipes.PartFloor) {
			return false // the directory's data must be read
		}
		in, _ = a.Answer(r.epoch)
	}
	// No answer precedes this Grant, so the client may connect to a server with an older
	// state; see Seat.news.
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

// warmth returns what the session knows about the seat of the request.
func (s *Session) warmth(c *client, r *seatRequest) recipes.Warmth {
	const half = 2
	return recipes.Warmth{
		Connected: c.phase.Load() == phaseUp,
		Listed:    r.seat.listed,
		Watched:   c.watches.Sure(r.node),
		Lease:     c.lease.Deadline().Sub(s.clock.now()) > c.link.Timeout()/half && s.recent(c),
	}
}

// warm keeps the session warm for a seat that is next in line; see tend.
func (s *Session) warm(t *Seat) {
	if c := s.client; c.phase.Load() == phaseUp {
		s.next[t] = s.clock.now().Add(c.link.Timeout())
		if c.pacer == nil {
			s.keepLease(c)
		}
	}
}

// Proven reports whether the epoch's session counts as alive, and whether its events
// arrive. If they do, an event about another contender is at most two probe intervals
// late.
func (t *Seat) Proven(epoch recipes.Epoch) (alive, recent bool) {
	s := t.session
	c := s.inEpoch(epoch)
	if c == nil {
		return false, false
	}
	return s.clock.now().Before(c.lease.Deadline()), s.recent(c)
}

// recent reports whether a write sent within two probe intervals was answered. The answer
// follows all earlier events of its connection. The answer to a handshake may come from a
// deposed leader, so it does not count.
func (s *Session) recent(c *client) bool {
	const intervals = 2
	return s.clock.now().Sub(c.lease.State().Quorum) < intervals*s.interval(c)
}

// cover watches the nodes of seats that have held for a while. Shorter holds end before
// that, and cost no watch request.
func (s *Session) cover(c *client) {
	for seat := range s.unwatched {
		node, held := s.holders[seat]
		if !held {
			continue // it is about to claim
		}
		delete(s.unwatched, seat)
		if seat.single != nil {
			seat.want(c, node)
			s.take(&verification{slot: slot{epoch: c.epoch}, seat: seat})
			continue
		}
		for _, node := range seat.nodes(node) {
			if seat.want(c, node) {
				s.take(&rearm{slot: slot{epoch: c.epoch}, node: node})
			}
		}
		// Another seat may have read a revocation request before this watch is armed.
		s.repeatRequest(c, seat, seat.name(node))
	}
}

// ranOut sends LeaseRanOut to all holders, if there are any. Then they no longer hold.
func (s *Session) ranOut(c *client) {
	if len(s.holders) == 0 {
		return
	}
	c.logger.Warn("lease ran out; every held lock counts as lost", zapSession(c),
		zap.Int("holders", len(s.holders)))
	if s.cfg.OnLease != nil {
		s.cfg.OnLease(Lease{Session: c.link.Session(), Deadline: c.deadline(), RanOut: true})
	}
	for seat := range s.holders {
		s.tell(seat, recipes.LeaseRanOut{}, nil)
	}
}

// tend maintains the lease for holders and for seats next in line. It ends all holds if
// the lease has run out, and sends a probe unless something was written within the
// interval.
func (s *Session) tend(c *client) {
	now := s.clock.now()
	s.resetDeadlines(now)
	// The session stays warm for a seat next in line for one timeout only, because the
	// standby of an election waits for as long as the leader leads.
	maps.DeleteFunc(s.next, func(_ *Seat, until time.Time) bool { return !now.Before(until) })
	switch {
	case len(s.holders)+len(s.next) == 0:
		c.pacer = nil
		return
	case !now.Before(c.lease.Deadline()):
		c.pacer = nil
		clear(s.next)
		s.ranOut(c)
		return
	}
	s.cover(c)
	// A probe does not wait for the previous one; see [lease.Pace].
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
	// One probe is enough for all holders, because it renews the whole session.
	for seat, node := range s.holders { // in random order, so that the seats take turns
		s.probe(c, seat, node)
		return
	}
	for seat := range s.next {
		s.probe(c, seat, seat.ownNode())
		return
	}
}

// probe sends a write that succeeds only if the seat's node exists.
func (s *Session) probe(c *client, seat *Seat, node string) {
	c.probes, c.probed = c.probes+1, s.clock.now()
	c.inflight++
	on := c.resumed // the connection on which it is sent
	s.group.Go(func() {
		err := c.check(node)
		s.loop.Hand(func() {
			s.moved(c, on, err)
			s.probed(c, seat, node, err)
		})
	})
}

// probed handles the answer to a probe, or its failure.
func (s *Session) probed(c *client, seat *Seat, node string, err error) {
	defer s.finish(c)
	c.probes--
	if err == nil {
		return
	}
	c.logger.Debug("probe failed", zap.String("node", node), zap.Error(err))
	if errors.Is(err, zk.ErrNoNode) && !c.isOver() && s.holders[seat] == node {
		s.lostNode(c, seat, node)
	}
}

// outwait handles a silent server. It returns the time until the next look, which is at
// most wait.
func (s *Session) outwait(c *client, now time.Time, wait time.Duration) time.Duration {
	// With LossOnSuspend, hanging up costs every lock. With a single server, there is no
	// other to turn to.
	if s.cfg.LossOnSuspend || c.hosts.Len() < 2 {
		return wait
	}
	timeout := c.link.Timeout()
	wait = min(wait, timeout/wire.PatiencePart/2) // the next request may be the first without an answer
	w, since := c.dialer.Owing()
	if !since.Equal(c.silence) { // an answer has come, or this is another silence
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
	_ = w.Fail(wire.ErrSilent) // the client's Read fails, and it moves on to the next server
	return wait
}

// askOthers asks the other servers whether they serve, at most until the client itself
// would hang up.
//
//nolint:contextcheck,nolintlint // no caller waits for it; the linter heeds this at the callers
func (s *Session) askOthers(c *client) {
	ctx, cancel := context.WithTimeout(context.Background(), wire.ClientPatience(c.link.Timeout()))
	since := c.silence // identifies the silence in which they are asked
	c.others, c.stopAsking = wire.OthersAsked, cancel
	s.group.Go(func() {
		defer cancel()
		serves := c.dialer.Ask(ctx)
		s.postFor(c, func() {
			if c.phase.Load() != phaseUp || !since.Equal(c.silence) {
				return
			}
			if !serves {
				c.logger.Warn("server does not answer, nor does another one; waiting", zapSession(c),
					zapServer(c))
				return
			}
			c.others = wire.OthersServe
			if c.pacer != nil {
				s.pace(c, 0)
			}
		})
	})
}
