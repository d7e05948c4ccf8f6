package session

import "github.com/zkgrant/zkgrant/recipes"

// This file is about a writer that becomes a reader without letting another writer in
// between. While it holds, another seat makes a read node with the number of the write
// node, as Curator does. Then the write node is given up, and the read node has its place
// in the queue.

// Its token is that of the write node, and not the zxid that created the read node. That
// zxid is greater than those of writers that wait:
//
//  1. W5 holds, created by 5, and V6 waits.
//  2. The read node of W5 is created, by 7.
//  3. W5 leaves. The reader shows its token 7 to a store that refuses older ones, and
//     leaves.
//  4. V6 is granted, and the store refuses it, although no later writer has come.

// fence returns the zxid that created the node of a writer that holds, or 0.
func (t *Seat) fence() int64 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.born
}

// mayTakePlace reports whether the request may be made. A create in the place of a writer
// may be made only while the writer holds. From then on the writer leaves no floor, see
// Seat.traded. Both requests come through here, so no floor is in progress when a read
// node is made, and none is sent later.
func (s *Session) mayTakePlace(r *seatRequest) (may bool) {
	switch {
	case r.op == recipes.OpCreate && r.seat.in != nil:
		writer := r.seat.in
		if s.isOverdue(writer) {
			return false
		}
		_, may = s.holders[writer]
		writer.traded = writer.traded || may
		return may
	case r.op == recipes.OpDelete && r.seat.traded:
		e, _ := r.effect.(recipes.Delete)
		e.Floor = false
		r.effect = e
	}
	return true
}
