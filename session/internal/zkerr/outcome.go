// Package zkerr says what an error of the client means for a request: it was executed, or not executed, or its outcome is unknown.
package zkerr

import (
	"errors"
	"fmt"
	"strconv"

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
	// TurnedAway means that the request was not executed, for a reason that is not the request's: the connection, the session, or a server
	// that is overloaded. It may be made again.
	TurnedAway
	// Unknown means that the request may have been executed, may be executed still, or may never be.
	Unknown
)

// Settled reports whether it is known for good what became of the request.
func (o Outcome) Settled() bool { return o == Done || o == Refused }

// String returns the name of o.
func (o Outcome) String() string {
	if o < Done || o > Unknown {
		return "Outcome(" + strconv.Itoa(int(o)) + ")"
	}
	return [...]string{Done: "Done", Refused: "Refused", TurnedAway: "TurnedAway", Unknown: "Unknown"}[o]
}

// ErrInvalid says that a call is wrong in itself, whatever the servers hold.
var ErrInvalid = errors.New("zkgrant: invalid use")

// Classify says what an error of the client means for the one request it was returned for. The error that it returns is nil exactly if the
// outcome is Done. It is the client's own, or has words for a code that the client does not know, or wraps [ErrNoAuth], [ErrQuota] or
// [ErrTooLarge]. errors.Is finds the client's error in it.
//
// An error is Unknown unless it certainly means "not executed". That includes every network error: the client hands out the raw error of a
// failed write, not ErrConnectionClosed.
func Classify(err error) (Outcome, error) {
	switch {
	case err == nil:
		return Done, nil
	case errors.Is(err, zk.ErrShortBuffer):
		// The client has this one for a reply it cannot decode as well. No server sends such a reply, and a
		// request that does not fit will never fit: if this were Unknown it would be tried for ever.
		return Refused, fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, zk.ErrNoServer):
		return TurnedAway, err
	case isRefusal(err):
		return Refused, err
	}
	return answerOf(err).outcome, InWords(err)
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

// isRefusal reports whether err is one of the values that the client has for requests that it never wrote, because it has checked their
// arguments.
//
// Absent on purpose: ErrConnectionClosed and ErrClosing, because the request may be at the server.
func isRefusal(err error) bool {
	for _, refusal := range [...]error{
		zk.ErrInvalidPath, zk.ErrInvalidFlags, zk.ErrUnhandledFieldType, zk.ErrPtrExpected,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// IsMadeAgain reports whether a request that a server answers with the code is made again in its session.
func IsMadeAgain(code int32) bool {
	return code != CodeNone && code != CodeSessionExpired && !answerTo(code).outcome.Settled()
}

// IsThrottled reports whether an error that Classify has returned says that a server has turned the request away: nothing was executed.
func IsThrottled(err error) bool { return errors.Is(err, errThrottled) }

// Sentinel returns an error with a text of its own. errors.Is finds each of the others in it as well.
func Sentinel(text string, others ...error) error { return &sentinel{text, others} }

type sentinel struct {
	text   string
	others []error
}

func (s *sentinel) Error() string { return s.text }

func (s *sentinel) Unwrap() []error { return s.others }
