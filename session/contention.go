package session

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about a holder that learns of the contenders that it keeps out.

// Proven reports whether the epoch's session counts as alive and its events arrive: news
// of another contender are at most two probe intervals old.
func (t *Seat) Proven(epoch recipes.Epoch) bool {
	s := t.session
	c := s.inEpoch(epoch)
	if c == nil {
		return false
	}
	return s.clock.now().Before(c.lease.Deadline()) && s.recent(c)
}

// Interval is [Session.Interval].
func (t *Seat) Interval() time.Duration { return t.session.Interval() }

// Interval returns the longest time without a write while a lock is held.
func (s *Session) Interval() time.Duration {
	c := s.present()
	if c == nil {
		return s.cfg.Timeout / probePart
	}
	return s.interval(c)
}

// Answers reports whether there is a connection whose server is not overdue with an
// answer.
func (s *Session) Answers() bool {
	c := s.present()
	if c == nil || !c.is(phaseUp) {
		return false
	}
	_, since := c.dialer.Owing()
	return since.IsZero() || c.clock.now().Sub(since) < c.link.Timeout()/3
}

// Calm reports whether there is a connection whose server has not turned a request away
// lately.
func (s *Session) Calm() bool {
	c := s.present()
	return c != nil && c.is(phaseUp) && c.throttle.Calm(c.clock.now(), c.link.Timeout())
}

// yieldTime returns how long a Try waits for an idle node of a cached lock to go: two
// round trips, and the default time for which a node may be handed on within its process.
func (s *Session) yieldTime() time.Duration {
	const handedOn, trips = 50 * time.Millisecond, 2
	c := s.present()
	if c == nil {
		return handedOn
	}
	return handedOn + trips*c.lease.State().Took
}

// arm watches the own node and the directory, and looks for other contenders there.
func (c *client) arm(t *Seat, e recipes.Arm) (recipes.Input, error) {
	var own sync.WaitGroup
	var missing error
	own.Go(func() { _, missing = c.follow(ofNode, t.at(e.Node), t) })
	dir, err := c.readW(ofChildren, t.dir, lookout{t})
	own.Wait()
	if errors.Is(err, zk.ErrNoNode) {
		err = nil // so is the own node
	}
	if err = cmp.Or(missing, err); err != nil {
		return unanswered(e.Epoch, recipes.OpArm, err)
	}
	others := slices.ContainsFunc(dir.children, func(child string) bool {
		_, contends := events.ParseName(child)
		return contends && child != e.Node.Text
	})
	return recipes.Armed{Epoch: e.Epoch, Others: others}, nil
}
