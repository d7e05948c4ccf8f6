package session

import (
	"testing"

	"github.com/zkgrant/zkgrant/recipes"
)

// TestNewsReachWhoIsThere has seats leave from the middle, the end and the front, some of
// them twice, and one that was never there.
func TestNewsReachWhoIsThere(t *testing.T) {
	const all = 8
	s := &Session{client: &client{}}
	heard := map[*Seat]int{}
	var seats []*Seat
	for range all {
		seat := &Seat{session: s}
		seat.post = func(recipes.Input, error) { heard[seat]++ }
		seats = append(seats, seat)
		s.onEntered(seat)
	}
	here := map[*Seat]bool{}
	for _, seat := range seats {
		here[seat] = true
	}
	for round, leaving := range []int{3, 7, 0, 3, 6, 1} {
		s.unseat(seats[leaving])
		s.unseat(&Seat{session: s})
		delete(here, seats[leaving])
		clear(heard)
		s.broadcast(recipes.Suspended{})
		for i, seat := range seats {
			if (heard[seat] == 1) != here[seat] || heard[seat] > 1 {
				t.Errorf("round %d: seat %d, there: %v, heard it %d times", round, i, here[seat], heard[seat])
			}
		}
	}
	for _, seat := range seats {
		s.unseat(seat)
	}
	if len(s.seats) != 0 {
		t.Errorf("%d seats are left", len(s.seats))
	}
	s.unseat(seats[0])
}
