package session

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/wire"
)

// This file is about the end of the session.

// Patience returns how long it is worth waiting for the end of the session: the session
// timeout, less the time for which the servers have already owed an answer. After that,
// the session is over at the servers, too. It is never 0, for a server that has come
// back.
func (s *Session) Patience() time.Duration {
	c := s.present()
	if c == nil {
		return s.cfg.Timeout
	}
	timeout, now := c.link.Timeout(), s.clock.now()
	_, since := c.dialer.Owing()
	switch debt := c.link.Owing(); {
	case !debt.IsZero():
		since = debt
	case c.is(phaseSuspended):
		since = c.lease.State().Heard // what was asked since then was lost with the connection
	case since.IsZero():
		since = now
	}
	return max(timeout-now.Sub(since), timeout/wire.LeastPatience)
}

// Close ends the session, and returns when ctx has ended at the latest; ctx has a
// deadline. Requests in progress have two thirds of the time. Then a server has the rest
// to confirm the end of the session. Other requests are not sent: all nodes that they
// would delete are deleted with the session, in one transaction.
//
// When Close returns, nothing of the session is left in this process. It reports whether
// nothing is left at the servers: one of them has confirmed that, or there was no
// session. The last input of each seat is Expired, which may come after Close; holders
// lose their locks before.
func (s *Session) Close(ctx context.Context) (gone bool) {
	deadline, _ := ctx.Deadline()
	s.loop.Post(func() { s.shut(max(0, time.Until(deadline))) })
	select {
	case <-s.closed:
	case <-ctx.Done():
		s.loop.Post(s.hangUpAll)
		<-s.closed
	}
	c := s.client
	if c != nil && c.announced {
		c.logger.Info("session closed", zapSession(c), zap.Bool("confirmed", c.told.Load()))
	}
	return c == nil || !c.announced || c.told.Load()
}

// Quiesce waits until every sent request is answered. It lets one last batch be sent, on
// the next connection if there is none, and nothing after that. It returns when ctx ends
// at the latest. It is called once, before Close.
func (s *Session) Quiesce(ctx context.Context) {
	quiet := make(chan struct{})
	begun := s.loop.Post(func() {
		s.quiet = quiet
		s.quiesce()
	})
	if !begun {
		return
	}
	select {
	case <-quiet:
	case <-ctx.Done():
	}
}

func (s *Session) checkClosed() {
	if s.closing && len(s.living) == 0 {
		close(s.closed)
	}
}

// shut ends everything within the grace.
func (s *Session) shut(grace time.Duration) {
	if s.closing {
		return
	}
	s.closing = true
	if s.names != nil {
		s.names.Stop() // no dialer that is stopped waits for a lookup
	}
	s.mu.Lock()
	s.view.closed = true
	s.mu.Unlock()
	s.show(nil)
	if s.client != nil {
		s.removeBare(s.client)
		s.retire(s.client, 2*grace/3, grace/3)
	}
	// The machines end while the servers end the session. Otherwise they would make their
	// requests again and again.
	s.broadcast(recipes.Expired{})
	s.seats = nil
	s.renew()
	s.sweep()
	s.checkClosed()
}

// hangUpAll ends what is left without a word.
func (s *Session) hangUpAll() {
	for c := range s.living {
		c.dialer.Stop()
		c.hangUp()
	}
}
