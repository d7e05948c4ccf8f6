package recipes

import "github.com/zkgrant/zkgrant/events"

// This file is about the answers that prove what a grant needs, and for how long they do.

// Proves reports whether an answer proves everything that a grant needs, except the
// lease. first says that the first in the queue holds, which is not so for a semaphore.
// If the request has created nodes, Proves returns the first of them, and unwatched
// reports that it is not watched yet.
func Proves(in Input, first bool) (node events.Name, unwatched, proves bool) {
	switch in := in.(type) {
	case Created:
		return in.Node, true, in.Alone && first
	case Enqueued:
		if in.Alone {
			return in.Nodes[0], true, true
		}
	case Entered:
		return events.Name{Text: in.Permits[0]}, true, !in.Spare
	case Advanced:
		return node, false, in.Floor && first
	case Claimed:
		return node, false, true
	}
	return node, false, false
}

// Judged returns an answer that proves something, marked as fresh or not.
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

// Lasts reports whether the content of an answer stays true. Other answers may arrive on
// one connection and reach the session after the news of the next one, because the
// request's goroutine was not scheduled in between:
//
//  1. A create is answered: no other contender is in the queue. Or a claim is answered:
//     the node exists.
//  2. The connection is lost, and another process deletes the node.
//  3. The session resumes. All machines are notified, and verify what they know.
//  4. Only now the answer of 1 is settled. It was right, but nothing would verify it any
//     more.
//
// So the session counts its connections. If the request was sent on an earlier one, the
// answer counts as lost: the machine receives Unknown, and asks again. Answers that stay
// true are accepted, and so are those that arrive before 3: what follows verifies them.
func Lasts(in Input) bool {
	switch in.(type) {
	case Refused, Deleted, Gone, Occupied:
		return true
	default:
		return false
	}
}
