package session

import (
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about the way of a seat's list request: first the barrier, if it wants one, then the listings of its directories,
// which other requests share, and then the seat's own part. [listings] decides which listing serves which request.

var _ request = (*sharedListing)(nil)

// reads has a list request wait for what it reads, and reports whether it reads anything. If it wants a barrier, that is made
// first.
func (s *Session) reads(r *asked) bool {
	if r.wants == nil || r.wants.barrier || len(r.wants.dirs) == 0 {
		return false
	}
	r.wants.found, r.wants.missing = make([]*names, len(r.wants.dirs)), len(r.wants.dirs)
	for _, dir := range r.wants.dirs {
		for _, g := range s.client.listings.join(dir, r) {
			s.pending.add(g)
		}
		if g := s.client.listings.dirs[dir].now; g != nil {
			s.pending.hasten(g)
		}
	}
	return true
}

// doBarrier writes through the quorum. A sync would not do: a deposed leader answers it.
func (r *asked) doBarrier(c *client) (func(*Session), error) {
	in, err := c.barrierOf(r.seat, r.epoch)
	return func(s *Session) {
		r.wants.barrier = false
		if c.outdated {
			in = recipes.Unknown{Epoch: r.epoch, Op: r.op}
		}
		switch {
		case in != nil:
			r.settle(s, c, in, err)
		case s.late(r):
			r.refuse()
		default:
			s.reads(r)
		}
	}, err
}

// heard takes the end of a listing. The request is made when all its listings have ended.
func (r *asked) heard(s *Session, c *client, dir string, found *names, err error) {
	w := r.wants
	w.found[slices.Index(w.dirs, dir)] = found
	w.err = worse(w.err, r.seat.layout.blame(dir, err))
	w.missing--
	switch {
	case w.missing > 0:
	case r.unwanted:
	case w.err != nil:
		in, err := unanswered(r.epoch, r.op, w.err)
		r.settle(s, c, in, err)
	case s.late(r):
		r.refuse()
	default:
		s.pending.add(r)
	}
}

// wantsNothing takes a list request that its machine does not wait for any more out of the listings that have not begun.
func (s *Session) wantsNothing(r *asked) {
	r.unwanted = true
	for _, g := range r.served {
		if g.begun || !g.leave() {
			continue
		}
		s.pending.remove(g)
		for _, next := range g.of.drop(g) {
			s.pending.add(next)
		}
	}
}

// urgency is that of the most urgent request that it serves.
func (g *sharedListing) urgency() urgency { return g.most }

func (g *sharedListing) admit(s *Session) { s.pending.add(g) }

func (g *sharedListing) meantFor() recipes.Epoch { return g.epoch }

// refuse is also for the listings that would have begun behind it.
func (g *sharedListing) refuse() {
	for _, r := range g.members {
		if r.wants.missing--; r.wants.missing == 0 {
			r.refuse()
		}
	}
	for _, next := range g.of.ends(g) {
		next.refuse()
	}
}

func (g *sharedListing) do(c *client) (func(*Session), error) {
	children, err := c.childrenOf(g.dir)
	var found *names
	if err == nil {
		found = namesOf(children, len(g.members) >= crowded)
	}
	return func(s *Session) {
		if c.outdated {
			found, err = nil, zk.ErrConnectionClosed
		}
		for _, r := range g.members {
			r.heard(s, c, g.dir, found, err)
		}
		for _, next := range g.of.ends(g) {
			if s.late(next) {
				next.refuse()
			} else {
				s.pending.add(next)
			}
		}
	}, err
}
