// Package zkerr says what an error of the client means for a request: it was executed, or not executed, or its outcome is unknown.
package zkerr

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
)

// ErrNoAuth says that the ensemble's access control refused the operation.
var ErrNoAuth = errors.New("zkgrant: not authorized")

// ErrQuota says that a quota set on the ensemble refused the operation.
var ErrQuota = errors.New("zkgrant: quota exceeded")

// ErrTooLarge says that a request is larger than the client can send.
var ErrTooLarge = Sentinel("zkgrant: request too large", ErrInvalid)

// errThrottled says that an overloaded server turned the request away without executing it. The request may be tried again.
var errThrottled = errors.New("zkgrant: throttled by the server")

// Outcome says what is known about one request after the client has returned.
type Outcome uint8

const (
	// Done means that the request was executed.
	Done Outcome = iota + 1
	// Refused means that the request was not executed and never will be.
	Refused
	// Unknown means that the request may have been executed, may be executed still, or may never be.
	Unknown
)

// String returns the name of o.
func (o Outcome) String() string {
	if o < Done || o > Unknown {
		return "Outcome(" + strconv.Itoa(int(o)) + ")"
	}
	return [...]string{Done: "Done", Refused: "Refused", Unknown: "Unknown"}[o]
}

// The error codes of the server, as they come in the header of an answer. The operations of a Multi after the one that failed have
// CodeRuntimeInconsistency.
const (
	CodeNone                    int32 = 0
	CodeRuntimeInconsistency    int32 = -2
	CodeUnimplemented           int32 = -6
	CodeBadArguments            int32 = -8
	CodeNoNode                  int32 = -101
	CodeNoAuth                  int32 = -102
	CodeBadVersion              int32 = -103
	CodeNoChildrenForEphemerals int32 = -108
	CodeNodeExists              int32 = -110
	CodeNotEmpty                int32 = -111
	CodeSessionExpired          int32 = -112
	CodeInvalidACL              int32 = -114
	CodeAuthFailed              int32 = -115
	CodeSessionMoved            int32 = -118
	CodeNotReadOnly             int32 = -119
	codeEphemeralOnLocal        int32 = -120
	codeNoWatcher               int32 = -121
	CodeSASLRequired            int32 = -124
	CodeQuotaExceeded           int32 = -125
	CodeThrottled               int32 = -127
)

// unknownCodePrefix begins the client's error for a code for which it has no value.
const unknownCodePrefix = "unknown error: "

// ErrInvalid says that a call is wrong in itself, whatever the servers hold.
var ErrInvalid = errors.New("zkgrant: invalid use")

// Classify says what an error of the client means for the one request it was returned for. The error that it returns is nil exactly if the
// outcome is Done. It is the client's own, or wraps that together with [ErrNoAuth], [ErrQuota] or [ErrTooLarge], so errors.Is finds either.
//
// An error is Unknown unless it certainly means "not executed". That includes every network error: the client hands out the raw error of a
// failed write, not ErrConnectionClosed.
func Classify(err error) (Outcome, error) {
	switch {
	case err == nil:
		return Done, nil
	case errors.Is(err, zk.ErrNoAuth):
		return Refused, fmt.Errorf("%w: %w", ErrNoAuth, err)
	case errors.Is(err, zk.ErrShortBuffer):
		// The client has this one for a reply it cannot decode as well. No server sends such a reply, and a
		// request that does not fit will never fit: if this were Unknown it would be tried for ever.
		return Refused, fmt.Errorf("%w: %w", ErrTooLarge, err)
	case isRefusal(err):
		return Refused, err
	}
	switch Unnamed(err) {
	case CodeUnimplemented, CodeNotReadOnly, codeEphemeralOnLocal, codeNoWatcher:
		return Refused, err
	case CodeSASLRequired:
		return Refused, fmt.Errorf("%w: the servers want SASL: %w", ErrNoAuth, err)
	case CodeQuotaExceeded:
		return Refused, fmt.Errorf("%w: %w", ErrQuota, err)
	case CodeThrottled:
		return Refused, fmt.Errorf("%w: %w", errThrottled, err)
	}
	return Unknown, err
}

// ClassifyMulti is [Classify] for a Multi. It looks at the results of the single operations first: one of them says why the transaction
// failed, the others were rolled back or not looked at. If a transaction failed, no part of it was executed.
func ClassifyMulti(res []zk.MultiResponse, err error) (Outcome, error) {
	if i := FailedOp(res); i >= 0 {
		return Classify(res[i].Error)
	}
	return Classify(err)
}

// FailedOp returns the index of the operation that made a Multi fail, or -1 if none of the results says so.
func FailedOp(res []zk.MultiResponse) int {
	for i, r := range res {
		if r.Error != nil && Unnamed(r.Error) != CodeRuntimeInconsistency {
			return i
		}
	}
	return -1
}

// isRefusal reports whether err is one of the client's values that mean "not executed".
//
// Absent on purpose: ErrConnectionClosed and ErrClosing (the request may be at the server), ErrAPIError (the client has it
// for a Multi reply it does not understand), ErrUnknown, ErrNothing.
func isRefusal(err error) bool {
	for _, refusal := range [...]error{
		// From the server, before anything was changed.
		zk.ErrNoNode, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists, zk.ErrNotEmpty,
		zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrBadArguments, zk.ErrReconfigDisabled,
		// From the server: the session is over or lives on another connection.
		zk.ErrSessionExpired, zk.ErrSessionMoved,
		// From the client: only requests that were never written get this.
		zk.ErrNoServer,
		// From the client's own checks of the arguments.
		zk.ErrInvalidPath, zk.ErrInvalidFlags, zk.ErrUnhandledFieldType, zk.ErrPtrExpected,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// Unnamed finds the server's code in an error the client made of a code it has no value for, and CodeNone in any other.
func Unnamed(err error) int32 {
	text, found := strings.CutPrefix(err.Error(), unknownCodePrefix)
	if !found {
		return CodeNone
	}
	code, parseErr := strconv.ParseInt(text, 10, 32)
	if parseErr != nil {
		return CodeNone
	}
	return int32(code)
}

// Unsettled reports whether a refusal is about the connection, the session or the moment, and not about the request: it may be made again.
func Unsettled(err error) bool {
	return errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrSessionMoved) ||
		errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, errThrottled)
}

// ErrorOf returns the client's error of a code, if it has one.
func ErrorOf(code int32) error {
	switch code {
	case CodeNone:
		return nil
	case CodeBadArguments:
		return zk.ErrBadArguments
	case CodeNoNode:
		return zk.ErrNoNode
	case CodeNoAuth:
		return zk.ErrNoAuth
	case CodeBadVersion:
		return zk.ErrBadVersion
	case CodeNoChildrenForEphemerals:
		return zk.ErrNoChildrenForEphemerals
	case CodeNodeExists:
		return zk.ErrNodeExists
	case CodeNotEmpty:
		return zk.ErrNotEmpty
	case CodeSessionExpired:
		return zk.ErrSessionExpired
	case CodeInvalidACL:
		return zk.ErrInvalidACL
	case CodeAuthFailed:
		return zk.ErrAuthFailed
	case CodeSessionMoved:
		return zk.ErrSessionMoved
	case CodeQuotaExceeded:
		return ErrQuota
	case CodeThrottled:
		return errThrottled
	default:
		return fmt.Errorf("zkgrant: the server's error %d", code)
	}
}

// Sentinel returns an error with a text of its own. errors.Is finds each of the others in it as well.
func Sentinel(text string, others ...error) error { return &sentinel{text, others} }

type sentinel struct {
	text   string
	others []error
}

func (s *sentinel) Error() string { return s.text }

func (s *sentinel) Unwrap() []error { return s.others }
