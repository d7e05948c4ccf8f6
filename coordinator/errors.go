package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// Errors to compare with errors.Is.
var (
	// The reasons of a loss: a [LostError] is one of them.

	ErrSessionExpired = errors.New("zkgrant: session expired")
	ErrLeaseRanOut    = errors.New("zkgrant: lease ran out")
	ErrNodeRemoved    = errors.New("zkgrant: node removed")
	ErrSuspended      = errors.New("zkgrant: connection suspended")
	ErrRevoked        = errors.New("zkgrant: revoked")

	// Other ends of an acquisition.

	// ErrReleased is what a context, Wait and Txn say after Release.
	ErrReleased = errors.New("zkgrant: released")
	// ErrNotAcquired reports a release before the Grant was taken, a [Try] that would
	// have to queue, or a reader for a write lock that is no longer held.
	ErrNotAcquired = errors.New("zkgrant: not acquired")
	// ErrTimeout reports that MaxWait ran out. It is [context.DeadlineExceeded] for
	// errors.Is.
	ErrTimeout = session.Sentinel("zkgrant: waited too long", context.DeadlineExceeded)
	// ErrReleasePending reports a release that the servers have not confirmed. It goes
	// on.
	ErrReleasePending = errors.New("zkgrant: the servers have not confirmed the release")
	// ErrNoSession reports that no server answered a [Try] in time, or before [MaxWait]
	// ran out.
	ErrNoSession = errors.New("zkgrant: no server answers")
	// ErrDeadlock reports that the context holds the lock and would wait for
	// itself.
	ErrDeadlock = errors.New("zkgrant: the context already holds this lock")
	// ErrClosed reports that the coordinator was closed.
	ErrClosed = session.ErrClosed

	// Errors of [Acquisition.Txn].

	// ErrOutcomeUnknown reports a transaction that may have been executed, or may be yet.
	ErrOutcomeUnknown = session.ErrOutcomeUnknown
	// ErrOperation reports an operation that a transaction cannot have.
	ErrOperation = session.ErrOperation

	// Errors of [Coordinator.Revoke].

	// ErrNotHeld reports that the lock to revoke has no holder.
	ErrNotHeld = session.ErrNotHeld
	// ErrNotRevocable reports a holder that has not agreed to it; see [Revocable].
	ErrNotRevocable = session.ErrNotRevocable
	// ErrGrace reports a negative grace.
	ErrGrace = session.Sentinel("zkgrant: negative grace", ErrInvalid)

	// Errors of any request.

	// ErrInvalid matches every error of a call that is wrong in itself, such as [ErrPath]
	// or an option out of range, and an [ErrKind] or [ErrPermits] if the call alone is
	// wrong.
	ErrInvalid = session.ErrInvalid
	// ErrConnectString reports a malformed list of servers.
	ErrConnectString = session.ErrConnectString
	// ErrPath reports a path that is malformed, too long, the servers' own, or with a
	// contender's name; see [PathEscape].
	ErrPath = session.ErrPath
	// ErrTooLarge reports a request larger than servers accept.
	ErrTooLarge = session.ErrTooLarge
	// ErrNoAuth reports a permission or an identity that a server denies.
	ErrNoAuth = session.ErrNoAuth
	// ErrQuota reports an exhausted quota.
	ErrQuota = session.ErrQuota
	// ErrSequenceEnd reports used-up sequence numbers; see docs/production.md.
	ErrSequenceEnd = events.ErrSequenceEnd
	// ErrSessionFull reports nodes beyond [WithNodeBudget].
	ErrSessionFull = session.ErrSessionFull
	// ErrKind reports a path in use as another kind of lock, or a kind that cannot have
	// an option or be in a multi-lock.
	ErrKind = session.ErrKind
	// ErrData reports data that begin with `__REVOKE__`, which asks for a lock back.
	ErrData = session.Sentinel("zkgrant: reserved data", ErrInvalid)
	// ErrRecord reports another node in the place of the record of [DetectCrash].
	ErrRecord = session.ErrRecord
	// ErrMembers reports members that are missing, nil, or from another coordinator.
	ErrMembers = session.Sentinel("zkgrant: invalid members of a multi-lock", ErrInvalid)
	// ErrDuplicate reports a path twice in a multi-lock.
	ErrDuplicate = session.Sentinel("zkgrant: the same lock twice", ErrInvalid)
	// ErrSizeMismatch reports another size of the semaphore on the servers.
	ErrSizeMismatch = errors.New("zkgrant: semaphore size mismatch")
	// ErrSizeNode reports a size node without a number above 0. [Semaphore.Resize]
	// repairs it.
	ErrSizeNode = session.ErrSizeNode
	// ErrPermits reports a number of permits below 1 or above the size.
	ErrPermits = errors.New("zkgrant: invalid number of permits")
)

// These are ErrKind and ErrPermits where the call alone shows the mistake. They match
// ErrInvalid.
var (
	errInvalidKind    = session.Sentinel(ErrKind.Error(), ErrKind, ErrInvalid)
	errInvalidPermits = session.Sentinel(ErrPermits.Error(), ErrPermits, ErrInvalid)
)

// LostError reports a lost lock and the reason. It unwraps to the sentinel of the reason.
type LostError struct {
	Path   string
	Reason events.Reason
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("zkgrant: lock %s lost: %v", e.Path, e.Reason)
}

// Unwrap returns the sentinel of the reason.
func (e *LostError) Unwrap() error {
	sentinels := [...]error{
		events.ReasonSessionExpired: ErrSessionExpired, events.ReasonLeaseRanOut: ErrLeaseRanOut, events.ReasonNodeRemoved: ErrNodeRemoved,
		events.ReasonSuspended: ErrSuspended, events.ReasonRevoked: ErrRevoked,
	}
	if int(e.Reason) < len(sentinels) {
		return sentinels[e.Reason]
	}
	return nil
}

// MemberError names the path of a multi-lock at which Err occurred.
type MemberError struct {
	Path string
	Err  error
}

// Error implements error.
func (e *MemberError) Error() string { return fmt.Sprintf("member %.256s: %v", e.Path, e.Err) }

// Unwrap returns Err.
func (e *MemberError) Unwrap() error { return e.Err }
