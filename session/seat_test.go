package session

import (
	"testing"

	"github.com/zkgrant/zkgrant/recipes"
)

// The listing of a past epoch may be answered when the listing of the next one has found another node.
func TestALateListingDoesNotTakeTheInterestAway(t *testing.T) {
	c := &client{}
	s := &Seat{content: &content{}}
	s.nameOwn(c, recipes.Epoch(2), []string{"/dir/new"}, 0)
	s.nameOwn(c, recipes.Epoch(1), []string{"/dir/old"}, 0)
	if own := s.ownNode(); own != "/dir/new" {
		t.Errorf("the own node is %q behind that of a past epoch, want /dir/new", own)
	}
	s.subscribe(c, ofNode, "/dir/new")
	s.subscribe(c, ofNode, "/dir/old")
	if got := c.watches.Fired("/dir/new"); len(got) != 1 || got[0] != s {
		t.Errorf("%v follow the new node, want the seat", got)
	}
	if got := c.watches.Fired("/dir/old"); len(got) != 0 {
		t.Errorf("%v follow the past node, want no seat", got)
	}
}

// Requests may overtake each other: of two, the one made later counts.
func TestTheLaterWatchCounts(t *testing.T) {
	c := &client{}
	s := &Seat{content: &content{}}
	first := s.follow("/dir/a")
	second := s.follow("/dir/b")
	if first != "" || second != "/dir/a" {
		t.Errorf("the watches took the place of %q and %q, want none and /dir/a", first, second)
	}
	s.drop(c, second)
	s.subscribe(c, ofNode, "/dir/b")
	s.drop(c, first)
	s.subscribe(c, ofNode, "/dir/a")
	if got := c.watches.Fired("/dir/a"); len(got) != 0 {
		t.Errorf("%v follow the first path, want no seat", got)
	}
	if got := c.watches.Fired("/dir/b"); len(got) != 1 {
		t.Errorf("%v follow the second path, want the seat", got)
	}
}

// TestNewsReachTheSeatsThatAreThere has seats leave from the middle, the end and the front. Some leave twice, and one was never there.
func TestNewsReachTheSeatsThatAreThere(t *testing.T) {
	const all = 8
	s := &Session{client: &client{}}
	heard := map[*Seat]int{}
	var seats []*Seat
	for range all {
		seat := &Seat{session: s}
		seats = append(seats, seat)
		seat.Open(func(recipes.Input, error) bool { heard[seat]++; return false })
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
				t.Errorf("round %d: seat %d, there: %v, heard the news %d times; want once if it is there", round, i, here[seat], heard[seat])
			}
		}
	}
	for _, seat := range seats {
		s.unseat(seat)
	}
	if len(s.seats) != 0 {
		t.Errorf("%d seats are left, want none", len(s.seats))
	}
	s.unseat(seats[0])
}
