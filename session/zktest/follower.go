package zktest

import "time"

// Followers makes clients talk to followers. A follower answers reads and pings itself
// and forwards writes. It reports the sessions that it has heard from only when the
// leader asks, every half tick since the start, except for a handshake, which the leader
// learns of at once. A report that is pending when [Server.Strand] begins is sent when
// that ends, if the leader has asked by then, and ahead of the writes that waited: the
// two use one connection, which keeps the order. Without this setting the one server is
// its own leader.
func Followers() Setting {
	return func(s *Server) { s.followers = true }
}

// touch takes a request as a sign of life.
func (s *Server) touch(c *conn) {
	if !s.followers {
		s.renew(c)
		return
	}
	c.unreported = true
	if s.nextAsk.IsZero() {
		half := s.tick / 2
		s.nextAsk = s.started.Add((time.Since(s.started)/half + 1) * half)
		s.wakeClock(s.nextAsk)
	}
}

// ask is the leader's question to its followers which sessions are alive.
func (s *Server) ask(now time.Time) {
	if s.nextAsk.IsZero() || now.Before(s.nextAsk) {
		return
	}
	s.nextAsk = time.Time{}
	for c := range s.conns {
		switch {
		case c.stranded:
			c.asked = c.asked || c.unreported
		case c.unreported && !c.gone:
			s.report(c)
		}
	}
}

// report tells the leader of a connection's session.
func (s *Server) report(c *conn) {
	c.unreported, c.asked = false, false
	s.renew(c)
}
