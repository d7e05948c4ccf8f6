package recipes

import "github.com/zkgrant/zkgrant/events"

// This file is about the answers that prove what a grant needs, and for how long they do.

// Proof is an answer that proves everything that a grant needs, except the lease.
type Proof struct {
	Answer    Input       // marked as fresh or not
	Node      events.Name // the first node that the request has created, if it has
	Unwatched bool        // the node is not watched yet
}

// Prove returns the proof if the answer is one. fresh says that the lease is good. first
// says that the first in the queue holds, which is not so for a semaphore.
func Prove(in Input, first, fresh bool) (p Proof, proves bool) {
	switch in := in.(type) {
	case Created:
		in.Fresh = fresh
		return Proof{in, in.Node, true}, in.Alone && first
	case Enqueued:
		if in.Fresh = fresh; in.Alone {
			return Proof{in, in.Nodes[0], true}, true
		}
	case Entered:
		in.Fresh = fresh
		return Proof{in, events.Name{Text: in.Permits[0]}, true}, !in.Spare
	case Advanced:
		in.Fresh = fresh
		return Proof{Answer: in}, in.Floor && first
	case Claimed:
		in.Fresh = fresh
		return Proof{Answer: in}, true
	}
	return Proof{}, false
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
