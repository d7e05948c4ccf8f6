package recipes

// ListingBook is which listings of one directory a session makes for its contenders. Many of them may wait in one directory, and all that
// a listing tells is the same for each:
//
//   - A request is served by a listing that begins after it, and so knows of the contender's own node. By one that is under way: 1. B
//     lists; 2. C's node is made; 3. C lists, and is told what B is, without its node; 4. it takes that for gone, makes another one, and
//     waits behind the first, which nobody removes.
//   - One listing is under way at a time. Requests that come meanwhile wait for the next one, together.
//
// It is a small comparable value. The zero value has none.
type ListingBook struct {
	now  listingStage
	next bool // there is one behind that, or one that waits for room
}

type listingStage uint8

const (
	listingNone listingStage = iota
	listingGiven
	listingBegun
)

// Joins has a request served. It reports whether that is by the listing that was given out, and not by the next one.
func (b ListingBook) Joins() (_ ListingBook, now bool) {
	if b.now == listingGiven {
		return b, true
	}
	b.next = true
	return b, false
}

// Waits reports whether the next listing waits for nothing but room.
func (b ListingBook) Waits() bool { return b.next && b.now == listingNone }

// Given gives the next listing out.
func (b ListingBook) Given() ListingBook { return ListingBook{now: listingGiven} }

// Begins notes that the one that was given out is about to be made: nobody can join it any more.
func (b ListingBook) Begins() ListingBook {
	b.now = listingBegun
	return b
}

// Ends notes that it was answered, or will not be made.
func (b ListingBook) Ends() ListingBook {
	b.now = listingNone
	return b
}

// Dropped notes that nobody wants the next one any more.
func (b ListingBook) Dropped() ListingBook {
	b.next = false
	return b
}
