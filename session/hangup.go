package session

import (
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/session/internal/wire"
)

// outwait hangs up if the server has been silent for too long, and returns when to look again, after the wait at the latest.
func (s *Session) outwait(c *client, now time.Time, wait time.Duration) time.Duration {
	if s.cfg.LossOnSuspend || c.hosts.Len() < 2 {
		return wait
	}
	timeout := c.link.Timeout()
	wait = min(wait, timeout/wire.PatiencePart) // what is sent next may be the first that is not answered
	w, since := c.dialer.Owing()
	left, ok := wire.Silence{Timeout: timeout, Since: since, Took: c.lease.Took(), Before: c.hungUp}.Left(now)
	switch {
	case !ok:
		return wait
	case left > 0:
		return min(wait, left)
	}
	c.hungUp = [2]time.Time{now, c.hungUp[0]}
	c.logger.Warn("server does not answer; hanging up", zapSession(c), zap.String("server", c.conn.Server()), zap.Duration("for", now.Sub(since)))
	_ = w.Fail(wire.ErrSilent) // the client hears of it from Read, and goes on to the next server
	return wait
}
