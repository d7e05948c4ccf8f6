package recipes

// This file is about the results of a listing, and the clients that get them: clients of
// one session share a listing.

// listings are the listings that a session makes for its contenders. A request is served
// by a listing that begins after it, so the listing has the contender's own node. One
// listing is in progress at a time. Requests that arrive meanwhile wait for the next one,
// together.
type listings struct {
	now  listingStage
	next bool // another listing follows that one, or waits for room
}

type listingStage uint8

const (
	listingNone listingStage = iota
	listingGiven
	listingBegun // no further request can join it
)

// list answers a list request with the nodes that exist in a view.
func (e *environment) list(w *world, c int, r *request, view uint8) {
	cl := &w.clients[c]
	permits := w.forms.permits()
	r.mask = view &^ permits
	for id, n := range w.nodes {
		if r.arg != 0 && n.owner == uint8(c)+1 && n.attempt == r.arg && r.mask&(1<<id) != 0 && !e.single {
			r.own = uint8(id) + 1 | n.epoch<<4
		}
	}
	listed := Listed{}
	if r.own != 0 {
		listed.Own.Owner = sessionID(r.own >> 4)
	}
	if (List{Barrier: r.flags&reqBarrier != 0}).LooksForPermits(listed) {
		for id, n := range w.nodes {
			if n.owner == uint8(c)+1 && n.attempt == r.arg && view&permits&(1<<id) != 0 {
				r.own = uint8(id) + 1 | n.epoch<<4
				r.flags |= reqFloor // the node is a permit
			}
		}
	}
	if ours := e.ours(w, c, view); ours != 0 {
		r.own = ours
	}
	if r.flags&reqStands != 0 {
		r.arg |= w.sizes[cl.lag].permits() << 4
	}
	if w.saw(c, w.dirs[cl.lag]) {
		w.read(c, w.dirs[cl.lag])
	}
}

// shares reports whether a client's request is a list request that is served by the
// listings of its session. A request with a barrier, or for a semaphore's size, gets a
// listing of its own.
func (e *environment) shares(cl *client, r *request) bool {
	return e.together && cl.role&roleShares != 0 && r.op == OpList && r.epoch == cl.epoch && r.flags&(reqBarrier|reqStands) == 0 &&
		(r.status == sent || r.status == parked)
}

// members calls do for each request that is to be served by the listings of a session.
func (e *environment) members(w *world, c int, do func(c int, r *request)) {
	w.each(c, func(c int, cl *client) {
		for i := range cl.requests {
			if r := &cl.requests[i]; e.shares(cl, r) {
				do(c, r)
			}
		}
	})
}

// joinsListing assigns a request to a listing.
func (e *environment) joinsListing(w *world, c int, r *request) {
	if !e.shares(&w.clients[c], r) {
		return
	}
	switch w.lists.now {
	case listingNone:
		w.lists = listings{now: listingGiven}
	case listingBegun:
		w.lists.next = true
		r.flags |= reqNext
	default: // it joins
	}
}

// listForAll makes the pending listing, for all requests that it serves.
func (e *environment) listForAll(w *world, c int) {
	w.lists.now = listingBegun
	e.members(w, c, func(c int, r *request) {
		if r.status == sent && r.flags&reqNext == 0 {
			cl := &w.clients[c]
			r.status, r.age = executed, cl.lag
			e.list(w, c, r, w.past[cl.lag])
		}
	})
}

// listingEnds notes that a listing was answered, or will not be made. The next one is
// pending from then on.
func (e *environment) listingEnds(w *world, c int) {
	w.lists.now = listingNone
	if w.lists.next {
		w.lists = listings{now: listingGiven}
		e.members(w, c, func(_ int, r *request) { r.flags &^= reqNext })
	}
}

// unlisted drops the listings of a session for which no request waits any more.
func (e *environment) unlisted(w *world, c int) {
	if !e.together || w.clients[c].role&roleShares == 0 {
		return
	}
	now, next := false, false
	e.members(w, c, func(_ int, r *request) {
		now, next = now || r.flags&reqNext == 0, next || r.flags&reqNext != 0
	})
	w.lists.next = w.lists.next && next
	if w.lists.now == listingGiven && !now {
		e.listingEnds(w, c)
	}
}
