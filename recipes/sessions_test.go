package recipes

import "math/bits"

// This file is about several clients in one session. They share its fate, its connection
// and replica, and its memory. A reader among them may take the place of a writer.

const (
	roleRead   uint8 = 1 << iota // requests the read side of a read/write lock
	roleWrite                    // requests the write side
	roleShares                   // shares a session with all other clients that have this role
	roleTrades                   // a writer whose place a reader of the same session may take
	roleTakes                    // the reader that may take it
	roleClaims                   // for a lock that is one node: it has the node, or may have created it
	roleKazoo                    // has kazoo's names
	roleDelays                   // has a lock-delay
)

// mates returns the clients of a client's session, itself included.
func (w *world) mates(c int) uint8 {
	if w.clients[c].role&roleShares == 0 {
		return 1 << c
	}
	var mask uint8
	for i := range w.clients {
		if w.clients[i].role&roleShares != 0 {
			mask |= 1 << i
		}
	}
	return mask
}

// leads reports whether a client is the first of its session, and acts for it.
func (w *world) leads(c int) bool { return bits.TrailingZeros8(w.mates(c)) == c }

func (w *world) each(c int, do func(c int, cl *client)) {
	for m := w.mates(c); m != 0; m &= m - 1 {
		i := bits.TrailingZeros8(m)
		do(i, &w.clients[i])
	}
}

// trader returns the writer whose place a client may take, or -1 if that writer has
// ended.
func (w *world) trader(c int) int {
	if w.clients[c].role&roleTakes != 0 {
		for i := range w.clients {
			if w.clients[i].role&roleTrades != 0 {
				return i
			}
		}
	}
	return -1
}

// never reports whether the writer whose place a reader would take will not hold again.
func (w *world) never(c int) bool {
	t := w.trader(c)
	return t < 0 || w.clients[t].told&(toldWithdrawn|toldLost|toldFinish) != 0
}

// pending reports whether a writer's caller waits for the read lock in its place.
func (w *world) pending(c int) bool {
	for i := range w.clients {
		if cl := &w.clients[i]; cl.role&roleTakes != 0 && w.trader(i) == c {
			return cl.told&toldStart != 0 && cl.told&(toldGrant|toldWithdrawn|toldFinish) == 0
		}
	}
	return false
}

// mayTake reports whether a writer holds whose place a reader may request.
func (w *world) mayTake(c int) bool {
	t := w.trader(c)
	return t >= 0 && w.clients[t].holds()
}

// orphaned reports whether a reader waits for the place of a writer that no longer holds.
// The reader's caller learns of that, and gives up.
func (w *world) orphaned(c int) bool {
	cl := &w.clients[c]
	return cl.role&roleTakes != 0 && cl.told&(toldStart|toldGrant|toldWithdrawn|toldFinish) == toldStart && !w.mayTake(c)
}

// takePlace requests a writer's place, as the session does for the create of a reader
// that takes one.
func (e *environment) takePlace(w *world, c int, r *request) {
	t := w.trader(c)
	if t < 0 || w.clients[t].hold&holdProven == 0 {
		r.status, r.flags = executed, r.flags|reqMissing|reqRefused // by the session itself
		return
	}
	w.clients[t].hold |= holdTraded
	r.mask = 1 + e.traits[w.clients[t].machine].own
}

// claimNode enters a client in its session's book of a lock that is one node, as the
// session does before it sends the create. If the book has another owner, the client
// learns at once that the node exists.
func (e *environment) claimNode(w *world, c int, r *request) {
	book, entered := w.owners(c).Enter(c + 1)
	if !entered {
		r.status, r.flags = executed, r.flags|reqMissing|reqRefused // by the session itself
	}
	w.own(c, book)
}

// owners returns the book of a session, in which a client is 1 + its index.
func (w *world) owners(c int) (b OwnerBook[int]) {
	w.each(c, func(c int, cl *client) {
		if cl.role&roleClaims != 0 {
			b.Owner = c + 1
		}
	})
	return b
}

func (w *world) own(c int, b OwnerBook[int]) {
	w.each(c, func(c int, cl *client) {
		cl.role &^= roleClaims
		if b.Owner == c+1 {
			cl.role |= roleClaims
		}
	})
}

// heardOwn notes what a client learns about its node.
func (e *environment) heardOwn(w *world, c int, in Input) {
	if e.single && w.clients[c].role&roleClaims != 0 {
		w.own(c, w.owners(c).Heard(c+1, in, 0))
	}
}

// ours finds the client's node of a lock that is one node. The name does not identify its
// creator: a node of the client's session is the client's if the client may have created
// it.
func (e *environment) ours(w *world, c int, view uint8) uint8 {
	cl := &w.clients[c]
	for m := w.mates(c); e.single && m != 0; m &= m - 1 {
		if nodes := w.mineOf(bits.TrailingZeros8(m), cl.epoch, view); nodes != 0 {
			id := uint8(bits.TrailingZeros8(nodes))
			if w.owners(c).Owns(c+1, int64(id)+1) {
				return id + 1 | cl.epoch<<4
			}
		}
	}
	return 0
}

// leaves notes in the session's book that a client gives up its node. A client that is
// alone in its session needs no book.
func (w *world) leaves(c int, id uint8, floor bool) {
	if w.clients[c].role&roleShares != 0 {
		w.each(c, func(_ int, cl *client) { cl.left = cl.left.Leaves(id+1, floor) })
	}
}

func (w *world) removed(c int, id uint8, floor bool) {
	if w.clients[c].role&roleShares != 0 {
		w.each(c, func(_ int, cl *client) { cl.left = cl.left.Removed(id+1, floor) })
	}
}

// shortcut skips the parts of an advance that its session already knows.
func (cl *client) shortcut(r *request) {
	if r.mask == 0 {
		*r = r.keeping(r.handoff().Knows(cl.left.Free(r.own&0xf+1, r.own>>4+1)))
	}
}

func (cl *client) ended() client {
	return client{machine: machineOver, flags: cl.flags, told: cl.told & toldFinish, lease: true}
}

func (cl *client) form() form {
	switch kazoo := cl.role&roleKazoo != 0; {
	case kazoo && cl.role&roleRead != 0:
		return formKazooRead
	case kazoo:
		return formKazooLock
	case cl.role&roleRead != 0:
		return formRead
	case cl.role&roleWrite != 0:
		return formWrite
	default:
		return formLock
	}
}
