package zkerr

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// codeError returns the client's error for a code for which it has no value.
func codeError(code int) error { return fmt.Errorf("unknown error: %v", zk.ErrCode(code)) }

func TestClassify(t *testing.T) {
	codes := func(list ...int) (errs []error) {
		for _, code := range list {
			errs = append(errs, codeError(code))
		}
		return errs
	}
	for _, c := range []struct {
		outcome  Outcome
		sentinel error
		errs     []error
	}{
		{Done, nil, []error{nil}},
		{Refused, nil, []error{
			zk.ErrNoNode, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists, zk.ErrNotEmpty,
			zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrBadArguments, zk.ErrReconfigDisabled, zk.ErrInvalidPath,
			zk.ErrUnhandledFieldType, zk.ErrPtrExpected, fmt.Errorf("not here: %w", zk.ErrInvalidFlags),
		}},
		{TurnedAway, nil, []error{zk.ErrSessionExpired, zk.ErrSessionMoved, zk.ErrNoServer}},
		{Refused, nil, codes(-6, -119, -120, -121)},
		{Refused, ErrNoAuth, append(codes(-124), zk.ErrNoAuth)},
		{Refused, ErrTooLarge, []error{zk.ErrShortBuffer}},
		{Refused, ErrQuota, codes(-125)},
		{TurnedAway, errThrottled, codes(-127)},
		{Unknown, nil, codes(-1, -2, -3, -4, -5, -7, -9, -122, -128, -999)},
		{Unknown, nil, []error{
			errors.New("unknown error: -125 or so"), errors.New("unknown error: "), errors.New("anything"),
			zk.ErrConnectionClosed, zk.ErrClosing, zk.ErrNothing, zk.ErrUnknown, zk.ErrAPIError,
			io.EOF, io.ErrClosedPipe, net.ErrClosed, &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded},
		}},
	} {
		for _, from := range c.errs {
			outcome, err := Classify(from)
			if outcome != c.outcome || !errors.Is(err, from) {
				t.Errorf("Classify(%v) = %v, %v; want %v", from, outcome, err, c.outcome)
			}
			for _, s := range []error{ErrNoAuth, ErrQuota, ErrTooLarge, errThrottled} {
				if got, want := errors.Is(err, s), errors.Is(c.sentinel, s); got != want {
					t.Errorf("Classify(%v) is %v: %v, want %v", from, s, got, want)
				}
			}
		}
	}
}

func TestClassifyMulti(t *testing.T) {
	ok, after := zk.MultiResponse{}, zk.MultiResponse{Error: codeError(-2)}
	op := func(err error) zk.MultiResponse { return zk.MultiResponse{Error: err} }
	for i, c := range []struct {
		res      []zk.MultiResponse
		err      error
		outcome  Outcome
		want     error
		sentinel error
		failed   int
	}{
		{[]zk.MultiResponse{ok, ok}, nil, Done, nil, nil, -1},
		{[]zk.MultiResponse{ok, op(zk.ErrNoNode), after}, zk.ErrNoNode, Refused, zk.ErrNoNode, nil, 1},
		{[]zk.MultiResponse{op(zk.ErrNoAuth), after}, zk.ErrNoAuth, Refused, zk.ErrNoAuth, ErrNoAuth, 0},
		{[]zk.MultiResponse{after, op(zk.ErrBadVersion)}, codeError(-2), Refused, zk.ErrBadVersion, nil, 1},
		{[]zk.MultiResponse{ok, op(zk.ErrNodeExists)}, nil, Refused, zk.ErrNodeExists, nil, 1},
		{[]zk.MultiResponse{ok, op(codeError(-125))}, codeError(-125), Refused, nil, ErrQuota, 1},
		{[]zk.MultiResponse{after, after}, codeError(-2), Unknown, nil, nil, -1},
		{nil, zk.ErrConnectionClosed, Unknown, zk.ErrConnectionClosed, nil, -1},
		{[]zk.MultiResponse{}, zk.ErrSessionExpired, TurnedAway, zk.ErrSessionExpired, nil, -1},
		{[]zk.MultiResponse{}, zk.ErrShortBuffer, Refused, zk.ErrShortBuffer, ErrTooLarge, -1},
		{nil, nil, Done, nil, nil, -1},
	} {
		outcome, failed, err := ClassifyMulti(c.res, c.err)
		if outcome != c.outcome || failed != c.failed || (err == nil) != (outcome == Done) ||
			c.want != nil && !errors.Is(err, c.want) || c.sentinel != nil && !errors.Is(err, c.sentinel) {
			t.Errorf("case %d: %v of operation %d, %v; want %v of %d, %v, %v",
				i, outcome, failed, err, c.outcome, c.failed, c.want, c.sentinel)
		}
	}
}
