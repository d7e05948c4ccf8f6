package session

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/wire"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is the life of a client: connected, suspended, resumed, expired,
// closed.

// connect makes the client of an epoch.
func (s *Session) connect(epoch recipes.Epoch) {
	failures := 0
	if s.client != nil {
		failures = s.client.dialer.Failed()
	}
	c, err := s.newClient(epoch, failures)
	if err != nil { // only a list without servers does that, and the parser refuses it
		s.cfg.Logger.Error("could not start a client", zap.Error(err))
		s.tellFirst(err)
		return
	}
	s.client = c
	s.living[c] = struct{}{}
	s.mu.Lock()
	s.view.dialer = c.dialer
	s.mu.Unlock()
}

// tellFirst tells who waits for the first session that it is there, or why it is not.
func (s *Session) tellFirst(err error) {
	s.mu.Lock()
	s.view.ready, s.view.refuse = s.view.ready || err == nil, err
	s.mu.Unlock()
	select {
	case <-s.first:
	default:
		close(s.first)
	}
}

func (s *Session) onEvent(c *client, ev zk.Event) {
	if c != s.client || c.over {
		return
	}
	switch ev.Type {
	case zk.EventNodeDeleted:
		s.tellGone(c, ev.Path, true)
		s.tellChanged(c, ev.Path, true)
	case zk.EventNodeDataChanged:
		if c.watches.Changed(ev.Path) {
			c.rewatch(ev.Path)
		}
		s.rewritten(c, ev.Path)
		s.tellChanged(c, ev.Path, false)
	case zk.EventNodeChildrenChanged, zk.EventNodeCreated:
		s.tellChanged(c, ev.Path, false)
	case zk.EventSession:
		s.onState(c, ev)
	default:
		// What is not watched any more is told by the expiry that caused it.
	}
}

func (s *Session) onState(c *client, ev zk.Event) {
	switch ev.State {
	case zk.StateHasSession:
		s.onConnection(c, ev.Server)
	case zk.StateDisconnected:
		s.suspend(c)
	case zk.StateExpired:
		s.expire(c)
	default: // on its way to one of these
	}
}

// onConnection: the handshake of a connection is done.
func (s *Session) onConnection(c *client, server string) {
	c.logger.Debug("connected", zap.String("server", server))
	switch {
	case c.opened && c.stuck():
		s.begin(c, func() message {
			_, _, err := c.conn.Exists("/")
			return vouched{c, server, err}
		})
	case c.opened && (c.watches.Armed() || !c.looks.Empty()):
		// Requests wait for the watches: the client restores them by a request
		// that others can overtake, so what a missed event should have announced
		// could be read before the event.
		time.AfterFunc(min(restoreWait, c.link.Timeout()/10), func() { s.actor.Post(restored{c}) })
	case c.opened:
		s.resume(c)
	case !c.greeting:
		c.greeting = true
		time.AfterFunc(wire.FirstRequest, func() { s.actor.Post(rested{c}) })
	}
}

// stuck tells whether requests were left unanswered for so long that a handshake alone does not say that they will be answered now.
func (c *client) stuck() bool {
	debt := c.link.Owing()
	return !debt.IsZero() && c.clock.now().Sub(debt) >= wire.MostPatience(c.link.Timeout())
}

// onVouched goes on with a connection that has answered a request.
func (s *Session) onVouched(v vouched) {
	defer s.finish(v.c)
	if outcome, _ := zkerr.Classify(v.err); outcome == zkerr.Unknown {
		return // another connection follows
	}
	if v.c == s.client && !v.c.over && !v.c.up && v.c.conn.State() == zk.StateHasSession {
		s.onConnection(v.c, v.server)
	}
}

// greet adds the identities, once the session is old enough for requests.
func (s *Session) greet(c *client) {
	switch {
	case c != s.client || c.over:
	case c.conn.State() != zk.StateHasSession:
		c.greeting = false // it begins again with the next connection
	default:
		s.begin(c, func() message { return greeted{c, c.addAuth(s.cfg.Auth)} })
	}
}

// onGreeted announces the session.
func (s *Session) onGreeted(c *client, err error) {
	defer s.finish(c)
	c.greeting = false
	if c != s.client || c.over {
		return
	}
	if err != nil {
		s.onIdentityError(c, err)
		if c.conn.State() == zk.StateHasSession && !rejected(err) {
			c.greeting = true
			s.begin(c, func() message { return greeted{c, c.addAuth(s.cfg.Auth)} })
		}
		return // else with the next connection
	}
	c.opened, c.up = true, true
	s.show(c, Connected)
	c.logger.Info("session established", zapSession(c), zap.Duration("timeout", c.link.Timeout()), zap.String("server", c.conn.Server()))
	s.compareTimeout(c)
	s.news(events.Connected{Session: c.link.Session(), Timeout: c.link.Timeout(), Server: c.conn.Server()})
	s.broadcast(recipes.Opened{Epoch: c.epoch, Session: c.link.Session()})
	s.renew()
	s.quiesce()
	s.tellFirst(nil)
	if c.conn.State() != zk.StateHasSession {
		s.suspend(c) // its event came while the identities were being added
	}
}

// onIdentityError tells of it once: a server that refuses an identity does so again with each connection.
func (s *Session) onIdentityError(c *client, err error) {
	s.mu.Lock()
	known := s.view.refuse != nil
	s.mu.Unlock()
	if known {
		c.logger.Debug("the identities were not accepted again", zap.Error(err))
	} else {
		c.logger.Warn("the identities were not accepted", zap.Error(err))
	}
	if rejected(err) {
		s.tellFirst(fmt.Errorf("%w: %w", ErrNoAuth, err))
	}
}

// compareTimeout tells of a session timeout that is not the one that was asked for.
func (s *Session) compareTimeout(c *client) {
	asked, granted := s.cfg.Timeout.Truncate(time.Millisecond), c.link.Timeout()
	switch {
	case asked == granted:
		s.clamped = 0
	case granted != s.clamped:
		s.clamped = granted
		c.logger.Warn("the servers have changed the session timeout", zapSession(c),
			zap.Duration("asked", asked), zap.Duration("granted", granted), zap.String("server", c.conn.Server()))
	}
}

// suspend: the connection is gone.
func (s *Session) suspend(c *client) {
	if !c.opened {
		return
	}
	was := s.State()
	c.up = false
	c.claimants.shake()
	if was != Connected {
		return
	}
	s.show(c, Suspended)
	c.logger.Warn("connection lost; the session may live on", zapSession(c), zap.Time("deadline", c.deadline()), zap.Error(c.dialer.LastError()))
	s.news(events.Suspended{Deadline: c.deadline()})
	if s.cfg.LossOnSuspend { // the news are a loss, and nobody may share a node who comes behind them
		for seat := range s.holders {
			s.ceased(seat)
		}
	}
	s.broadcast(recipes.Suspended{})
}

// resume: the same session has a connection again.
func (s *Session) resume(c *client) {
	c.up = true
	c.resumed++
	c.looks.Reset()
	s.compareTimeout(c)
	if s.State() == Suspended {
		s.show(c, Connected)
		c.logger.Info("session resumed", zapSession(c), zap.String("server", c.conn.Server()))
		s.news(events.Resumed{})
		s.broadcast(recipes.Reconnected{})
	}
	s.renew()
	s.quiesce()
	if c.watchdog != nil {
		s.schedule(c) // the timeout may have become shorter
	}
	if c.pacer != nil {
		s.pace(c, 0) // and the time between probes with it
	}
}

// expire: the session is over, by a server's word or because the wire would not
// let the client go on.
func (s *Session) expire(c *client) {
	if c != s.client || c.over {
		return
	}
	s.show(nil, Connecting)
	if c.opened {
		c.logger.Warn("session expired", zapSession(c))
		s.news(events.SessionExpired{Session: c.link.Session()})
		s.nobodyHolds()
		s.broadcast(recipes.Expired{})
	}
	grace := min(expiredGrace, c.dialer.Timeout()/8)
	s.retire(c, grace, grace)
	s.connect(c.epoch + 1)
	s.sweep()
	s.quiesce()
}

// onTurnedAway gives the session up that no server takes back. A server does not
// answer a client that has seen more than itself: for a moment if it lags behind,
// for ever if the ensemble has lost its data, and then nobody will say that the
// session is over. A new leader gives every session its full time once more, so
// it takes two timeouts from the last answer until nothing can be left of it.
func (s *Session) onTurnedAway(c *client, err error) {
	end := c.lease.Optimistic()
	if c != s.client || c.over || end.IsZero() || s.clock.now().Sub(end) < c.link.Timeout() {
		return
	}
	c.logger.Warn("no server takes the session back; giving it up", zap.Error(err))
	s.expire(c)
}

// retire lets the requests under way be answered, by hanging up when the grace is
// over, and then ends the client, for which a server has so long to answer. Not before: no request may be under way then
// (see [client.close]), and an answer that came later could find no session to
// take it.
func (s *Session) retire(c *client, grace, farewell time.Duration) {
	c.retired.Store(true)
	c.over, c.up, c.farewell = true, false, time.Now().Add(grace+farewell)
	for _, timer := range []*time.Timer{c.watchdog, c.pacer} { // they would keep all of the past session for a timeout
		if timer != nil {
			timer.Stop()
		}
	}
	if c.inflight == 0 {
		s.endClient(c)
		return
	}
	c.dialer.Stop()
	time.AfterFunc(grace, func() { s.actor.Post(overdue{c}) })
}

func (s *Session) endClient(c *client) {
	if c.closing {
		return
	}
	c.closing = true
	s.group.Go(func() {
		c.close(time.Until(c.farewell))
		s.actor.Post(ended{c})
	})
}

// zapSession logs the session's id as ZooKeeper's own logs have it.
func zapSession(c *client) zap.Field {
	return zap.String("session", fmt.Sprintf("0x%x", c.link.Session()))
}
