package recipes

// Tenure is the book of who holds: what a session knows of one contender's hold on its node. A session tells those who hold that the
// lease has run out, probes for them, and lets others share their nodes or take their places. So it has to know at each moment what the
// contender's machine will believe when all that is posted to it has come. R names a request, and its zero value is none.
type Tenure[R comparable] struct {
	asks R // the latest request that may end in a grant
	is   tenureBits
}

type tenureBits uint8

const (
	tenureHolds     tenureBits = 1 << iota // it was told that an answer is fresh which proves all the rest
	tenureUnwatched                        // it is alone by its create, and nobody watches its node yet
	tenureTraded                           // a reader may have taken the node's place in the queue
)

// Holds reports whether the contender holds.
func (t Tenure[R]) Holds() bool { return t.is&tenureHolds != 0 }

// LacksWatch reports whether nobody watches the node yet.
func (t Tenure[R]) LacksWatch() bool { return t.is&tenureUnwatched != 0 }

// Awaits reports whether the contender may be granted the lock by the answer to the request.
func (t Tenure[R]) Awaits(r R) bool { return r != *new(R) && t.asks == r }

// Asked takes a request for what it says about the contender. One that creates a node or deletes it does not hold. One that creates or
// claims may soon, unless it is held: then it asks whether it holds still, and is no holder by the answer if that has ended meanwhile.
func (t Tenure[R]) Asked(op Op, r R, held bool) Tenure[R] {
	switch op {
	case OpCreate:
		t = t.GaveUp()
		t.asks = r
	case OpClaim, OpAdvance, OpEnter:
		if !held {
			t.asks = r
		}
	case OpDelete:
		t = t.GaveUp()
	case OpSurvey:
		t.asks = *new(R) // it was answered, and a long wait may follow
	case OpList, OpWatch, OpArm:
	}
	return t
}

// Proven takes the answer to a request, which proves all but the lease, and whether the lease is good. The answer is fresh for a
// contender that holds from then on. A contender that has given up meanwhile stays out.
func (t Tenure[R]) Proven(r R, lease bool) (_ Tenure[R], fresh bool) {
	if !lease {
		return t, false
	}
	if t.Awaits(r) {
		t.asks = *new(R) // it would be kept for as long as the lock is held
		t.is |= tenureHolds
	}
	return t, t.Holds()
}

// Proves reports whether an answer proves all that a grant needs but for the lease. first says that the first in a queue holds by that,
// which it does not at a semaphore. Of an answer to what has made nodes it returns the first of them; unwatched says that nobody watches it yet.
func Proves(in Input, first bool) (node string, unwatched, proves bool) {
	switch in := in.(type) {
	case Created:
		return in.Node.Text, true, in.Alone && first
	case Enqueued:
		if in.Alone {
			return in.Nodes[0].Text, true, true
		}
	case Entered:
		return in.Permits[0], true, true
	case Advanced:
		return "", false, in.Floor && first
	case Claimed:
		return "", false, true
	}
	return "", false, false
}

// Judged returns an answer that proves, and says whether it is fresh.
func Judged(in Input, fresh bool) Input {
	switch in := in.(type) {
	case Created:
		in.Fresh = fresh
		return in
	case Enqueued:
		in.Fresh = fresh
		return in
	case Entered:
		in.Fresh = fresh
		return in
	case Advanced:
		in.Fresh = fresh
		return in
	case Claimed:
		in.Fresh = fresh
		return in
	default:
		return in
	}
}

// Disproves reports whether an answer says that the node of a contender that holds is gone.
func Disproves(in Input) bool {
	refused, ok := in.(Refused)
	return ok && refused.Op == OpClaim && refused.Missing
}

// Lasts reports whether what an answer says stays true. The others may come on one connection, and reach the session behind the news of the
// next one, because the goroutine of the request was not scheduled in between:
//
//  1. A create is answered: nobody else is in the queue. A claim is answered: the node is there.
//  2. The connection is lost, and somebody removes the node.
//  3. The session is resumed. All are told, and verify what they know.
//  4. Only now the answer of 1 is settled. It was right, and nobody would verify it any more.
//
// So the session counts its connections, and an answer that was asked for on an earlier one is as good as lost: the machine is told
// Unknown, and asks again. Answers that stay true pass. An answer that comes before 3 passes, too: it is verified by what follows.
func Lasts(in Input) bool {
	switch in.(type) {
	case Refused, Deleted, Gone, Occupied:
		return true
	default:
		return false
	}
}

// Unwatched notes behind Proven that nobody watches the node yet. If the answer came too late to be a proof, a claim follows, and
// nothing is listed for that.
func (t Tenure[R]) Unwatched(r R) Tenure[R] {
	if t.Holds() || t.Awaits(r) {
		t.is |= tenureUnwatched
	}
	return t
}

// Watched notes that the node is watched.
func (t Tenure[R]) Watched() Tenure[R] {
	t.is &^= tenureUnwatched
	return t
}

// Ceased notes that the contender holds no more. The rest goes when it gives its node up, for it may want to hold it still: 1. A
// create proved that it is alone, and it was taken for a holder; 2. it wants more than that, a record, or a connection where
// suspended is lost; 3. the lease runs out, which takes nothing from it; 4. it claims, and from then on it holds.
func (t Tenure[R]) Ceased() Tenure[R] {
	t.is &^= tenureHolds
	return t
}

// GaveUp notes that the contender has no node, or will have none soon, or that it has lost the lock and will not hold again by what it
// has asked for.
func (t Tenure[R]) GaveUp() Tenure[R] {
	t.asks = *new(R)
	t.is &= tenureTraded
	return t
}

// Joins gives the contender the node of an owner, which holds.
func (t Tenure[R]) Joins(owner Tenure[R]) Tenure[R] {
	return Tenure[R]{is: owner.is}
}

// Traded notes that a reader is to take the node's place in the queue, which it may do only while the contender holds.
func (t Tenure[R]) Traded() Tenure[R] {
	t.is |= tenureTraded
	return t
}

// Floor reports whether the contender may leave a floor with its node. It may not if a reader may have its place, for a floor says that
// nobody older is left:
// 1. W holds, and a reader R and another writer V wait behind it; 2. W's read node is made;
// 3. W leaves, and R enters beside it; 4. R leaves; 5. V knows that W is gone, and would
// take its word that nobody is ahead.
func (t Tenure[R]) Floor() bool {
	return t.is&tenureTraded == 0
}

// Share is the book of a node that several contenders of a session have, or had.
type Share struct {
	floor bool // one that has given it up would have left a floor
	dirty bool // and one would have left the record
}

// Leaves notes that one of the owners, those that have not given the node up, wants to delete it: with a floor, and clean, which is
// without the record. The last one's delete is made, with what Leaves returns. It leaves a floor if any of them would have, for that is
// true of the node: it was the first in its queue, and a contender has waited for that. The record goes along if each of them
// would have removed it.
func (s Share) Leaves(owners int, floor, clean bool) (_ Share, last, withFloor, withClean bool) {
	s.floor, s.dirty = s.floor || floor, s.dirty || !clean
	return s, owners == 1, s.floor, !s.dirty
}
