package session

import (
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
