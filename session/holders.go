package session

import (
	"errors"
	"path"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about seats that hold: who they are, what keeps their lease alive,
// and how they hear that it has run out. As long as nobody holds, no lease is
// watched and none is renewed.

const (
	// probePart is which part of the timeout lies between two probes, unless the
	// config says something else, and probeMin which part at the most. With less
	// than two probes in half the timeout a lease would run out of itself.
	probePart = 10
	probeMin  = 4
)

// noteTenure takes a request for what it says about its seat. Whoever creates a
// node or deletes one does not hold any; whoever creates or claims one may soon.
func (s *Session) noteTenure(r *asked) {
	switch r.op {
	case recipes.OpCreate:
		s.gaveUp(r.seat)
		s.claims[r.seat] = r
	case recipes.OpClaim, recipes.OpAdvance, recipes.OpEnter:
		if _, r.held = s.holders[r.seat]; !r.held { // else it asks whether it holds still, and is no claimant if that has ended meanwhile
			s.claims[r.seat] = r
		}
	case recipes.OpDelete:
		s.gaveUp(r.seat)
	case recipes.OpSurvey:
		delete(s.claims, r.seat) // whatever it was, it was answered; this one may be followed by a long wait
	case recipes.OpList:
		r.turn, r.seat.passed = r.seat.passed, false
		r.seat.turn = r.turn
	case recipes.OpWatch:
		r.turn = r.seat.turn // what the list request has found may be gone
	}
}

// gaveUp: the seat has no node, or will soon have none.
func (s *Session) gaveUp(seat *Seat) {
	s.lapsed(seat)
	seat.layout.told(false)
}

// lapsed: the seat holds no more, and may keep its node for now. If that is the one node of a lock, those who wait for it hear of
// its end by way of the seat (see [Session.singleGone]), so it is still the seat's.
func (s *Session) lapsed(seat *Seat) {
	delete(s.claims, seat)
	delete(s.holders, seat)
	delete(s.bare, seat)
}

// ceased: the seat is no holder any more. The rest goes when it gives its node up, for it may want to hold it still: 1. A create proved
// that it is alone, and it was taken for a holder; 2. it wants more than that, a record, or a connection where suspended is lost;
// 3. the lease runs out, which takes nothing from it; 4. it claims, and from then on it holds.
func (s *Session) ceased(seat *Seat) { delete(s.holders, seat) }

// holds tells whether the seat holds, before its node is shared or its place is taken. A seat that has lapsed holds nothing,
// even while the message of it is on its way:
// 1. A lock is to be given back by a certain moment, and its holder's function still runs; 2. it asks for the lock once more,
// which waits in the mailbox; 3. the moment comes, the machine alone decides that the lock is lost, and it keeps the node; 4. the
// mailbox is read, and the message of 3 stands behind 2.
func (s *Session) holds(seat *Seat) bool {
	_, ok := s.holders[seat]
	return ok && !seat.lapsed.Load()
}

// settle notes that an answer has said that the node is the seat's.
func (s *Session) settle(c *client, seat *Seat) {
	if c == s.client && !c.over {
		seat.layout.told(true)
	}
}

// nobodyHolds: there is no session.
func (s *Session) nobodyHolds() {
	clear(s.claims)
	clear(s.holders)
	clear(s.bare)
	clear(s.shares)
}

// judge tells whether the lease is good, for an answer that proves all the rest, and
// takes the seat for a holder if it is. LeaseRanOut is sent by the same goroutine, and
// nobody's proof is fresh who is no holder then; so whoever is told that it is will
// hear of the end of that lease.
func (s *Session) judge(c *client, r *asked) (fresh bool) {
	if c != s.client || c.over || !s.clock.now().Before(c.lease.Deadline()) {
		return false
	}
	if s.claims[r.seat] == r { // else it has given up meanwhile, and stays out, or it is a holder, or was when it asked
		delete(s.claims, r.seat) // it has been answered, and would be kept for as long as the lock is held
		s.holders[r.seat] = r.node
		s.guard(c)
	}
	_, held := s.holders[r.seat]
	return held
}

// onClaimed passes the answer to a claim on. It may renew the life of a session that
// nothing was known of for so long that this claim proves nothing yet; but it does
// to one that is sent so much later. To one that is sent at once it does not, and
// so the seat hears of it when trying again makes sense.
func (s *Session) onClaimed(c *client, r *asked, claimed recipes.Claimed) {
	claimed.Fresh = s.judge(c, r)
	s.passOn(c, r, claimed.Fresh, claimed)
}

// passOn passes on what proves as much as a claim.
func (s *Session) passOn(c *client, r *asked, fresh bool, in recipes.Input) {
	s.sure(c, r.seat)
	_, held := s.holders[r.seat]
	if !fresh && !held && s.claims[r.seat] == r && c == s.client && !c.over {
		time.AfterFunc(c.lease.Window(), func() { r.seat.post(in, nil) })
		return
	}
	r.seat.post(in, nil)
}

// onCreated passes the answer to a create on. One that proves to be alone is granted
// without another request, and its node is watched when it has been held for a while.
func (s *Session) onCreated(c *client, r *asked, created recipes.Created) {
	if created.Alone && r.seat.layout.firstHolds() {
		s.settle(c, r.seat)
		r.node = path.Join(r.seat.dir, created.Node.Text)
		created.Fresh = s.judgeBare(c, r)
	}
	r.seat.post(created, nil)
}

// onEnqueued is onCreated for the nodes of a multi-lock.
func (s *Session) onEnqueued(c *client, r *asked, joined recipes.Enqueued) {
	if joined.Alone {
		s.settle(c, r.seat)
		r.node = r.seat.ownPath(joined.Nodes[0].Text)
		joined.Fresh = s.judgeBare(c, r)
	}
	r.seat.post(joined, nil)
}

// onAdmitted passes the answer to an enter on. The leases are watched when they have been
// held for a while.
func (s *Session) onAdmitted(c *client, r *asked, entered recipes.Entered) {
	r.node = r.seat.at(entered.Leases[0])
	entered.Fresh = s.judgeBare(c, r)
	r.seat.post(entered, nil)
}

// judgeBare is judge for nodes that nobody watches yet.
func (s *Session) judgeBare(c *client, r *asked) (fresh bool) {
	fresh = s.judge(c, r)
	// If the answer came too late to be a proof, a claim will follow, and nothing is
	// listed for that either. Whoever has given up meanwhile is in neither map.
	_, held := s.holders[r.seat]
	if held || s.claims[r.seat] == r {
		s.bare[r.seat] = struct{}{}
	}
	return fresh
}

// onAdvanced passes the answer to an advance on.
func (s *Session) onAdvanced(c *client, r *asked, advanced recipes.Advanced) {
	if advanced.Floor && r.seat.layout.firstHolds() {
		advanced.Fresh = s.judge(c, r)
	}
	r.seat.post(advanced, nil)
}

// cover has the nodes watched of those who have held for a while. A short cycle is
// over before, and costs no request for it.
func (s *Session) cover(c *client) {
	for seat := range s.bare {
		node, held := s.holders[seat]
		if !held {
			continue // it is about to claim
		}
		delete(s.bare, seat)
		seat.layout.cover(s, c, seat, node)
	}
}

// guard sees to it that the lease is watched and renewed.
func (s *Session) guard(c *client) {
	if c.watchdog == nil {
		s.schedule(c)
	}
	if c.pacer == nil {
		s.pace(c, s.interval(c))
	}
}

// schedule has the lease looked at when it may have run out.
func (s *Session) schedule(c *client) {
	if c.watchdog != nil {
		c.watchdog.Stop()
	}
	c.watchdog = time.AfterFunc(c.lease.Deadline().Sub(s.clock.now()), func() { s.actor.Post(ticked{c}) })
}

func (s *Session) onTick(c *client) {
	c.watchdog = nil
	switch {
	case c != s.client || c.over || len(s.holders) == 0:
	case s.clock.now().Before(c.lease.Deadline()):
		s.schedule(c)
	default:
		s.ranOut(c)
	}
}

// onLapsed: what was renewed in the last moment was invalid for a moment, and that
// may have been seen.
func (s *Session) onLapsed(c *client) {
	if c == s.client && !c.over && len(s.holders) > 0 {
		s.ranOut(c)
	}
}

// ranOut tells the holders, who hold nothing from then on.
func (s *Session) ranOut(c *client) {
	c.logger.Warn("lease ran out; whatever is held counts as lost", zapSession(c), zap.Int("holders", len(s.holders)))
	if s.cfg.OnLease != nil {
		s.cfg.OnLease(Lease{Session: c.link.Session(), Deadline: c.deadline(), RanOut: true})
	}
	for seat := range s.holders {
		s.ceased(seat)
		seat.post(recipes.LeaseRanOut{}, nil)
	}
}

// interval returns how long after a write the next one is due.
func (s *Session) interval(c *client) time.Duration {
	timeout := c.link.Timeout()
	if s.cfg.ProbeInterval == 0 {
		return timeout / probePart
	}
	return min(s.cfg.ProbeInterval, timeout/probeMin)
}

// pace has it looked at after the wait, and not before, whether a probe is due. One
// that has fired and is still in the mailbox comes too early once, and no harm is done.
func (s *Session) pace(c *client, wait time.Duration) {
	if c.pacer != nil {
		c.pacer.Stop()
	}
	c.pacer = time.AfterFunc(wait, func() { s.actor.Post(paced{c}) })
}

// onPace probes, unless something else was written within the interval. One probe
// does for all that is held: it is the session that must live.
func (s *Session) onPace(c *client) {
	if c != s.client || c.over || len(s.holders) == 0 {
		c.pacer = nil
		return
	}
	now := s.clock.now()
	if !now.Before(c.lease.Deadline()) {
		c.pacer = nil
		s.ranOut(c) // the machine was suspended, and timers are late
		return
	}
	s.cover(c)
	if wait := c.lease.Written().Add(s.interval(c)).Sub(now); wait > 0 {
		s.pace(c, s.outwait(c, now, wait))
		return
	}
	s.pace(c, s.outwait(c, now, s.interval(c)))
	if !c.up || c.probing {
		return
	}
	for seat, node := range s.holders { // a different one each time
		c.probing = true
		s.begin(c, func() message { return probed{c, seat, node, c.check(node)} })
		return
	}
}

func (s *Session) onProbed(p probed) {
	defer s.finish(p.c)
	p.c.probing = false
	if p.err == nil {
		return
	}
	p.c.logger.Debug("probe failed", zap.String("node", p.node), zap.Error(p.err))
	if errors.Is(p.err, zk.ErrNoNode) && p.c == s.client && s.holders[p.seat] == p.node {
		s.lostNode(p.c, p.seat)
		p.seat.post(recipes.Gone{Epoch: p.c.epoch, Node: p.seat.name(p.node)}, nil)
	}
}
