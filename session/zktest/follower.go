package zktest

import "time"

// Followers makes clients talk to followers. A follower answers reads and pings itself,
// and forwards writes. It reports which sessions were active only when the leader asks,
// every half tick since the start, except that the leader learns of a handshake at once.
// If the leader asks during [Server.Strand], the report is sent when that ends, ahead of
// the writes that waited, because both use one connection, which keeps the order. Without
// this setting, the server is its own leader.
func Followers() Setting {
	return func(s *Server) { s.followers = true }
}

// touch counts a request as a sign of life.
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

// ask is the leader asking its followers which sessions are alive.
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

// report reports a connection's session to the leader.
func (s *Server) report(c *conn) {
	c.unreported, c.asked = false, false
	s.renew(c)
}
