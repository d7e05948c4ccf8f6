package recipes

// This file is about claims of several contenders of a session in one transaction: what
// the answer says of each of them.

// Joint reports whether a claim can be made together with others. Only holders claim
// together, to learn whether they still hold. The claim of a lock of one node cannot,
// because it has to check whose the node is, nor can a claim with a record, because it
// has to read the record.
func (e Claim) Joint(l Layout) bool { return e.Held && e.Record == RecordNothing && l != LayoutNode }

// Verdict is what a transaction of several claims says of one of them.
type Verdict uint8

// The verdicts.
const (
	VerdictProven Verdict = iota // its nodes exist
	VerdictGone                  // one of its nodes does not exist
	VerdictAgain                 // nothing is known, and the claim is made again
)

// JointVerdict returns what a transaction of several claims says of the i-th. bad is the
// index of the claim at which it failed, or -1 if it did not fail.
//
// The transaction is sent at one moment and executed at one point of the servers' order,
// so to each claim it is what a transaction of its own would be. It fails at the first
// check that fails. The checks before that one have not failed and are proven, because a
// transaction that fails went through the quorum, too. Of the checks behind it nothing is
// known.
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
