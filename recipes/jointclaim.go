package recipes

// This file is about the claims of several contenders of a session that go together: what one transaction says of each of them.

// Joint reports whether a claim can be made together with others. Two cannot: that of a lock of one node has to look whose the node is,
// and that with a record has to read the record. Only holders claim together, to learn whether they hold still.
func (e Claim) Joint(l Layout) bool { return e.Held && e.Record == RecordNothing && l != LayoutNode }

// Verdict is what a transaction of several claims says of one of them.
type Verdict uint8

// The verdicts.
const (
	VerdictProven Verdict = iota // its nodes were there
	VerdictGone                  // one of them was not
	VerdictAgain                 // it says nothing, and the claim is made again
)

// JointVerdict returns what a transaction of several claims says of the i-th. It has failed at the claim bad, or at none, which is -1.
// It is sent at one moment and executed at one point of the servers' order, so to each of them it is what a claim of its own would be. A
// transaction fails at the first check that does, so those before it have not, at that point, and are proven: a transaction that fails
// went through the quorum, too. Of those behind it nothing is known.
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
