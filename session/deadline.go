package session

import (
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about the moment by which a holder has to give its lock back (see revoke.go). The lock is lost then. As with
// every loss, the session knows before the holder hears of it. So after that no reader takes its place.

// bounded: a holder was told by when to give its lock back. It is the soonest moment so far.
type bounded struct {
	seat *Seat
	by   recipes.Moment
}

func (m bounded) on(s *Session) {
	s.unbound(m.seat)
	at := actors.TimeOf(m.by)
	s.deadlines[m.seat] = deadline{at, time.AfterFunc(time.Until(at), func() { s.actor.Post(overdue(m)) })}
}

// overdue: the moment has come.
type overdue struct {
	seat *Seat
	by   recipes.Moment
}

func (m overdue) on(s *Session) {
	s.note(m.seat, m.seat.tenure.GaveUp())
	m.seat.post(recipes.Overdue{By: m.by}, nil)
}

// unbound stops the clock of a seat.
func (s *Session) unbound(seat *Seat) {
	if d, ok := s.deadlines[seat]; ok {
		d.timer.Stop()
		delete(s.deadlines, seat)
	}
}
