package recipes

import "github.com/zkgrant/zkgrant/events"

// This file is about the answers that prove what a grant needs, and for how long they do.

// Proves reports whether an answer proves everything that a grant needs but the lease.
// first says that the first in the queue holds, which is not so for a semaphore. If the
// request has made nodes, Proves returns the first of them, and unwatched says that it is
// not watched yet.
func Proves(in Input, first bool) (node events.Name, unwatched, proves bool) {
	switch in := in.(type) {
	case Created:
		return in.Node, true, in.Alone && first
	case Enqueued:
		if in.Alone {
			return in.Nodes[0], true, true
		}
	case Entered:
		return events.Name{Text: in.Permits[0]}, true, true
	case Advanced:
		return node, false, in.Floor && first
	case Claimed:
		return node, false, true
	}
	return node, false, false
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

// Lasts reports whether what an answer says stays true. Other answers may come on one
// connection, and reach the session behind the news of the next one, because the
// request's goroutine was not scheduled in between:
//
//  1. A create is answered: no other contender is in the queue. Or a claim is answered:
//     the node is there.
//  2. The connection is lost, and another process deletes the node.
//  3. The session is resumed. All machines are told, and verify what they know.
//  4. Only now the answer of 1 is settled. It was right, and would not be verified any
//     more.
//
// So the session counts its connections. If the request was sent on an earlier one, the
// answer counts as lost: the machine is told Unknown, and asks again. Exception: an
// answer that stays true passes. An answer that comes before 3 passes, too: what follows
// verifies it.
func Lasts(in Input) bool {
	switch in.(type) {
	case Refused, Deleted, Gone, Occupied:
		return true
	default:
		return false
	}
}
