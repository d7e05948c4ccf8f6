package session

import (
	"path"
	"slices"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about a lock that its holder enters again. No request is made for that: the seat of the inner acquisition gets
// the node of the outer one's, and holds as if it had created that node. For its machine it is a create that found no other
// contender in the queue. From then on the two are equal, neither is the inner one any more, and the last of them to delete the
// node removes it.
//
// All of it is decided in the session's drain: a seat joins before or behind anything else that happens to the node.
//
//   - The owner is released while the create of a joiner is in the mailbox. If its delete stands before that, none of the owners
//     holds any more, and the create is carried out as any other: it queues up, perhaps right behind that delete. If its delete
//     stands behind that, there are two owners when the delete is looked at, and it takes only its own seat out.
//   - Two join and the owner is released at once: the same, in the order of the three messages.
//   - The node is gone. No seat that had it is a holder from the moment in which the first of them is told, however that was
//     learnt. A create behind that is carried out as any other. A create before it has made its seat a holder, which is told as
//     well.
//   - The lease runs out, or the session ends, or the connection is lost and that counts as a loss: the same, for all holders at
//     once. If a lease has run out and that is not noticed yet, no seat can join.
//   - A joiner is withdrawn before it hears that it has joined: it deletes what it has been given, as it would a node of its
//     own.
//   - The last delete has an unknown outcome: it is made again, like any other. No seat can have joined meanwhile, because a
//     seat that deletes does not hold.
//   - A holder has lost the lock, and keeps the node for a function that still runs. It does not hold, so no seat joins; but it
//     has not deleted the node either, so the node stays.

// answerHere answers the request if that takes no server, and reports whether it has.
func (s *Session) answerHere(r *asked) (answered bool) {
	switch r.op {
	case recipes.OpList:
		if s.companion(r.seat) == nil { // also because it has created a node, and wants to know its place
			return false
		}
		r.seat.post(recipes.Listed{Epoch: r.epoch}, nil) // no contender is in its way
		return true
	case recipes.OpCreate:
		return s.enterShared(r)
	case recipes.OpDelete:
		return s.part(r)
	case recipes.OpWatch, recipes.OpClaim, recipes.OpAdvance, recipes.OpSurvey, recipes.OpEnter, recipes.OpArm:
	}
	return false
}

// companion returns a seat that holds and of which the seat may share the node, or nil.
func (s *Session) companion(seat *Seat) *Seat {
	if len(seat.with) == 0 || !s.clock.now().Before(s.client.lease.Deadline()) {
		return nil
	}
	for _, owner := range seat.with {
		if s.holds(owner) {
			return owner
		}
	}
	return nil
}

// enterShared makes the seat that wants to create a node a holder of the node that an owner holds. It reports whether it has.
func (s *Session) enterShared(r *asked) bool {
	seat, owner := r.seat, s.companion(r.seat)
	if seat.with != nil { // else its content is not its own
		seat.with = nil // for the node that it has now it does not need them, and it must not keep them alive
	}
	s.quit(seat)
	if owner == nil {
		return false
	}
	c, node := s.client, s.holders[owner]
	token := owner.token(node)
	name, ok := events.ParseName(path.Base(node))
	if token == 0 || !ok {
		return false
	}
	sh := s.shares[owner]
	if sh == nil {
		sh = &share{seats: []*Seat{owner}}
		s.shares[owner] = sh
	}
	sh.seats = append(sh.seats, seat)
	s.shares[seat] = sh

	seat.nameOwn(r.epoch, node, token)
	s.holders[seat] = node
	s.note(seat, seat.tenure.Joins(owner.tenure))
	if !seat.tenure.LacksWatch() {
		seat.want(c, node)
	}
	created := recipes.Created{Epoch: r.epoch, Node: name, Alone: true, Fresh: true, Token: token}
	if left := owner.abandoned.Load(); seat.detect {
		seat.abandoned.Store(left)
		seat.post(recipes.Joined{Created: created, Abandoned: left}, nil)
	} else {
		seat.post(created, nil)
	}
	c.remind(seat, name.Text)
	return true
}

// part answers a delete of a node that other seats still have. The delete of the last seat is made, as [recipes.Share] says. If
// a reader has taken the node's place it leaves no floor, see mayTakePlace, which looks at the delete behind this.
func (s *Session) part(r *asked) bool {
	sh := s.shares[r.seat]
	if sh == nil {
		return false
	}
	book, last, floor, clean := sh.book.Leaves(len(sh.seats), r.floor, r.clean)
	sh.book = book
	if last {
		r.floor, r.clean = floor, clean
		return false
	}
	s.quit(r.seat)
	s.gaveUp(r.seat)
	r.seat.post(recipes.Deleted{Epoch: r.epoch}, nil)
	return true
}

// quit takes the seat out of what it shares, if it shares a node.
func (s *Session) quit(seat *Seat) {
	sh := s.shares[seat]
	if sh == nil {
		return
	}
	delete(s.shares, seat)
	i := slices.Index(sh.seats, seat)
	sh.seats = slices.Delete(sh.seats, i, i+1)
}

// together returns the seats that have the seat's node.
func (s *Session) together(seat *Seat) []*Seat {
	if sh := s.shares[seat]; sh != nil {
		return sh.seats
	}
	return []*Seat{seat}
}

// lostNode tells the other holders of the seat's node that it is gone. None of them holds any more, nor does the seat.
func (s *Session) lostNode(c *client, seat *Seat) {
	node := s.holders[seat]
	for _, other := range s.together(seat) {
		if s.holders[other] != node {
			continue // it has lost the lock before
		}
		other.layout.lost(c, other)
		s.gaveUp(other)
		if other != seat {
			other.post(recipes.Gone{Epoch: c.epoch, Node: other.name(node)}, nil)
		}
	}
}

// mayTakePlace reports whether the request may be made. A create in the place of a writer may be made only while the writer
// holds. From then on the writer leaves no floor, see [recipes.Tenure.Floor]. Both requests come through here, so no floor is
// under way when a read node is made, and none is sent later.
func (s *Session) mayTakePlace(r *asked) bool {
	switch {
	case r.op == recipes.OpCreate && r.seat.in != nil:
		writer := r.seat.in
		if !s.holds(writer) {
			return false
		}
		for _, w := range s.together(writer) {
			w.tenure = w.tenure.Traded()
		}
	case r.op == recipes.OpDelete:
		r.floor = r.floor && r.seat.tenure.Floor()
	}
	return true
}
