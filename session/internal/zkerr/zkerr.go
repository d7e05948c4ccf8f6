// Package zkerr says what an error of the client means for a request: whether the request
// was executed, was not executed, or has an unknown outcome.
package zkerr

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
)

// ErrNoAuth reports that the ensemble's access control refused the operation.
var ErrNoAuth = errors.New("zkgrant: not authorized")

// ErrQuota reports that a quota of the ensemble refused the operation.
var ErrQuota = errors.New("zkgrant: quota exceeded")

// ErrTooLarge reports a request that is larger than the client can send.
var ErrTooLarge = Sentinel("zkgrant: request too large", ErrInvalid)

// errThrottled reports that an overloaded server turned the request away without
// executing it. The request may be tried again.
var errThrottled = errors.New("zkgrant: throttled by the server")

// Outcome is what is known about a request after the client has returned.
type Outcome uint8

const (
	// Done means that the request was executed.
	Done Outcome = iota + 1
	// Refused means that the request was not executed and never will be.
	Refused
	// TurnedAway means that the request was not executed, for a reason unrelated to the
	// request: the connection, the session, or an overloaded server. It may be tried
	// again.
	TurnedAway
	// Unknown means that the request may have been executed, may yet be, or may never be.
	Unknown
)

// Settled reports whether the outcome of the request is final.
func (o Outcome) Settled() bool { return o == Done || o == Refused }

// String returns the name of o.
func (o Outcome) String() string {
	if o < Done || o > Unknown {
		return "Outcome(" + strconv.Itoa(int(o)) + ")"
	}
	return [...]string{Done: "Done", Refused: "Refused", TurnedAway: "TurnedAway", Unknown: "Unknown"}[o]
}

// ErrInvalid reports a call that is invalid by itself, regardless of the servers.
var ErrInvalid = errors.New("zkgrant: invalid use")

// Classify returns what an error of the client means for the single request it was
// returned for. The returned error is nil if and only if the outcome is Done. It is the
// client's own error, or has words for a code that the client does not know, or wraps
// [ErrNoAuth], [ErrQuota] or [ErrTooLarge]. errors.Is finds the client's error in it.
//
// An error is Unknown unless it certainly means "not executed". That includes every
// network error, because the client returns the raw error of a failed write, not
// ErrConnectionClosed.
func Classify(err error) (Outcome, error) {
	switch {
	case err == nil:
		return Done, nil
	case errors.Is(err, zk.ErrShortBuffer):
		// A request that does not fit will never fit: if it were Unknown, it would be
		// retried forever. The client also returns this error for a reply that it cannot
		// decode, but package wire passes no such reply on.
		return Refused, fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, zk.ErrNoServer):
		return TurnedAway, err
	case errors.Is(err, zk.ErrInvalidPath), errors.Is(err, zk.ErrInvalidFlags),
		errors.Is(err, zk.ErrUnhandledFieldType), errors.Is(err, zk.ErrPtrExpected):
		// The client checked the arguments and did not write the request.
		// ErrConnectionClosed and ErrClosing are absent on purpose, because the request
		// may have reached the server.
		return Refused, err
	}
	return answerOf(err).outcome, InWords(err)
}

// ClassifyMulti is like [Classify], for a Multi. It looks at the results of the
// operations first: one of them says why the transaction failed; the others were rolled
// back or not tried. If a transaction failed, no part of it was executed. failed is the
// index of the operation that failed, or -1 if no result says so.
func ClassifyMulti(res []zk.MultiResponse, err error) (outcome Outcome, failed int, _ error) {
	failed = -1
	for i, r := range res {
		if r.Error != nil && Unnamed(r.Error) != CodeRuntimeInconsistency {
			failed, err = i, r.Error
			break
		}
	}
	outcome, err = Classify(err)
	return outcome, failed, err
}

// IsMadeAgain reports whether a request that a server answers with this code is repeated
// in its session.
func IsMadeAgain(code int32) bool {
	return code != CodeSessionExpired && !answerTo(code).outcome.Settled()
}

// IsThrottled reports whether an error returned by Classify means that a server turned
// the request away: nothing was executed.
func IsThrottled(err error) bool { return errors.Is(err, errThrottled) }

// The server's error codes, as in the header of an answer. The operations of a Multi
// after the one that failed have CodeRuntimeInconsistency.
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
	CodeSASLRequired            int32 = -124
	CodeQuotaExceeded           int32 = -125
	CodeThrottled               int32 = -127
)

// answer is what a server's error code means for the request.
type answer struct {
	code    int32
	outcome Outcome
	err     error // for callers: the client's own error, or one in words
	client  error // the client's own error; nil: the client has none
}

// answers has every code of ZooKeeper (KeeperException.Code), and all others that the
// client knows. A code is Unknown if a server may have executed the request, or if no
// server is known to send it.
//
// The words name no cause that the server does not report. If a code has several causes,
// they name all of them or none.
//
//nolint:gochecknoglobals // a constant table
var answers = [...]answer{
	{-1, Unknown, errors.New("zkgrant: the server reports a failure of its own"), nil},
	{CodeRuntimeInconsistency, Unknown,
		errors.New("zkgrant: another operation of the transaction was refused"), nil},
	{-3, Unknown, errors.New("zkgrant: the server reports that its data are inconsistent"), nil},
	{-4, Unknown, errors.New("zkgrant: the server reports a lost connection"), nil},
	{-5, Unknown, errors.New("zkgrant: the server failed at the request; its log has the reason"), nil},
	{CodeUnimplemented, Refused, errors.New("zkgrant: the server does not know the operation"), nil},
	{-7, Unknown, errors.New("zkgrant: the server reports that the operation took too long"), nil},
	known(CodeBadArguments, Refused, zk.ErrBadArguments),
	{-9, Unknown, errors.New("zkgrant: the server reports an invalid state"), nil},
	{-12, Unknown, errors.New("zkgrant: the server does not know the session"), nil},
	{-13, Unknown, errors.New("zkgrant: the new configuration would have no quorum"), nil},
	{-14, Unknown, errors.New("zkgrant: another reconfiguration is in progress"), nil},
	known(-100, Unknown, zk.ErrAPIError), // the client also returns it for a Multi reply that it does not understand
	known(CodeNoNode, Refused, zk.ErrNoNode),
	{CodeNoAuth, Refused, ErrNoAuth, zk.ErrNoAuth}, // the client's text mentions authentication, but the identity may only lack a permission
	known(CodeBadVersion, Refused, zk.ErrBadVersion),
	known(CodeNoChildrenForEphemerals, Refused, zk.ErrNoChildrenForEphemerals),
	known(CodeNodeExists, Refused, zk.ErrNodeExists),
	known(CodeNotEmpty, Refused, zk.ErrNotEmpty),
	known(CodeSessionExpired, TurnedAway, zk.ErrSessionExpired),
	{-113, Unknown, errors.New("zkgrant: the server reports an invalid callback"), nil},
	{CodeInvalidACL, Refused, errACL, zk.ErrInvalidACL},
	known(CodeAuthFailed, Refused, zk.ErrAuthFailed),
	known(CodeSessionMoved, TurnedAway, zk.ErrSessionMoved),
	{CodeNotReadOnly, Refused, errors.New("zkgrant: the server serves reads only"), nil},
	{-120, Refused,
		errors.New("zkgrant: the server makes local sessions, which cannot have ephemeral nodes"), nil},
	{-121, Refused, errors.New("zkgrant: the server knows of no such watch"), nil},
	{-122, Unknown, errors.New("zkgrant: the server reports that the request took too long"), nil},
	known(-123, Refused, zk.ErrReconfigDisabled),
	{CodeSASLRequired, Refused, errUnauthenticated, nil},
	{CodeQuotaExceeded, Refused, ErrQuota, nil},
	{CodeThrottled, TurnedAway, errThrottled, nil},
}

// errUnauthenticated names more than SASL, because a server with enforce.auth.enabled
// uses the code for any scheme that it requires.
var errUnauthenticated = Sentinel("zkgrant: not authorized: the servers require SASL, or another identity, of every session", ErrNoAuth)

// errACL lists every reason that a server can have.
var errACL = errors.New("zkgrant: the servers refuse the access control list (one of: it is empty, has a scheme that they do not have or an id that the scheme cannot have, or is for the identities of a session that has none)")

// known returns an answer for which the client has an error value with a usable text.
func known(code int32, outcome Outcome, err error) answer { return answer{code, outcome, err, err} }

// ErrorOf returns the error that callers get for a code.
func ErrorOf(code int32) error {
	if code == CodeNone {
		return nil
	}
	a := answerTo(code)
	if a.client == nil || errors.Is(a.err, a.client) {
		return a.err
	}
	return Sentinel(a.err.Error(), a.err, a.client)
}

// answerTo returns the answer for a code. If the code is not in the table, the answer
// only reports the code.
func answerTo(code int32) answer {
	for _, a := range answers {
		if a.code == code {
			return a
		}
	}
	return answer{code, Unknown,
		fmt.Errorf("zkgrant: the server answers with an error that is not ZooKeeper's: %d", code), nil}
}

// answerOf finds the answer from which the client made the error. For any other error, it
// returns an Unknown answer without a code.
func answerOf(err error) answer {
	if code := Unnamed(err); code != CodeNone {
		return answerTo(code)
	}
	for _, a := range answers {
		if a.client != nil && errors.Is(err, a.client) {
			return a
		}
	}
	return answer{outcome: Unknown}
}

// InWords returns an error of the client as callers get it, with words instead of a
// server's code. errors.Is finds the client's error in it.
func InWords(err error) error {
	a := answerOf(err)
	if a.err == nil || errors.Is(err, a.err) {
		return err
	}
	return Sentinel(a.err.Error(), a.err, err)
}

// unknownCodePrefix begins the text of the client's error for a code that it does not
// know.
const unknownCodePrefix = "unknown error: "

// Unnamed returns the server's code from an error, possibly wrapped, that the client made
// for a code that it does not know. For any other error, it returns CodeNone.
func Unnamed(err error) int32 {
	if text, found := strings.CutPrefix(err.Error(), unknownCodePrefix); found {
		if code, parseErr := strconv.ParseInt(text, 10, 32); parseErr == nil {
			return int32(code)
		}
	}
	var inner []error
	switch wrapper := err.(type) { //nolint:errorlint // it walks through the wrapped errors itself
	case interface{ Unwrap() error }:
		inner = []error{wrapper.Unwrap()}
	case interface{ Unwrap() []error }:
		inner = wrapper.Unwrap()
	}
	for _, e := range inner {
		if e == nil {
			continue
		}
		if code := Unnamed(e); code != CodeNone {
			return code
		}
	}
	return CodeNone
}

// Sentinel returns an error with its own text, in which errors.Is also finds each of the
// others.
func Sentinel(text string, others ...error) error { return &sentinel{text, others} }

type sentinel struct {
	text   string
	others []error
}

func (s *sentinel) Error() string { return s.text }

func (s *sentinel) Unwrap() []error { return s.others }
