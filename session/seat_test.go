package session

import (
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// The listing of a past epoch may be answered after the listing of the next one has found
// another node.
func TestALateListingDoesNotTakeTheInterestAway(t *testing.T) {
	c := &client{}
	s := &Seat{content: &content{}}
	s.nameOwn(c, recipes.Epoch(2), []string{"/dir/new"}, 0)
	s.nameOwn(c, recipes.Epoch(1), []string{"/dir/old"}, 0)
	equal(t, s.ownNode(), "/dir/new", "the own node, after the listing of a past epoch")
	s.subscribe(c, ofNode, "/dir/new")
	s.subscribe(c, ofNode, "/dir/old")
	expect(t, slices.Equal(c.watches.Fired("/dir/new"), []*Seat{s}), "the seat does not follow the new node")
	expect(t, len(c.watches.Fired("/dir/old")) == 0, "the seat follows the past node")
}

// Requests may overtake each other: of two watches, the one requested later counts.
func TestTheLaterWatchCounts(t *testing.T) {
	c := &client{}
	s := &Seat{content: &content{}}
	first, _ := s.follow("/dir/a")
	second, _ := s.follow("/dir/b")
	expect(t, first == "" && second == "/dir/a",
		"the watches took the place of %q and %q, want none and /dir/a", first, second)
	s.drop(c, second)
	s.subscribe(c, ofNode, "/dir/b")
	s.drop(c, first)
	s.subscribe(c, ofNode, "/dir/a")
	expect(t, len(c.watches.Fired("/dir/a")) == 0, "the seat follows the first path")
	expect(t, len(c.watches.Fired("/dir/b")) == 1, "the seat does not follow the second path")
}

// TestNewsReachTheSeatsThatAreThere removes seats from the middle, the end and the front.
// Some are removed twice, and one was never there.
func TestNewsReachTheSeatsThatAreThere(t *testing.T) {
	s := &Session{client: &client{}}
	heard, here := map[*Seat]int{}, map[*Seat]bool{}
	var seats []*Seat
	for range 8 {
		seat := &Seat{session: s}
		seats, here[seat] = append(seats, seat), true
		seat.Open(func(recipes.Input, error) bool { heard[seat]++; return false })
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
	expect(t, len(s.seats) == 0, "%d seats are left, want none", len(s.seats))
	s.unseat(seats[0])
}

// TestALateGrantLeavesNoSeatBehind: a create is answered, but the answer is settled only
// after its session has ended and its seat was closed.
func TestALateGrantLeavesNoSeatBehind(t *testing.T) {
	c := &client{}
	c.phase.Store(phaseOver)
	s := &Session{client: c, holders: map[*Seat]string{}, unwatched: map[*Seat]struct{}{}}
	seat := &Seat{session: s, content: &content{}, post: func(recipes.Input, error) bool { return false }}
	created := recipes.Created{Node: events.Name{Text: "lock-0000000000"}, Alone: true}
	s.prove(c, &seatRequest{seat: seat}, created)
	equal(t, len(s.unwatched), 0, "the seats whose nodes are to be watched")
}
