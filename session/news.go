package session

import (
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is what seats are told without having asked.

// show publishes the actor's state, before anybody is told of it.
func (s *Session) show(c *client, state State) {
	s.mu.Lock()
	s.view.client, s.view.state = c, state
	s.mu.Unlock()
	s.noteAway(state)
}

// broadcast goes through the seats in the order in which they were made, as far as
// that has not been mixed up since. With many of them it is twice as fast as any other
// order: their memory is, too.
func (s *Session) broadcast(in recipes.Input) {
	for _, seat := range s.seats {
		seat.post(in, nil)
	}
}

// tellGone tells whoever is interested that the node is gone, by an event or by a reading.
func (s *Session) tellGone(c *client, path string, event bool) {
	for _, seat := range s.singleGone(c, path, c.watches.Fired(path), event) {
		if s.holders[seat] == path {
			s.gaveUp(seat) // and nobody may share it who comes behind this
		}
		seat.passed = true
		seat.post(recipes.Gone{Epoch: c.epoch, Node: seat.name(path)}, nil)
	}
}

// subscriber is told of a change of what it has a client watch, once, and looks again if it wants to hear more: the first in a
// semaphore's queue, of the children of the leases' directory, which a resize touches as well; and each [watcher].
//
// After a reconnect these watches are not trusted, and armed again by whoever looks: the client asks for them
// with a zxid, and of a change of children that came before that the server says nothing.
type subscriber interface {
	// lookAgain says that something has happened there, or may have; gone, that the path's node was deleted. The session's
	// drain calls it.
	lookAgain(c *client, gone bool)
}

// tellChanged has those look again who subscribe to the path. gone says that its node was deleted.
func (s *Session) tellChanged(c *client, path string, gone bool) {
	for _, who := range c.looks.Fired(path) {
		who.lookAgain(c, gone)
	}
}

// tellUnwatched has whoever is interested look again, and hear from the server
// itself why the node cannot be watched.
func (s *Session) tellUnwatched(c *client, path string) {
	for _, seat := range c.watches.Fired(path) {
		seat.post(recipes.Unknown{Epoch: c.epoch, Op: recipes.OpWatch}, nil)
	}
}

func (s *Session) onEntered(seat *Seat) {
	seat.place = int32(len(s.seats))
	s.seats = append(s.seats, seat)
	if c := s.client; c.opened && !c.over {
		seat.post(recipes.Opened{Epoch: c.epoch, Session: c.link.Session()}, nil)
		if s.State() == Suspended {
			seat.post(recipes.Suspended{}, nil)
		}
	}
}

// unseat forgets a seat, if it is known.
func (s *Session) unseat(seat *Seat) {
	last := len(s.seats) - 1
	if int(seat.place) > last || s.seats[seat.place] != seat {
		return
	}
	moved := s.seats[last]
	s.seats[seat.place], moved.place = moved, seat.place
	s.seats[last] = nil
	s.seats = s.seats[:last]
}
