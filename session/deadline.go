package session

import (
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about the moment by which a holder has to give its lock back (see revoke.go). The lock is lost then. As with
// every loss, the session knows before the holder hears of it. So after that no reader takes its place.

// bound starts the clock of a holder that was told by when to give its lock back. The moment is
// the soonest so far.
func (s *Session) bound(seat *Seat, by recipes.Moment) {
	s.unbound(seat)
	at := actors.TimeOf(by)
	overdue := func() {
		s.tell(seat, recipes.Overdue{By: by}, nil)
	}
	s.deadlines[seat] = deadline{at, time.AfterFunc(time.Until(at), func() { s.loop.Post(overdue) })}
}

// unbound stops the clock of a seat.
func (s *Session) unbound(seat *Seat) {
	if d, ok := s.deadlines[seat]; ok {
		d.timer.Stop()
		delete(s.deadlines, seat)
	}
}
