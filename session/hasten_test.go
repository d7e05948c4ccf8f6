package session

import (
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/recipes"
)

// TestAListingIsAsUrgentAsItsMostUrgentMember: somebody whose turn may have come joins a listing that waits with the others.
func TestAListingIsAsUrgentAsItsMostUrgentMember(t *testing.T) {
	var q pending
	book := newListings(func(string) int { return 0 })
	q.add(&waiter{number: 1, urgent: joining})
	given := book.join("d", &asked{op: recipes.OpList})
	if len(given) != 1 {
		t.Fatalf("the first request gives %d listings out, want one", len(given))
	}
	q.add(given[0])
	q.hasten(given[0])
	if next := q.next(); next == given[0] {
		t.Errorf("a listing goes first that nobody needs at once, want it behind what was there before")
	}
	book.join("d", &asked{op: recipes.OpList, turn: true})
	q.hasten(given[0])
	if next := q.next(); next != given[0] {
		t.Errorf("next is %v when the turn of one may have come, want the listing", next)
	}
}

// TestAListingGoesWithTheLastWhoWantsIt, whether it was given out or stands behind another one.
func TestAListingGoesWithTheLastWhoWantsIt(t *testing.T) {
	for _, behind := range []bool{false, true} {
		book := newListings(func(string) int { return 0 })
		if behind {
			book.begins(book.join("d", &asked{op: recipes.OpList})[0])
		}
		var members []*asked
		for range 5 {
			r := &asked{op: recipes.OpList}
			book.join("d", r)
			members = append(members, r)
		}
		g := members[0].served[0]
		for i, r := range members {
			r.unwanted = true
			if nobody := g.leave(); nobody != (i == len(members)-1) {
				t.Errorf("behind another one %v: when %d of %d have left, nobody is left: %v", behind, i+1, len(members), nobody)
			}
			if kept := len(g.members); kept > 2*(len(members)-i-1) {
				t.Errorf("behind another one %v: %d are kept when %d have left, want twice the others at most", behind, kept, i+1)
			}
		}
		book.drop(g)
		d, there := book.dirs["d"]
		if there != behind || there && d.next != nil || g.waits != nil || !behind && book.bytes != 0 {
			t.Errorf("behind another one %v: the book has %+v, waits %v and %d bytes, want nothing of the listing", behind, d, g.waits, book.bytes)
		}
	}
}

// TestUrgentListingsDoNotWaitBehindABurst: those for whose locks the turn may have come, and the others, begin by turns when there is room again.
func TestUrgentListingsDoNotWaitBehindABurst(t *testing.T) {
	book := newListings(func(string) int { return listingsBudget }) // so one is made at a time
	now := book.join("first", &asked{op: recipes.OpList})[0]
	for _, dir := range []string{"a", "b", "c", "d"} {
		book.join(dir, &asked{op: recipes.OpList})
	}
	for _, dir := range []string{"x", "c", "y", "z"} { // c is another one's turn by now
		book.join(dir, &asked{op: recipes.OpList, turn: true})
	}
	var order []string
	for now != nil {
		book.begins(now)
		given := book.ends(now)
		if now = nil; len(given) == 1 {
			now = given[0]
			order = append(order, now.dir)
		}
	}
	if want := []string{"a", "x", "b", "c", "d", "y", "z"}; !slices.Equal(order, want) {
		t.Errorf("the listings begin in the order %v, want %v", order, want)
	}
}
