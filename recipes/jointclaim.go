package recipes

// This file is about claims of several contenders of a session in one transaction: what
// the answer says of each of them.

// Joint reports whether a claim can be made together with others. Only holders claim
// together, to learn whether they still hold. The claim of a lock of one node cannot,
// because it has to check whose the node is, nor can a claim with a record, because it
// has to read the record.
func (e Claim) Joint(l Layout) bool { return e.Held && e.Record == RecordNothing && l != LayoutNode }

// Verdict is the result of a joint transaction for one of its claims.
type Verdict uint8

// The verdicts.
const (
	VerdictProven Verdict = iota // its nodes exist
	VerdictGone                  // one of its nodes does not exist
	VerdictAgain                 // nothing is known, and the claim is made again
)

// JointVerdict returns the result of a transaction of several claims for the i-th one.
// bad is the index of the claim at which it failed, or -1 if it did not fail.
//
// The transaction is sent at one moment and executed at one point of the servers' order,
// so for each claim it is as good as a transaction of its own. It fails at the first
// check that fails. The checks before that one have not failed and are proven, because a
// failed transaction went through the quorum, too. About the checks after it nothing is
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
