package lease

import (
	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
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
	return op != opcode.Auth && op != opcode.SASL
}

// isQuorumAnswer tells whether the answer to a request came from the leader and a
// quorum: the request was a write, and it was executed, or failed for a reason that
// the leader finds. A failed one is a transaction like any other. What other
// errors there are may be a follower's own.
func isQuorumAnswer(op, zkErr int32) bool {
	switch op {
	case opcode.Create, opcode.Delete, opcode.SetData, opcode.SetACL, opcode.Multi, opcode.Create2, opcode.Reconfig, opcode.CreateContainer, opcode.CreateTTL, opcode.CloseSession:
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
