package session

import (
	"time"

	"github.com/zkgrant/zkgrant/session/internal/wire"
)

// This file is what the hooks of a program hear of the session.

// Request says what became of a request.
type Request = wire.Request

// Lease says until when what the session holds can be relied on.
type Lease struct {
	Session  int64
	Deadline time.Time // in ordinary time
	RanOut   bool      // the deadline has come, and what was held is lost
}

// tellLease has a hook hear of another deadline.
func (c *client) tellLease(f func(Lease)) {
	if deadline, moved := c.lease.Moved(); moved {
		f(Lease{Session: c.link.Session(), Deadline: c.clock.ordinary(deadline)})
	}
}
