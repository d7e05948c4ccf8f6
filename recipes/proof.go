package recipes

import "github.com/zkgrant/zkgrant/events"

// This file is about answers that prove what a grant needs, how long they stay valid, and
// what the answer to several claims in one transaction says about each of them.

// Proof is an answer that proves everything a grant needs, except the lease.
type Proof struct {
	Answer    Input       // with Fresh set
	Node      events.Name // the first node that the request created, if any
	Unwatched bool        // the node is not watched yet
}

// Prove returns the answer as a proof, if it is one. fresh means that the lease is good.
// first means that the first in the queue holds, which is not the case for a semaphore.
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

// Disproves reports whether an answer proves that a holder's node is gone.
func Disproves(in Input) bool {
	refused, ok := in.(Refused)
	return ok && refused.Op == OpClaim && refused.Missing
}

// Lasts reports whether an answer stays true. Answers that do not are a problem if they
// arrive on one connection but reach the session after the news of the next one, because
// the request's goroutine was not scheduled in between:
//
//  1. A create is answered: the queue has no other contender. Or a claim is answered: the
//     node exists.
//  2. The connection is lost, and another process deletes the node.
//  3. The session resumes. All machines are notified and verify what they know.
//  4. Only now is the answer of step 1 settled. It was right, but nothing would verify it
//     any more.
//
// So the session counts its connections. If the request was sent on an earlier one, the
// answer counts as lost: the machine receives Unknown and asks again. Answers that stay
// true are accepted, and so are those settled before step 3, which verifies them.
func Lasts(in Input) bool {
	switch in.(type) {
	case Refused, Deleted, Gone, Occupied:
		return true
	default:
		return false
	}
}

// Marks returns an answer to the claim with the claim's Held. A holder that knows its
// contenders may have a claim of each kind in progress.
func (e Claim) Marks(in Input) Input {
	if !e.Held {
		return in
	}
	switch in := in.(type) {
	case Claimed:
		in.Held = true
		return in
	case Refused:
		in.Held = true
		return in
	case Unknown:
		in.Held = true
		return in
	default:
		return in
	}
}

// Joint reports whether a claim can share a transaction with others. Only claims of
// holders do, which check that they still hold. The claim of a lock's single node cannot,
// because it must find out who owns the node. Neither can a claim with a record, which
// must read the record.
func (e Claim) Joint(l Layout) bool { return e.Held && e.Record == RecordNothing && l != LayoutNode }

// Verdict is the result of a joint transaction for one of its claims.
type Verdict uint8

// The verdicts.
const (
	VerdictProven Verdict = iota // all its nodes exist
	VerdictGone                  // one of its nodes does not exist
	VerdictAgain                 // nothing is known; send the claim again
)

// JointVerdict returns what a transaction of several claims says about the i-th one. bad
// is the index of the claim at which it failed, or -1 if it did not.
//
// The transaction is executed at a single point in the servers' order, so for each claim
// it is as good as a transaction of its own. It fails at the first check that fails. The
// checks before that one are proven, because a failed transaction went through the
// quorum, too. Nothing is known about the checks after it.
func JointVerdict(i, bad int) Verdict {
	switch {
	case bad < 0 || i < bad:
		return VerdictProven
	case i == bad:
		return VerdictGone
	default:
		return VerdictAgain
	}
}
