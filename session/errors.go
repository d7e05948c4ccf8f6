package session

import (
	"errors"

	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// The errors that the packages above return to their callers.
var (
	// ErrInvalid says that a call is wrong in itself, whatever the servers hold.
	ErrInvalid = zkerr.ErrInvalid
	// ErrNoAuth says that the ensemble's access control refused the operation.
	ErrNoAuth = zkerr.ErrNoAuth
	// ErrQuota says that a quota set on the ensemble refused the operation.
	ErrQuota = zkerr.ErrQuota
	// ErrTooLarge says that a request is larger than the client can send.
	ErrTooLarge = zkerr.ErrTooLarge
)

// Sentinel returns an error with a text of its own. errors.Is finds each of the others in
// it as well.
func Sentinel(text string, others ...error) error { return zkerr.Sentinel(text, others...) }

// ErrClosed says that the session was closed.
var ErrClosed = errors.New("zkgrant: coordinator closed")

var (
	// ErrOutcomeUnknown says that a transaction may have been executed or not: while it
	// was under way the connection was lost, or its caller stopped waiting.
	ErrOutcomeUnknown = errors.New("zkgrant: outcome unknown")
	// ErrOperation says that an operation is none of those that a transaction can have.
	ErrOperation = Sentinel("zkgrant: no such operation", ErrInvalid)
	// ErrEpochOver says that the session in which a transaction was to be made is over.
	// It was not made.
	ErrEpochOver = errors.New("zkgrant: session is over")
	// ErrGuard says that a transaction was not executed because its guard's node does not
	// exist.
	ErrGuard = errors.New("zkgrant: guarding node is gone")
)

// ErrKind says that a path is in use as another kind of lock.
var ErrKind = errors.New("zkgrant: wrong kind of lock")

// ErrSessionFull says that the session has as many nodes of its own as its budget allows,
// see [Config].
var ErrSessionFull = errors.New("zkgrant: session full")

// errIncomplete says that some of an acquisition's permits are gone.
var errIncomplete = errors.New("zkgrant: a permit is gone")
