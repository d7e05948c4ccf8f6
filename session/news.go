package session

import (
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is what seats are told without having asked.

// show publishes the actor's state, before anybody is told of it.
func (s *Session) show(c *client, state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.client, s.view.state = c, state
}

func (s *Session) broadcast(in recipes.Input) {
	for seat := range s.seats {
		seat.post(in, nil)
	}
}

func (s *Session) tellGone(c *client, path string) {
	for _, seat := range c.watches.gone(path) {
		seat.post(recipes.Gone{Epoch: c.epoch, Node: seat.name(path)}, nil)
	}
}

// tellUnwatched has whoever is interested look again, and hear from the server
// itself why the node cannot be watched.
func (s *Session) tellUnwatched(c *client, path string) {
	for _, seat := range c.watches.gone(path) {
		seat.post(recipes.Unknown{Epoch: c.epoch, Op: recipes.OpWatch}, nil)
	}
}

func (s *Session) onEntered(seat *Seat) {
	s.seats[seat] = struct{}{}
	if c := s.client; c.opened && !c.over {
		seat.post(recipes.Opened{Epoch: c.epoch, Session: c.link.session()}, nil)
		if s.State() == Suspended {
			seat.post(recipes.Suspended{}, nil)
		}
	}
}

// schedule has the lease looked at when it may have run out.
func (s *Session) schedule(c *client) {
	if c.watchdog != nil {
		c.watchdog.Stop()
	}
	c.watchdog = time.AfterFunc(time.Until(c.lease.deadline()), func() { s.actor.Post(ticked{c}) })
}

func (s *Session) onTick(c *client) {
	switch {
	case c != s.client || c.over || c.leaseOut:
	case time.Now().Before(c.lease.deadline()):
		s.schedule(c)
	default:
		c.leaseOut = true
		c.logger.Warn("lease ran out; whatever is held counts as lost", zapSession(c))
		s.broadcast(recipes.LeaseRanOut{})
	}
}

// believable tells whether the lease is good, and has it watched again if it had
// run out. It is asked in the order in which LeaseRanOut is sent, so whoever is
// told that a claim is fresh will hear of the end of that lease.
func (s *Session) believable(c *client) bool {
	if c != s.client || c.over || !time.Now().Before(c.lease.deadline()) {
		return false
	}
	if c.leaseOut {
		c.leaseOut = false
		s.schedule(c)
	}
	return true
}
