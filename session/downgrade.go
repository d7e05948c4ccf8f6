package session

import (
	"fmt"
	"path"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about a writer that becomes a reader without letting another writer in between. While it holds,
// another seat makes a read node with the number of the write node, as Curator does. Then the write node is
// given up, and the read node has its place in the queue.

// Its token is that of the write node, and not the zxid that created the read node. That zxid is greater than
// those of writers that wait:
//
//  1. W5 holds, created by 5, and V6 waits.
//  2. The read node of W5 is created, by 7.
//  3. W5 leaves. The reader shows its token 7 to a store that refuses older ones, and leaves.
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

// placed is the queue of a reader that takes a writer's place.
type placed struct{ queued }

func (placed) form() recipes.Layout { return recipes.LayoutPlace }

// create makes the node with the number of the writer's.
func (placed) create(c *client, t *Seat, epoch recipes.Epoch, id guid) (recipes.Input, error) {
	t.in.mu.Lock()
	writer := t.in.own
	t.in.mu.Unlock()
	name, ok := events.ParseName(path.Base(writer))
	if !ok {
		return recipes.Refused{Epoch: epoch, Op: recipes.OpCreate, Missing: true}, ErrGuard
	}
	return c.carryOut(errand{
		Errand: recipes.Errand{Op: recipes.OpCreate, Epoch: epoch, Layout: recipes.LayoutPlace},
		seat:   t, own: t.prefix(id) + fmt.Sprintf("%010d", name.Seq), writer: writer,
	})
}

// mayTakePlace reports whether the request may be made. A create in the place of a writer may be made only while the writer holds.
// From then on the writer leaves no floor, see Seat.traded. Both requests come through here, so no floor is under way when
// a read node is made, and none is sent later.
func (s *Session) mayTakePlace(r *asked) (may bool) {
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
