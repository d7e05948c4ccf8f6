package session

import "github.com/zkgrant/zkgrant/session/internal/zkerr"

// What the rooms above tell their callers.
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

// Sentinel returns an error with a text of its own, which is each of the others as well for errors.Is.
func Sentinel(text string, others ...error) error { return zkerr.Sentinel(text, others...) }
