package session

import (
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is the end of everything.

// Close ends the session, which takes no longer than the grace. Requests under way get two thirds of it to be answered, and then a
// server gets the rest to say that the session is over. What is not under way is not sent: all nodes that would be deleted go
// with the session, in one transaction. It returns when nothing of the session is left in this process, and
// reports whether nothing is left at the servers: one of them has said so, or there was no session. The last that seats hear is
// Expired, which may be behind that. Each holder was told before that it holds no more.
func (s *Session) Close(grace time.Duration) (gone bool) {
	s.actor.Post(shut{grace})
	<-s.closed
	c := s.client
	if c != nil && c.opened {
		c.logger.Info("session closed", zapSession(c), zap.Bool("confirmed", c.told.Load()))
	}
	return c == nil || !c.opened || c.told.Load()
}

// Quiesce waits until what was asked of the session has been answered, as far as it has been sent: a last flight is sent, on the next
// connection if there is none, and nothing behind that. It returns after so long at most, and is called once, before Close.
func (s *Session) Quiesce(wait time.Duration) {
	quiet := make(chan struct{})
	if !s.actor.Post(quiescing{quiet}) {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-quiet:
	case <-timer.C:
	}
}

// quiesce ends what goes out when a last flight has, and tells who waits for its answers. A connection that is lost meanwhile is
// waited for, too: without one no server hears of the end of the session.
func (s *Session) quiesce() {
	if s.quiet == nil || s.State() == Suspended {
		return
	}
	s.pump()
	s.last = true
	if c := s.client; c == nil || c.inflight == 0 {
		close(s.quiet)
		s.quiet = nil
	}
}

func (s *Session) onShut(grace time.Duration) {
	if s.closing {
		return
	}
	s.closing = true
	s.show(nil, Closed)
	s.nobodyHolds()
	if s.client != nil {
		s.retire(s.client, 2*grace/3, grace/3) // while the servers are at it,
	}
	s.broadcast(recipes.Expired{}) // those are told who would make their requests again and again
	s.seats = nil
	s.lookNoMore()
	s.sweep()
	s.checkClosed()
}

func (s *Session) checkClosed() {
	if s.closing && s.living == 0 {
		close(s.closed)
	}
}
