package session

import (
	"slices"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about news that seats receive without a request.

// broadcast notifies all seats, in the order in which they were made, as far as that
// order is kept: of two waiters for one lock the first asks first. With many seats this
// order is also twice as fast as any other, because their memory is in it. A machine that
// ends takes its seat out of s.seats.
func (s *Session) broadcast(in recipes.Input) {
	for _, seat := range slices.Clone(s.seats) {
		s.tell(seat, in, nil)
	}
}

// seat begins the news of a seat. It returns Opened if there is a session.
func (s *Session) seat(seat *Seat) (opened recipes.Opened) {
	seat.place = int32(len(s.seats))
	s.seats = append(s.seats, seat)
	s.enters(seat)
	c := s.client
	if suspended := c.is(phaseSuspended); suspended || c.is(phaseUp) {
		opened = recipes.Opened{Epoch: c.epoch, Session: c.link.Session(), Suspended: suspended}
	}
	return opened
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
	s.stopDeadline(seat)
	s.stopDelay(seat)
	s.noteNodeGone(seat)
	s.uncount(seat, false)
	seat.leave(s.client)
	s.leftBehind(seat)
}
