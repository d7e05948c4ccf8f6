package recipes

// Tenure is a session's book of one contender's hold on its node. A session tells holders that the lease has run out, probes for them,
// and lets readers take their places. So it has to know at each moment what the contender's machine will believe once it has read its
// mailbox. R names a request, and its zero value is none.
type Tenure[R comparable] struct {
	asks R // the latest request that may end in a grant
	is   tenureBits
}

type tenureBits uint8

const (
	tenureHolds     tenureBits = 1 << iota // it was told that an answer is fresh, and the answer proves all the rest
	tenureUnwatched                        // it is alone by its create, and its node is not watched yet
	tenureTraded                           // a reader may have taken the node's place in the queue
)

// Holds reports whether the contender holds.
func (t Tenure[R]) Holds() bool { return t.is&tenureHolds != 0 }

// LacksWatch reports whether the node is not watched yet.
func (t Tenure[R]) LacksWatch() bool { return t.is&tenureUnwatched != 0 }

// Awaits reports whether the answer to the request may grant the contender the lock.
func (t Tenure[R]) Awaits(r R) bool { return r != *new(R) && t.asks == r }

// Asked takes what a request says about the contender. A contender that creates or deletes its node does not hold. A contender that
// creates, claims, advances or enters may hold soon. If held says that it holds, a claim asks whether it still does; then the
// answer makes no holder of it, if the hold has ended meanwhile.
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
		t.asks = *new(R) // the request was answered, and a long wait may follow
	case OpList, OpWatch, OpArm:
	}
	return t
}

// Proven takes the answer to a request. The answer proves everything but the lease, and lease says whether that is good. The answer
// is fresh for a contender that holds from then on. A contender that has given up meanwhile stays out.
func (t Tenure[R]) Proven(r R, lease bool) (_ Tenure[R], fresh bool) {
	if !lease {
		return t, false
	}
	if t.Awaits(r) {
		t.asks = *new(R) // else it would be kept for as long as the lock is held
		t.is |= tenureHolds
	}
	return t, t.Holds()
}

// Proves reports whether an answer proves everything that a grant needs but the lease. first says that the first in the queue
// holds, which is not so for a semaphore. If the request has made nodes, Proves returns the first of them, and unwatched says that
// it is not watched yet.
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

// Judged returns an answer that proves, marked as fresh or not.
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

// Disproves reports whether an answer says that a holder's node is gone.
func Disproves(in Input) bool {
	refused, ok := in.(Refused)
	return ok && refused.Op == OpClaim && refused.Missing
}

// Lasts reports whether what an answer says stays true. Other answers may come on one connection, and reach the session behind the
// news of the next one, because the request's goroutine was not scheduled in between:
//
//  1. A create is answered: no other contender is in the queue. Or a claim is answered: the node is there.
//  2. The connection is lost, and another process deletes the node.
//  3. The session is resumed. All machines are told, and verify what they know.
//  4. Only now the answer of 1 is settled. It was right, and would not be verified any more.
//
// So the session counts its connections. If the request was sent on an earlier one, the answer counts as lost: the machine is told
// Unknown, and asks again. Exception: an answer that stays true passes. An answer that comes before 3 passes, too: what follows
// verifies it.
func Lasts(in Input) bool {
	switch in.(type) {
	case Refused, Deleted, Gone, Occupied:
		return true
	default:
		return false
	}
}

// Unwatched notes, behind Proven, that the node is not watched yet. If the answer came too late to be a proof, a claim follows, and
// no listing that would watch the node.
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

// Ceased notes that the contender does not hold any more. The rest of the book stays until it gives up its node, because it may
// still want to hold:
//
//  1. A create proves that the contender is alone, and the book takes it for a holder.
//  2. The contender wants more than that: a record, or a connection if suspended is lost.
//  3. The lease runs out, which takes nothing from it.
//  4. It claims, and from then on it holds.
func (t Tenure[R]) Ceased() Tenure[R] {
	t.is &^= tenureHolds
	return t
}

// GaveUp notes one of two facts: the contender has no node, or will soon have none; or it has lost the lock, and will not hold
// again by what it has asked for.
func (t Tenure[R]) GaveUp() Tenure[R] {
	t.asks = *new(R)
	t.is &= tenureTraded
	return t
}

// Trades gives a reader the node's place in the queue, and reports whether it does: only a holder may. From then on the contender leaves
// no floor.
func (t Tenure[R]) Trades() (_ Tenure[R], traded bool) {
	if !t.Holds() {
		return t, false
	}
	t.is |= tenureTraded
	return t, true
}

// Floor reports whether the contender may leave a floor with its node. It may not if a reader may have its place, because a floor
// says that no older contender is left:
//
//  1. W holds. A reader R and another writer V wait behind it.
//  2. W's read node is made.
//  3. W leaves, and R enters beside the read node.
//  4. R leaves.
//  5. V knows that W is gone, and would take its floor to say that no contender is ahead.
func (t Tenure[R]) Floor() bool {
	return t.is&tenureTraded == 0
}
