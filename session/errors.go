package session

import (
	"errors"

	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// The errors that the packages above return to their callers.
var (
	// ErrInvalid reports a call that is invalid by itself, regardless of the servers.
	ErrInvalid = zkerr.ErrInvalid
	// ErrNoAuth reports that the ensemble's access control refused the operation.
	ErrNoAuth = zkerr.ErrNoAuth
	// ErrQuota reports that a quota of the ensemble refused the operation.
	ErrQuota = zkerr.ErrQuota
	// ErrTooLarge reports a request that is larger than the client can send.
	ErrTooLarge = zkerr.ErrTooLarge
)

// Sentinel returns an error with its own text that also matches each of the others with
// errors.Is.
func Sentinel(text string, others ...error) error { return zkerr.Sentinel(text, others...) }

// ErrClosed reports that the session was closed.
var ErrClosed = errors.New("zkgrant: coordinator closed")

var (
	// ErrOutcomeUnknown reports a transaction that may have been executed: while it was
	// in progress, the connection was lost or its caller stopped waiting.
	ErrOutcomeUnknown = errors.New("zkgrant: outcome unknown")
	// ErrOperation reports an operation that a transaction does not support.
	ErrOperation = Sentinel("zkgrant: no such operation", ErrInvalid)
	// ErrEpochOver reports that the session of a transaction is over. The transaction was
	// not executed.
	ErrEpochOver = errors.New("zkgrant: session is over")
	// ErrGuard reports that a transaction was not executed because its guarding node does
	// not exist.
	ErrGuard = errors.New("zkgrant: guarding node is gone")
)

// ErrKind reports a path in use as another kind of lock.
var ErrKind = errors.New("zkgrant: wrong kind of lock")

// ErrSessionFull reports that the session's nodes have used up its budget; see [Config].
var ErrSessionFull = errors.New("zkgrant: session full")

// errIncomplete reports that some of an acquisition's nodes are gone.
var errIncomplete = errors.New("zkgrant: a permit is gone")
