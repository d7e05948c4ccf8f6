package session

import (
	"testing"

	"github.com/zkgrant/zkgrant/recipes"
)

// The listing of a past epoch may be answered when that of the next one has found another node.
func TestALateListingDoesNotTakeTheInterestAway(t *testing.T) {
	c := &client{watches: newWatches()}
	s := &Seat{content: &content{layout: queued{}}}
	s.nameOwn(recipes.Epoch(2), "/dir/new", 0)
	if before := s.nameOwn(recipes.Epoch(1), "/dir/old", 0); before != "" {
		t.Errorf("the past epoch took the place of %q", before)
	}
	s.note(c, "/dir/new")
	s.note(c, "/dir/old")
	if got := c.watches.gone("/dir/new"); len(got) != 1 || got[0] != s {
		t.Errorf("interested in the node: %v", got)
	}
	if got := c.watches.gone("/dir/old"); len(got) != 0 {
		t.Errorf("interested in the past one: %v", got)
	}
}

// Requests may overtake each other: of two, the one made later counts.
func TestTheLaterWatchCounts(t *testing.T) {
	c := &client{watches: newWatches()}
	s := &Seat{content: &content{layout: queued{}}}
	first := s.follow("/dir/a")
	second := s.follow("/dir/b")
	if first != "" || second != "/dir/a" {
		t.Errorf("took the place of %q and %q", first, second)
	}
	s.drop(c, second)
	s.note(c, "/dir/b")
	s.drop(c, first)
	s.note(c, "/dir/a")
	if got := c.watches.gone("/dir/a"); len(got) != 0 {
		t.Errorf("interested in the first: %v", got)
	}
	if got := c.watches.gone("/dir/b"); len(got) != 1 {
		t.Errorf("interested in the second: %v", got)
	}
}
