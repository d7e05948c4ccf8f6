package session

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/lease"
	"github.com/zkgrant/zkgrant/session/internal/wire"
)

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
		s.repeatRequest(c, seat, seat.name(node))
	}
}

// ranOut ends the holds: the holders get LeaseRanOut, and hold nothing from then on.
func (s *Session) ranOut(c *client) {
	c.logger.Warn("lease ran out; every held lock counts as lost", zapSession(c), zap.Int("holders", len(s.holders)))
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
// if the lease has run out. It writes a probe, unless something else was written within the interval: one
// probe does for all that is held, because it renews the life of the session. A probe
// does not wait for the one before it, see [lease.Pace].
func (s *Session) tend(c *client) {
	now := s.clock.now()
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
	pace := lease.Pace{
		Interval: s.interval(c), Timeout: c.link.Timeout(), Written: c.lease.State().Written, Probed: c.probed, UnderWay: c.probes,
	}
	if wait := pace.Due(now); wait > 0 {
		s.pace(c, s.outwait(c, now, wait))
		return
	}
	s.pace(c, s.outwait(c, now, pace.Interval))
	if !c.is(phaseUp) {
		return
	}
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
	s.begin(c, func() {
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
	q := wire.Silence{Timeout: timeout, Since: since, Took: c.lease.State().Took, Before: c.hungUp, Others: c.others}
	move, next := q.Next(now)
	switch move {
	case wire.MoveNone:
		return wait
	case wire.MoveWait:
		return min(wait, next)
	case wire.MoveAsk:
		s.askOthers(c)
		return wait
	case wire.MoveHangUp:
	}
	c.hungUp = [2]time.Time{now, c.hungUp[0]}
	c.logger.Warn("server does not answer, but another one does; closing the connection", zapSession(c), zapServer(c), zap.Duration("for", now.Sub(since)))
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
	if !c.is(phaseUp) || !since.Equal(c.silence) {
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
