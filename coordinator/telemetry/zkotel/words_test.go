package zkotel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachEndHasAWordAndSomeAreErrors(t *testing.T) {
	mine := errors.New("mine")
	over, cancel := context.WithCancelCause(context.Background())
	cancel(mine)
	lostError := &coordinator.LostError{Path: "/a", Reason: events.ReasonNodeRemoved}
	for _, test := range []struct {
		err          error
		try          bool
		outcome, end string
		isError      bool // as an outcome
	}{
		{coordinator.ErrClosed, false, words.Closed, words.Closed, false},
		{coordinator.ErrDeadlock, false, words.Deadlock, words.Withdrawn, true},
		{coordinator.ErrTimeout, false, words.Timeout, words.Withdrawn, true},
		{fmt.Errorf("a path: %w", coordinator.ErrPath), false, words.Invalid, words.Withdrawn, true},
		{fmt.Errorf("%w: %w", coordinator.ErrNotAcquired, &events.HeldError{}), true, words.Taken, words.Withdrawn, false},
		{coordinator.ErrNotAcquired, true, words.Taken, words.Withdrawn, false},
		{coordinator.ErrNotAcquired, false, words.Withdrawn, words.Withdrawn, false},
		{context.DeadlineExceeded, false, words.Timeout, words.Withdrawn, true},
		{context.Canceled, false, words.Canceled, words.Withdrawn, false},
		{mine, false, words.Canceled, words.Withdrawn, false}, // the cause of the caller's context
		{coordinator.ErrQuota, false, words.Failed, words.Failed, true},
		{lostError, false, words.Failed, words.Withdrawn, true}, // lost before the Grant was taken
		{nil, false, words.Withdrawn, words.Released, false},
	} {
		outcome, end := words.Outcome(over, test.try, test.err), endOf(over, test.err)
		eventstest.Equal(t, outcome, test.outcome, "the outcome of %v, with Try %t", test.err, test.try)
		eventstest.Equal(t, end, test.end, "the end of %v", test.err)
		eventstest.Equal(t, isError(outcome), test.isError, "%s is an error", outcome)
	}
	eventstest.Expect(t, isError(words.Lost) && !isError(words.Released) && !isError(words.Granted),
		"of the ends lost, released and granted others than lost are errors")
}

// TestThePageNamesEachAttribute of a span, and no other.
func TestThePageNamesEachAttribute(t *testing.T) {
	page, err := os.ReadFile("../../../docs/observability.md")
	eventstest.Must(t, err)
	source, err := os.ReadFile("spans.go")
	eventstest.Must(t, err)
	_, table, _ := strings.Cut(string(page), "| attribute | of | value |")
	table, _, _ = strings.Cut(table, "\n\n")
	in := func(text, pattern string) (names []string) {
		for _, name := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			names = append(names, name[1])
		}
		slices.Sort(names)
		return names
	}
	has, want := in(table, "`((?:zkgrant|server|error)\\.[a-z_.]+)`"), in(string(source), `attribute\.Key\("([a-z_.]+)"\)`)
	eventstest.Equal(t, has, want, "the attributes on the page")
}

// TestTextIsClean: OTLP refuses a whole batch because of one attribute that is not UTF-8.
func TestTextIsClean(t *testing.T) {
	for text, want := range map[string]string{
		"/locks/a": "/locks/a", "/\xff\xfe/a": "/\uFFFD/a", strings.Repeat("x", mostText) + "y": strings.Repeat("x", mostText),
	} {
		eventstest.Equal(t, clean(text), want, "%.20q becomes", text)
	}
}

func (h *Hook) Live() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.acquisitions)
}
