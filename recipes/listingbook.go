package recipes

// ListingBook says which listings of one directory a session makes for its contenders. Many of them may wait in one directory, and
// a listing tells each the same:
//
//   - A request is served by a listing that begins after it, so the listing has the contender's own node.
//   - One listing is under way at a time. Requests that come meanwhile wait for the next one, together.
//
// A request must not be served by a listing that is under way:
//
//  1. B lists.
//  2. C's node is made.
//  3. C lists, and gets B's answer, without its own node.
//  4. C takes its node for gone, makes another one, and waits behind the first, which nothing removes.
//
// It is a small comparable value. The zero value has no listings.
type ListingBook struct {
	now  listingStage
	next bool // a listing is to follow that, or waits for room
}

type listingStage uint8

const (
	listingNone listingStage = iota
	listingGiven
	listingBegun
)

// Joins adds a request. It reports whether the listing that was given out serves it, and not the next one.
func (b ListingBook) Joins() (_ ListingBook, now bool) {
	if b.now == listingGiven {
		return b, true
	}
	b.next = true
	return b, false
}

// Waits reports whether the next listing waits only for room.
func (b ListingBook) Waits() bool { return b.next && b.now == listingNone }

// Given gives out the next listing.
func (b ListingBook) Given() ListingBook { return ListingBook{now: listingGiven} }

// Begins notes that the listing that was given out is about to be made: no request can join it any more.
func (b ListingBook) Begins() ListingBook {
	b.now = listingBegun
	return b
}

// Ends notes that the listing was answered, or will not be made.
func (b ListingBook) Ends() ListingBook {
	b.now = listingNone
	return b
}

// Dropped notes that no request needs the next listing any more.
func (b ListingBook) Dropped() ListingBook {
	b.next = false
	return b
}
