package session

import (
	"slices"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file makes the listings of one client's directories that [recipes.ListingBook] decides on, and decides when:
//
//   - Listings that are under way together are expected to have no more than listingsBudget bytes, but one always may be. A probe
//     that keeps a lock waits behind those at the most.
//   - Of those that wait for room every other one is for a lock whose turn may have come, if there are any. Both begin in
//     the order in which they could have without it. So a handoff does not wait behind a burst, and nobody waits for ever.

const (
	// listingsBudget bounds the bytes of the listings that are under way together, as far as they are known beforehand.
	listingsBudget = 4 << 20
	// listedName is about what a name takes in a listing.
	listedName = 64
	// listedLeast is what a listing is expected to have at the least, and one of a directory of which nothing is known.
	listedLeast = listingsBudget / parallel
)

// listings is what one client's listings are up to. Only the session's drain touches it.
type listings struct {
	size  func(dir string) (names int) // of the directory, as far as it is known
	dirs  map[string]*listedDir
	waits [2]waitingListings // those that wait for room alone: the urgent ones, and the others
	next  int                // of which of the two the next one is, if both have one
	bytes int                // expected of those that were given out and have not ended
}

// waitingListings are in order. Some of them do not wait any more, but no more than do.
type waitingListings struct {
	all  []*sharedListing
	gone int
}

func (w *waitingListings) add(g *sharedListing) {
	g.waits = w
	w.all = append(w.all, g)
}

// leave takes a listing out, wherever it stands.
func (w *waitingListings) leave(g *sharedListing) {
	g.waits = nil
	if w.gone++; 2*w.gone >= len(w.all) {
		w.all = slices.DeleteFunc(w.all, func(g *sharedListing) bool { return g.waits != w })
		w.gone = 0
	}
}

// first returns the one that has waited longest, or nil.
func (w *waitingListings) first() *sharedListing {
	for len(w.all) > 0 && w.all[0].waits != w {
		w.all = w.all[1:]
		w.gone--
	}
	if len(w.all) == 0 {
		return nil
	}
	return w.all[0]
}

// listedDir is a directory with a listing: given out, or waiting.
type listedDir struct {
	book recipes.ListingBook
	now  *sharedListing // given out, and not ended
	next *sharedListing // behind that, or waiting for room
}

// sharedListing is one reading of a directory, for those who have asked for it.
type sharedListing struct {
	slot
	of      *listings
	dir     string
	epoch   recipes.Epoch
	members []*asked
	most    urgency
	waits   *waitingListings // among these, or nil
	left    int              // members who do not want it any more
	bytes   int              // expected
	begun   bool             // nobody can join or leave any more
}

func newListings(size func(dir string) int) *listings {
	return &listings{size: size, dirs: map[string]*listedDir{}}
}

// join has a request served by a listing that has not begun. If that may begin now, and was not given out before, it is returned.
func (l *listings) join(dir string, r *asked) (out []*sharedListing) {
	d := l.dirs[dir]
	if d == nil {
		d = &listedDir{}
		l.dirs[dir] = d
	}
	book, now := d.book.Joins()
	if d.book = book; now {
		d.now.serve(r)
		return nil
	}
	if d.next == nil {
		d.next = &sharedListing{of: l, dir: dir, epoch: r.epoch, most: urgencies}
	}
	d.next.serve(r)
	if book.Waits() {
		l.wait(d.next)
	}
	return l.give()
}

// wait has a listing wait for room, or wait with the urgent ones if it has become one.
func (l *listings) wait(g *sharedListing) {
	queue := &l.waits[0]
	if g.most > handing {
		queue = &l.waits[1]
	}
	if g.waits == queue {
		return
	}
	if g.waits != nil {
		g.waits.leave(g)
	}
	queue.add(g)
}

func (g *sharedListing) serve(r *asked) {
	g.members = append(g.members, r)
	g.most = min(g.most, r.urgency())
	r.served = append(r.served, g)
}

// leave notes that one of the members does not want it any more, which says so of itself. It reports whether nobody is left who does.
func (g *sharedListing) leave() (nobody bool) {
	g.left++
	if 2*g.left > len(g.members) {
		g.members = slices.DeleteFunc(g.members, func(r *asked) bool { return r.unwanted })
		g.left = 0
	}
	return len(g.members) == 0
}

// drop takes out a listing that has not begun, and returns those that may begin instead.
func (l *listings) drop(g *sharedListing) (out []*sharedListing) {
	d := l.dirs[g.dir]
	if d.now == g {
		return l.ends(g)
	}
	g.begun, d.next, d.book = true, nil, d.book.Dropped()
	if d.now == nil {
		delete(l.dirs, g.dir)
		g.waits.leave(g)
	}
	return nil
}

// begins notes that a listing that was given out is about to be made, for those who still want it.
func (g *sharedListing) begins(*Session) {
	d := g.of.dirs[g.dir]
	g.begun, d.book = true, d.book.Begins()
	g.members = slices.DeleteFunc(g.members, func(r *asked) bool { return r.unwanted })
}

// ends notes that a listing was answered, or will not be made, and returns those that may begin now.
func (l *listings) ends(g *sharedListing) (out []*sharedListing) {
	g.begun = true
	l.bytes -= g.bytes
	d := l.dirs[g.dir]
	d.now, d.book = nil, d.book.Ends()
	if d.book.Waits() {
		l.wait(d.next)
	} else {
		delete(l.dirs, g.dir)
	}
	return l.give()
}

// give takes those from the waiting that there is room for.
func (l *listings) give() (out []*sharedListing) {
	for {
		g := l.waits[l.next].first()
		if g == nil {
			g = l.waits[1-l.next].first()
		}
		if g == nil {
			return out
		}
		bytes := max(listedLeast, listedName*l.size(g.dir))
		if l.bytes > 0 && l.bytes+bytes > listingsBudget {
			return out
		}
		l.next = 1 - l.next
		g.waits.leave(g)
		d := l.dirs[g.dir]
		d.now, d.next, d.book = g, nil, d.book.Given()
		g.bytes = bytes
		l.bytes += bytes
		out = append(out, g)
	}
}
