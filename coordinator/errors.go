package coordinator

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// Why a lock was lost; a [LostError] is one of them for errors.Is.
var (
	ErrSessionExpired = errors.New("zkgrant: session expired")
	ErrLeaseRanOut    = errors.New("zkgrant: lease ran out")
	ErrNodeRemoved    = errors.New("zkgrant: node removed")
	ErrSuspended      = errors.New("zkgrant: connection suspended")
	ErrRevoked        = errors.New("zkgrant: revoked")
)

// How an acquisition ends otherwise.
var (
	// ErrReleased is the cause with which a lock's context is cancelled on Release, and what Wait and Txn say of a lock that
	// was released.
	ErrReleased = errors.New("zkgrant: released")
	// ErrNotAcquired says that the acquisition was withdrawn before its Grant was
	// taken, that it was only a try and somebody stood ahead, or that a reader was to take the place of a
	// write lock that is not held any more.
	ErrNotAcquired = errors.New("zkgrant: not acquired")
	// ErrTimeout says that WithMaxWait's time ran out.
	ErrTimeout = errors.New("zkgrant: waited too long")
	// ErrDeadlock says that the context already holds the lock that was asked for,
	// and that it would wait for itself. Its text tells a reader that asks to write what
	// to do instead; see [ReadWrite.Write].
	ErrDeadlock = errors.New("zkgrant: the context already holds this lock")
	// ErrClosed says that the coordinator was closed.
	ErrClosed = session.ErrClosed
)

// What can become of a transaction; see [Acquisition.Txn].
var (
	// ErrOutcomeUnknown says that nobody can tell whether a transaction was executed.
	ErrOutcomeUnknown = session.ErrOutcomeUnknown
	// ErrOperation says that an operation is none that a transaction can have.
	ErrOperation = session.ErrOperation
)

// What is wrong with a request.
var (
	// ErrInvalid says that a call cannot be meant as it was made.
	ErrInvalid = session.ErrInvalid
	// ErrConnectString says that the list of servers is malformed.
	ErrConnectString = session.ErrConnectString
	// ErrPath says that a path is none by ZooKeeper's rules, is longer than servers
	// accept, or belongs to the servers themselves (/zookeeper).
	ErrPath = session.ErrPath
	// ErrTooLarge says that a request is beyond what servers accept.
	ErrTooLarge = session.ErrTooLarge
	// ErrNoAuth says that the server denies a permission, or an identity.
	ErrNoAuth = session.ErrNoAuth
	// ErrQuota says that a quota on the path is used up.
	ErrQuota = session.ErrQuota
	// ErrSequenceEnd says that the numbers of the lock's directory are used up. Ask again: the directory is renewed. Exception: one
	// that this library has not made, or has no permission to delete, is to be deleted by hand while nobody uses it.
	ErrSequenceEnd = events.ErrSequenceEnd
	// ErrKind says that the path is in use as another kind of lock, or that this kind cannot have an option, or be in a multi-lock.
	ErrKind = session.ErrKind
	// ErrRecord says that at the path of a lock that tells of crashes, where its record should be, there is a node that is none.
	ErrRecord = session.ErrRecord
	// ErrMembers says that the locks of a multi-lock are none: there are none at all, or one is nil or another coordinator's.
	ErrMembers = errors.New("zkgrant: no locks that can be had together")
	// ErrDuplicate says that the same path is in a multi-lock twice.
	ErrDuplicate = errors.New("zkgrant: the same lock twice")
	// ErrNotCandidate says that an acquisition is none of the election that was to proclaim something with it.
	ErrNotCandidate = errors.New("zkgrant: no candidate of this election")
	// ErrSizeMismatch says that others have another opinion of a semaphore's size, and
	// what the two are.
	ErrSizeMismatch = errors.New("zkgrant: semaphore size mismatch")
	// ErrPermits says that the number of permits is none that can be had: not positive, more
	// than the semaphore has, or asked of a lock that is no semaphore.
	ErrPermits = errors.New("zkgrant: no such number of permits")
)

// LostError says that a lock was lost, and why.
type LostError struct {
	Path   string
	Reason events.Reason
}

// Error says it in a line.
func (e *LostError) Error() string {
	return fmt.Sprintf("zkgrant: lock %s lost: %v", e.Path, e.Reason)
}

// Unwrap returns the sentinel of the reason.
func (e *LostError) Unwrap() error {
	switch e.Reason {
	case events.ReasonSessionExpired:
		return ErrSessionExpired
	case events.ReasonLeaseRanOut:
		return ErrLeaseRanOut
	case events.ReasonNodeRemoved:
		return ErrNodeRemoved
	case events.ReasonSuspended:
		return ErrSuspended
	case events.ReasonRevoked:
		return ErrRevoked
	default:
		return nil
	}
}

// HeldError says who has an unfair lock that was only to be tried. It is [ErrNotAcquired] for errors.Is.
type HeldError struct {
	Path string
	// Holder had it when the lock was looked at, and may be gone by now.
	Holder events.Contender
}

// Error says it in a line.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%v: %s is held by session 0x%x since %s", ErrNotAcquired, e.Path, e.Holder.Session, e.Holder.Since.Format(time.RFC3339))
}

// Unwrap returns ErrNotAcquired.
func (e *HeldError) Unwrap() error { return ErrNotAcquired }

// explain turns the end of an acquisition into what Err returns.
func explain(l *Lock, end actors.End) error {
	path := l.path
	switch end.Why {
	case recipes.WhyReleased, recipes.WhyPanicked:
		if end.Granted {
			return nil
		}
		return ErrNotAcquired
	case recipes.WhyBusy:
		return ErrNotAcquired
	case recipes.WhyContext:
		return end.Cause
	case recipes.WhyTimeout:
		return ErrTimeout
	case recipes.WhyClosed:
		return ErrClosed
	case recipes.WhyLost:
		return &LostError{Path: path, Reason: end.Reason}
	case recipes.WhySequenceEnd:
		return fmt.Errorf("%w: %s", ErrSequenceEnd, path)
	case recipes.WhyMixed:
		return fmt.Errorf("%w: somebody queues at %s whom kazoo does not see", ErrKind, path)
	case recipes.WhySizeMismatch, recipes.WhyPermits:
		return l.explainSize(end)
	default:
		if errors.Is(end.Cause, session.ErrGuard) {
			return fmt.Errorf("%w: %s: the write lock whose place it was to take is not held any more", ErrNotAcquired, path)
		}
		return fmt.Errorf("zkgrant: lock %s: %w", path, end.Cause)
	}
}
