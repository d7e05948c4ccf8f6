package session

import (
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about what seats are told without having asked.

// broadcast goes through the seats in the order in which they were made, as far as that
// order is kept. With many of them it is twice as fast as any other order: their memory
// is in that order, too.
func (s *Session) broadcast(in recipes.Input) {
	for _, seat := range s.seats {
		seat.post(in, nil)
	}
}

// seat begins the news of a seat, with those that come after what it was told already: that
// there is a session of this epoch, or of none if it is 0.
func (s *Session) seat(seat *Seat, told recipes.Epoch) {
	seat.place = int32(len(s.seats))
	s.seats = append(s.seats, seat)
	s.enters(seat)
	c := s.client
	if told != 0 && (c.isOver() || c.epoch != told) { // since it was told
		seat.post(recipes.Expired{}, nil)
		told = 0
	}
	if !c.is(phaseUp) && !c.is(phaseSuspended) {
		return
	}
	if told == 0 {
		seat.post(recipes.Opened{Epoch: c.epoch, Session: c.link.Session()}, nil)
	}
	if c.is(phaseSuspended) {
		seat.post(recipes.Suspended{}, nil)
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

// leave ends what the session does for a seat.
func (s *Session) leave(seat *Seat) {
	s.unsend(seat)
	s.unseat(seat)
	s.unbound(seat)
	s.undelay(seat)
	s.gaveUp(seat)
	s.uncount(seat, false)
	seat.leave(s.client)
	s.leftBehind(seat)
}
