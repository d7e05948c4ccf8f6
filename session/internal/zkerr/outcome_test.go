package zkerr

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/go-zookeeper/zk"
)

// codeError is the client's error for a code for which it has no value.
func codeError(code int) error { return fmt.Errorf("unknown error: %v", zk.ErrCode(code)) }

func TestClassify(t *testing.T) {
	reset := &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}
	for _, c := range []struct {
		err      error
		outcome  Outcome
		sentinel error
	}{
		{nil, Done, nil},
		{zk.ErrNoNode, Refused, nil},
		{zk.ErrNoAuth, Refused, ErrNoAuth},
		{zk.ErrBadVersion, Refused, nil},
		{zk.ErrNoChildrenForEphemerals, Refused, nil},
		{zk.ErrNodeExists, Refused, nil},
		{zk.ErrNotEmpty, Refused, nil},
		{zk.ErrSessionExpired, TurnedAway, nil},
		{zk.ErrSessionMoved, TurnedAway, nil},
		{zk.ErrInvalidACL, Refused, nil},
		{zk.ErrAuthFailed, Refused, nil},
		{zk.ErrBadArguments, Refused, nil},
		{zk.ErrReconfigDisabled, Refused, nil},
		{zk.ErrNoServer, TurnedAway, nil},
		{zk.ErrInvalidPath, Refused, nil},
		{fmt.Errorf("not here: %w", zk.ErrInvalidFlags), Refused, nil},
		{zk.ErrUnhandledFieldType, Refused, nil},
		{zk.ErrPtrExpected, Refused, nil},
		{zk.ErrShortBuffer, Refused, ErrTooLarge},
		{codeError(-6), Refused, nil},
		{codeError(-119), Refused, nil},
		{codeError(-120), Refused, nil},
		{codeError(-121), Refused, nil},
		{codeError(-124), Refused, ErrNoAuth},
		{codeError(-125), Refused, ErrQuota},
		{codeError(-127), TurnedAway, errThrottled},
		{codeError(-1), Unknown, nil},
		{codeError(-2), Unknown, nil},
		{codeError(-3), Unknown, nil},
		{codeError(-4), Unknown, nil},
		{codeError(-5), Unknown, nil},
		{codeError(-7), Unknown, nil},
		{codeError(-9), Unknown, nil},
		{codeError(-122), Unknown, nil},
		{codeError(-128), Unknown, nil},
		{codeError(-999), Unknown, nil},
		{errors.New("unknown error: -125 or so"), Unknown, nil},
		{errors.New("unknown error: "), Unknown, nil},
		{zk.ErrConnectionClosed, Unknown, nil},
		{zk.ErrClosing, Unknown, nil},
		{zk.ErrNothing, Unknown, nil},
		{zk.ErrUnknown, Unknown, nil},
		{zk.ErrAPIError, Unknown, nil},
		{io.EOF, Unknown, nil},
		{io.ErrClosedPipe, Unknown, nil},
		{net.ErrClosed, Unknown, nil},
		{reset, Unknown, nil},
		{errors.New("anything"), Unknown, nil},
	} {
		outcome, err := Classify(c.err)
		if outcome != c.outcome || !errors.Is(err, c.err) || c.sentinel != nil && !errors.Is(err, c.sentinel) {
			t.Errorf("Classify(%v) = %v, %v; want %v, %v", c.err, outcome, err, c.outcome, c.sentinel)
		}
		for _, s := range []error{ErrNoAuth, ErrQuota, ErrTooLarge, errThrottled} {
			if !errors.Is(c.sentinel, s) && errors.Is(err, s) {
				t.Errorf("Classify(%v) is %v as well, want only %v", c.err, s, c.sentinel)
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
		outcome, err := ClassifyMulti(c.res, c.err)
		if outcome != c.outcome || (err == nil) != (outcome == Done) ||
			c.want != nil && !errors.Is(err, c.want) || c.sentinel != nil && !errors.Is(err, c.sentinel) {
			t.Errorf("case %d: %v, %v; want %v, %v, %v", i, outcome, err, c.outcome, c.want, c.sentinel)
		}
		if got := FailedOp(c.res); got != c.failed {
			t.Errorf("case %d: FailedOp = %d, want %d", i, got, c.failed)
		}
	}
}

func TestOutcomeString(t *testing.T) {
	for o, want := range map[Outcome]string{0: "Outcome(0)", Done: "Done", Refused: "Refused", Unknown: "Unknown", TurnedAway: "TurnedAway", 5: "Outcome(5)"} {
		if got := o.String(); got != want {
			t.Errorf("%d: %q, want %q", uint8(o), got, want)
		}
	}
}
