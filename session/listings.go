package session

import (
	"slices"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file makes the listings of one client's directories that [recipes.ListingBook] decides on, and decides when:
//
//   - Listings that are under way together are expected to have at most listingsBudget bytes. Exception: one always may be under way.
//     A probe that keeps a lock waits at most behind these.
//   - Of the listings that wait for room every other one is for a lock of which the turn may have come, if there are any. Both kinds
//     begin in the order in which they could have begun without the bound. So a handoff does not wait behind a burst, and no listing
//     waits for ever.

const (
	// listingsBudget bounds the expected bytes of the listings that are under way together.
	listingsBudget = 4 << 20
	// listedName is roughly what a name takes in a listing.
	listedName = 64
	// listedLeast is the least that a listing is expected to have. It is expected for a directory of which nothing is known.
	listedLeast = listingsBudget / parallel
)

// listings is the state of one client's listings. Only the loop touches it.
type listings struct {
	size  func(dir string) (names int) // of the directory, as far as it is known
	dirs  map[string]*listedDir
	waits [2]waitingListings // listings that wait for room alone: the urgent ones, and the others
	next  int                // which of the two the next one is of, if both have one
	bytes int                // expected of the listings that were given out and have not ended
}

// waitingListings are in order. Some of them do not wait any more, but at most half of them.
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

// first returns the listing that has waited longest, or nil.
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
	next *sharedListing // behind now, or waiting for room
}

// sharedListing is one reading of a directory, for the requests that have asked for it.
type sharedListing struct {
	slot
	of      *listings
	dir     string
	epoch   recipes.Epoch
	members []*asked
	most    urgency
	waits   *waitingListings // among these, or nil
	left    int              // members that do not want it any more
	bytes   int              // expected
	begun   bool             // no request can join or leave any more
}

func newListings(size func(dir string) int) *listings {
	return &listings{size: size, dirs: map[string]*listedDir{}}
}

// join has a listing that has not begun serve a request. It returns that listing if it may begin now and was not given out before.
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

// wait has a listing wait for room. A listing that has become urgent waits with the urgent ones.
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

// leave notes that a member, which marks itself, does not want the listing any more. It reports whether no member wants it now.
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

// begins notes that a listing that was given out is about to be made, for the members that still want it.
func (g *sharedListing) begins(*Session) {
	d := g.of.dirs[g.dir]
	g.begun, d.book = true, d.book.Begins()
	g.members = slices.DeleteFunc(g.members, func(r *asked) bool { return r.unwanted })
}

// ends notes that a listing was answered, or will not be made, and returns the listings that may begin now.
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

// give takes the waiting listings out that there is room for.
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
