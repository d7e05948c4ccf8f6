package session

// The operations that a lease tells apart, or that have a name for hooks; see also
// opConnect, opPing and opSetWatches.
const (
	opCreate          int32 = 1
	opDelete          int32 = 2
	opExists          int32 = 3
	opGetData         int32 = 4
	opSetData         int32 = 5
	opGetACL          int32 = 6
	opSetACL          int32 = 7
	opGetChildren     int32 = 8
	opSync            int32 = 9
	opGetChildren2    int32 = 12
	opCheck           int32 = 13
	opMulti           int32 = 14
	opCreate2         int32 = 15
	opReconfig        int32 = 16
	opCreateContainer int32 = 19
	opCreateTTL       int32 = 21
	opCloseSession    int32 = -11
	opAuth            int32 = 100
	opSASL            int32 = 102
)

// Error codes that a lease tells apart, as they come in the header of an answer.
const (
	codeBadArguments            int32 = -8
	codeNoNode                  int32 = -101
	codeNoAuth                  int32 = -102
	codeBadVersion              int32 = -103
	codeNoChildrenForEphemerals int32 = -108
	codeNodeExists              int32 = -110
	codeNotEmpty                int32 = -111
	codeInvalidACL              int32 = -114
	codeAuthFailed              int32 = -115
)

// isNoted tells whether a server has noted the request as a sign of the session's
// life. It does so when it queues a request, which those that carry an identity
// never are. Some errors are answered before that, or say that there is no such
// session.
func isNoted(op, zkErr int32) bool {
	switch zkErr {
	case codeSessionExpired, codeSessionMoved, codeAuthFailed, codeSASLRequired, codeThrottled:
		return false
	}
	return op != opAuth && op != opSASL
}

// isQuorumAnswer tells whether the answer to a request came from the leader and a
// quorum: the request was a write, and it was executed, or failed for a reason that
// the leader finds. A failed one is a transaction like any other. What other
// errors there are may be a follower's own.
func isQuorumAnswer(op, zkErr int32) bool {
	switch op {
	case opCreate, opDelete, opSetData, opSetACL, opMulti, opCreate2, opReconfig, opCreateContainer, opCreateTTL, opCloseSession:
	default: // a ping or a read, answered by whoever got it; sync, which a deposed leader answers
		return false
	}
	switch zkErr {
	case codeNone, codeRuntimeInconsistency, codeBadArguments, codeNoNode, codeNoAuth, codeBadVersion, codeNoChildrenForEphemerals,
		codeNodeExists, codeNotEmpty, codeInvalidACL, codeQuotaExceeded:
		return true
	}
	return false
}
