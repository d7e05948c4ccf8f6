package session

import "github.com/zkgrant/zkgrant/recipes"

// This file is about claims that are not sent, see recipes/warmth.go.

// isKnown answers a request if a warm session knows the answer. If it knows a part of the
// answer, the request is made for the rest, if the session is still warm then.
func (s *Session) isKnown(r *seatRequest) bool {
	c := s.client
	if !r.knowable() || !s.warmth(c, r).Claims() {
		return false
	}
	in := r.known(c)
	if in == nil {
		return false
	}
	if r.seat.passed {
		r.seat.news.Store(true)
	}
	on := c.resumed
	s.loop.Post(func() { // after the machine's effects
		c.outdated = on != c.resumed
		r.settle(s, c, in, nil)
	})
	return true
}

// knowable reports whether a warm session may know the answer to the request, or a part
// of it.
func (r *seatRequest) knowable() bool {
	claim, is := r.effect.(recipes.Claim)
	return (is || r.op == recipes.OpAdvance) && claim.Knowable(r.seat.layout)
}

// known returns the answer that a warm session knows, or nil.
func (r *seatRequest) known(c *client) recipes.Input {
	switch e := r.effect.(type) {
	case recipes.Advance:
		return c.advances(r.seat, e)
	default:
		return recipes.Claimed{Epoch: r.epoch}
	}
}

// warmth is what the session knows of the seat that has made the request.
func (s *Session) warmth(c *client, r *seatRequest) recipes.Warmth {
	const half = 2
	return recipes.Warmth{
		Connected: c.is(phaseUp),
		Listed:    r.seat.listed,
		Watched:   c.watches.Sure(r.node),
		Lease:     c.lease.Deadline().Sub(s.clock.now()) > c.link.Timeout()/half && s.recent(c),
	}
}

// warm writes for a seat that is next in line; see tend.
func (s *Session) warm(t *Seat) {
	if c := s.client; c.is(phaseUp) {
		s.next[t] = s.clock.now().Add(c.link.Timeout())
		s.keepLease(c)
	}
}

// recent reports whether a write was answered that was sent within two probe intervals.
// That answer came after all earlier events of its connection.
func (s *Session) recent(c *client) bool {
	const intervals = 2
	return s.clock.now().Sub(c.lease.State().Written) < intervals*s.interval(c)
}
