package zkerr

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// keeperCodes are the codes of KeeperException.Code in ZooKeeper 3.4 to 3.9, except OK.
var keeperCodes = map[string]int{
	"SystemError": -1, "RuntimeInconsistency": -2, "DataInconsistency": -3, "ConnectionLoss": -4, "MarshallingError": -5,
	"Unimplemented": -6, "OperationTimeout": -7, "BadArguments": -8, "UnknownSession": -12, "NewConfigNoQuorum": -13,
	"ReconfigInProgress": -14, "APIError": -100, "NoNode": -101, "NoAuth": -102, "BadVersion": -103,
	"NoChildrenForEphemerals": -108, "NodeExists": -110, "NotEmpty": -111, "SessionExpired": -112, "InvalidCallback": -113,
	"InvalidACL": -114, "AuthFailed": -115, "SessionMoved": -118, "NotReadOnly": -119, "EphemeralOnLocalSession": -120,
	"NoWatcher": -121, "RequestTimeout": -122, "ReconfigDisabled": -123, "SessionClosedRequireSASLAuth": -124,
	"QuotaExceeded": -125, "ThrottledOp": -127,
}

// clientError returns the error that the client makes of a code.
func clientError(code int) error {
	known := map[int]error{
		-100: zk.ErrAPIError, -101: zk.ErrNoNode, -102: zk.ErrNoAuth, -103: zk.ErrBadVersion, -108: zk.ErrNoChildrenForEphemerals,
		-110: zk.ErrNodeExists, -111: zk.ErrNotEmpty, -112: zk.ErrSessionExpired, -114: zk.ErrInvalidACL, -115: zk.ErrAuthFailed,
		-118: zk.ErrSessionMoved, -123: zk.ErrReconfigDisabled, -8: zk.ErrBadArguments,
	}
	if err := known[code]; err != nil {
		return err
	}
	return codeError(code)
}

func TestEveryCodeOfAServerIsToldInWords(t *testing.T) {
	texts := map[string]string{}
	for name, code := range keeperCodes {
		fromClient := clientError(code)
		first, classified := Classify(fromClient)
		for what, err := range map[string]error{"a request": classified, "a hook": ErrorOf(int32(code)), "a transaction": InWords(fromClient)} {
			if text := err.Error(); strings.ContainsAny(text, "0123456789") || strings.Contains(text, "unknown error") {
				t.Errorf("%s: the error of %s is %q, want words and no code", name, what, text)
			}
			// For some codes, the client has no value of its own, so a hook's error
			// matches only ours.
			if (what != "a hook" || Unnamed(fromClient) == CodeNone) && !errors.Is(err, fromClient) {
				t.Errorf("%s: the error of %s is %v, and not the client's %v", name, what, err, fromClient)
			}
		}
		outcome := answerTo(int32(code)).outcome
		got, again := Classify(fmt.Errorf("asked for: %w", InWords(fromClient)))
		eventstest.Expect(t, again != nil && got == outcome,
			"%s: in words and wrapped it is %v, want %v as before", name, got, outcome)
		eventstest.Equal(t, first, outcome, "the outcome of %s", name)
		isMadeAgain := !outcome.Settled() && int32(code) != CodeSessionExpired
		eventstest.Equal(t, IsMadeAgain(int32(code)), isMadeAgain, "whether %s is made again", name)
		eventstest.Equal(t, ErrorOf(int32(code)).Error(), classified.Error(), "what a hook hears of %s", name)
		if other, twice := texts[classified.Error()]; twice {
			t.Errorf("%s and %s are both %q, want two texts", name, other, classified)
		}
		texts[classified.Error()] = name
	}
}

// TestACodeThatIsNotZooKeepersIsShown: nothing is known except the code.
func TestACodeThatIsNotZooKeepersIsShown(t *testing.T) {
	for _, err := range []error{ErrorOf(-999), InWords(codeError(-999))} {
		if text := err.Error(); !strings.Contains(text, "-999") || strings.Contains(text, "unknown error") {
			t.Errorf("the error of code -999 is %q, want the code", text)
		}
	}
	eventstest.ErrorIs(t, ErrorOf(CodeNone), nil, "code 0")
}

// Servers use one code for many reasons. The error does not guess at what they do not
// report.
func TestAnErrorNamesNoCauseThatItMayNotHave(t *testing.T) {
	for code, never := range map[int]string{
		-102: "authenticated", // an identity may be known, but lack the permission
		-124: "want SASL",     // enforce.auth.enabled has the code for any scheme
	} {
		if _, err := Classify(clientError(code)); strings.Contains(err.Error(), never) {
			t.Errorf("the error of code %d is %q, want nothing of %q", code, err, never)
		}
	}
}
