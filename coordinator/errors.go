package coordinator

import (
	"cmp"
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

	// ErrReleased reports, from a context, Wait or Txn, that the lock was released.
	ErrReleased = errors.New("zkgrant: released")
	// ErrNotAcquired reports a release before the Grant was taken, a [Try] that would
	// have to wait, or a downgrade of a write lock that is no longer held.
	ErrNotAcquired = errors.New("zkgrant: not acquired")
	// ErrTimeout reports that [MaxWait] ran out. It matches [context.DeadlineExceeded].
	ErrTimeout = session.Sentinel("zkgrant: waited too long", context.DeadlineExceeded)
	// ErrReleasePending reports a release that the servers have not confirmed. It
	// continues until Close.
	ErrReleasePending = errors.New("zkgrant: the servers have not confirmed the release")
	// ErrNoSession reports that no server answered a [Try] in time, or before [MaxWait]
	// ran out.
	ErrNoSession = errors.New("zkgrant: no server answers")
	// ErrDeadlock reports a context that holds the lock and would wait for itself.
	ErrDeadlock = errors.New("zkgrant: the context already holds this lock")
	// ErrClosed reports that the coordinator or the [Group] was closed.
	ErrClosed = session.ErrClosed

	// Errors of [Acquisition.Txn].

	// ErrOutcomeUnknown reports a transaction that may have been executed, or may yet be.
	ErrOutcomeUnknown = session.ErrOutcomeUnknown
	// ErrOperation reports an operation that a transaction does not support.
	ErrOperation = session.ErrOperation

	// Errors of [Coordinator.Revoke].

	// ErrNotHeld reports that the lock to revoke has no holder.
	ErrNotHeld = session.ErrNotHeld
	// ErrNotRevocable reports a holder that is not [Revocable].
	ErrNotRevocable = session.ErrNotRevocable
	// ErrGrace reports a negative grace.
	ErrGrace = session.Sentinel("zkgrant: negative grace", ErrInvalid)

	// Errors of any request.

	// ErrInvalid matches every error of a call that is invalid by itself: [ErrPath], an
	// option out of range, and [ErrKind] or [ErrPermits] if the arguments alone are
	// wrong.
	ErrInvalid = session.ErrInvalid
	// ErrConnectString reports a malformed connect string.
	ErrConnectString = session.ErrConnectString
	// ErrPath reports a path that is malformed, too long, reserved by the servers, or
	// named like a contender; see [PathEscape].
	ErrPath = session.ErrPath
	// ErrTooLarge reports a request larger than the servers accept.
	ErrTooLarge = session.ErrTooLarge
	// ErrNoAuth reports that a server denied a permission or an identity.
	ErrNoAuth = session.ErrNoAuth
	// ErrQuota reports an exceeded quota.
	ErrQuota = session.ErrQuota
	// ErrSequenceEnd reports a directory without sequence numbers left; see
	// [events.ErrSequenceEnd].
	ErrSequenceEnd = events.ErrSequenceEnd
	// ErrSessionFull reports that the session's nodes would exceed [WithNodeBudget].
	ErrSessionFull = session.ErrSessionFull
	// ErrKind reports a path in use as another kind of lock, or a kind that does not
	// support an option or a multi-lock.
	ErrKind = session.ErrKind
	// ErrData reports data that begins with `__REVOKE__`, which marks a revocation
	// request.
	ErrData = session.Sentinel("zkgrant: reserved data", ErrInvalid)
	// ErrRecord reports a foreign node at the path of the record of [DetectCrash].
	ErrRecord = session.ErrRecord
	// ErrMembers reports a multi-lock without members, or with one that is nil or from
	// another coordinator.
	ErrMembers = session.Sentinel("zkgrant: invalid members of a multi-lock", ErrInvalid)
	// ErrDuplicate reports a multi-lock with the same path twice.
	ErrDuplicate = session.Sentinel("zkgrant: the same lock twice", ErrInvalid)
	// ErrSizeMismatch reports a semaphore with another size on the servers.
	ErrSizeMismatch = errors.New("zkgrant: semaphore size mismatch")
	// ErrSizeNode reports a size node without a positive number. [Semaphore.Resize]
	// repairs it.
	ErrSizeNode = session.ErrSizeNode
	// ErrPermits reports a number of permits below 1 or above the size.
	ErrPermits = errors.New("zkgrant: invalid number of permits")
)

// These are ErrKind and ErrPermits for calls that are invalid by themselves. They match
// ErrInvalid, too.
var (
	errInvalidKind    = session.Sentinel(ErrKind.Error(), ErrKind, ErrInvalid)
	errInvalidPermits = session.Sentinel(ErrPermits.Error(), ErrPermits, ErrInvalid)
)

// LostError reports which lock was lost, and why. It unwraps to an error such as
// [ErrLeaseRanOut].
type LostError struct {
	Path   string
	Reason events.Reason
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("zkgrant: lock %s lost: %v", e.Path, e.Reason)
}

// Unwrap returns the error of the reason.
func (e *LostError) Unwrap() error {
	sentinels := [...]error{
		events.ReasonSessionExpired: ErrSessionExpired, events.ReasonLeaseRanOut: ErrLeaseRanOut,
		events.ReasonNodeRemoved: ErrNodeRemoved,
		events.ReasonSuspended:   ErrSuspended, events.ReasonRevoked: ErrRevoked,
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

// failed returns the error of a multi-lock for its member l.
func (l *Lock) failed(err error) error { return &MemberError{l.path, err} }

// joined joins two errors into one that prints on one line. Either may be nil.
func joined(a, b error) error {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return fmt.Errorf("%w; %w", a, b)
}
