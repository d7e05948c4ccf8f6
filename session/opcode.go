package session

import (
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

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

// isNoted tells whether a server has noted the request as a sign of the session's
// life. It does so when it queues a request, which those that carry an identity
// never are. Some errors are answered before that, or say that there is no such
// session.
func isNoted(op, zkErr int32) bool {
	switch zkErr {
	case zkerr.CodeSessionExpired, zkerr.CodeSessionMoved, zkerr.CodeAuthFailed, zkerr.CodeSASLRequired, zkerr.CodeThrottled:
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
	case zkerr.CodeNone, zkerr.CodeRuntimeInconsistency, zkerr.CodeBadArguments, zkerr.CodeNoNode, zkerr.CodeNoAuth, zkerr.CodeBadVersion, zkerr.CodeNoChildrenForEphemerals,
		zkerr.CodeNodeExists, zkerr.CodeNotEmpty, zkerr.CodeInvalidACL, zkerr.CodeQuotaExceeded:
		return true
	}
	return false
}
