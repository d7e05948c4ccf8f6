package recipes

// What a listing tells, and to which clients: those of one session that want one share it.

// list answers a listing by what is there in a view.
func (e *environment) list(w *world, c int, r *request, view uint8) {
	cl := &w.clients[c]
	permits := w.forms.permits()
	r.mask = view &^ permits
	for id, n := range w.nodes {
		if r.arg != 0 && n.owner == uint8(c)+1 && n.attempt == r.arg && r.mask&(1<<id) != 0 && !e.single {
			r.own = uint8(id) + 1 | n.epoch<<4
		}
	}
	if r.own == 0 && r.flags&reqBarrier != 0 && e.shell != shellOnePlace {
		for id, n := range w.nodes {
			if n.owner == uint8(c)+1 && n.attempt == r.arg && view&permits&(1<<id) != 0 {
				r.own = uint8(id) + 1 | n.epoch<<4
				r.flags |= reqFloor // it is a permit's
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

// listForOthers has the listing that a client was answered serve all others of its session who have asked for one by then. Those
// that want a barrier have theirs still to come.
func (e *environment) listForOthers(w *world, c int) {
	if !e.together {
		return
	}
	w.each(c, func(other int, cl *client) {
		for i := range cl.requests {
			if r := &cl.requests[i]; Op(r.op) == OpList && r.status == sent && r.flags&(reqBarrier|reqStands) == 0 && r.epoch == cl.epoch {
				r.status, r.age = executed, cl.lag
				e.list(w, other, r, w.past[cl.lag])
			}
		}
	})
}

// joinListing is the seeded bug: a listing that has been read already, and whose answer is on its way to another one of the session, serves
// a request that comes only now.
func (e *environment) joinListing(w *world, c int, r *request) {
	if e.shell != shellJoinsLate || r.status != sent {
		return
	}
	w.each(c, func(other int, cl *client) {
		for _, o := range cl.requests {
			if other != c && Op(o.op) == OpList && o.status == executed && o.epoch == cl.epoch && r.status == sent {
				r.status, r.age = executed, o.age
				e.list(w, c, r, o.mask)
			}
		}
	})
}
