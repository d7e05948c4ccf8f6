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

// seated: a seat wants the news that come after what it knows already.
type seated struct {
	seat *Seat
	told recipes.Epoch // 0: of no session
}

func (m seated) on(s *Session) {
	seat := m.seat
	seat.place = int32(len(s.seats))
	s.seats = append(s.seats, seat)
	s.enters(seat)
	c := s.client
	told := m.told != 0
	if told && (c.over || c.epoch != m.told) { // since it was told
		seat.post(recipes.Expired{}, nil)
		told = false
	}
	if !c.opened || c.over {
		return
	}
	if !told {
		seat.post(recipes.Opened{Epoch: c.epoch, Session: c.link.Session()}, nil)
	}
	if s.State() == Suspended {
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

// unseated: a seat wants no more news.
type unseated struct{ seat *Seat }

func (m unseated) on(s *Session) {
	s.unsend(m.seat)
	s.unseat(m.seat)
	s.unbound(m.seat)
	s.undelay(m.seat)
	s.gaveUp(m.seat)
	s.uncount(m.seat, false)
	m.seat.leave(s.client)
	s.leftBehind(m.seat)
}
