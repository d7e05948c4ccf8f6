package zkotel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
	"github.com/zkgrant/zkgrant/events"
)

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
		{&coordinator.HeldError{}, true, words.Taken, words.Withdrawn, false},
		{coordinator.ErrNotAcquired, true, words.Taken, words.Withdrawn, false},
		{coordinator.ErrNotAcquired, false, words.Withdrawn, words.Withdrawn, false},
		{context.DeadlineExceeded, false, words.Timeout, words.Withdrawn, true},
		{context.Canceled, false, words.Canceled, words.Withdrawn, false},
		{mine, false, words.Canceled, words.Withdrawn, false}, // the cause of the caller's context
		{coordinator.ErrQuota, false, words.Failed, words.Failed, true},
		{lostError, false, words.Failed, words.Withdrawn, true}, // of a Grant that nothing took
		{nil, false, words.Withdrawn, words.Released, false},
	} {
		outcome, end := words.Outcome(over, test.try, test.err), endOf(over, test.err)
		if outcome != test.outcome || end != test.end || isError(outcome) != test.isError {
			t.Errorf("%v, with Try %t, is the outcome %s, an error %t, and the end %s; want %s, %t and %s",
				test.err, test.try, outcome, isError(outcome), end, test.outcome, test.isError, test.end)
		}
	}
	if !isError(words.Lost) || isError(words.Released) || isError(words.Granted) {
		t.Error("of the ends lost, released and granted others than lost are errors")
	}
}

// TestValuesAreThoseOfZkprom: the page has them in its table of labels.
func TestValuesAreThoseOfZkprom(t *testing.T) {
	page, err := os.ReadFile("../../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for r := events.ReasonSessionExpired; r <= events.ReasonRevoked; r++ {
		reasons = append(reasons, words.Reason(r))
	}
	if row := "| reason | " + strings.Join(reasons, ", ") + " |"; !strings.Contains(string(page), row) {
		t.Errorf("the page has no row %q", row)
	}
}

func TestNamesOfLocksAreBounded(t *testing.T) {
	n := newNames(nil, 2)
	for _, test := range []struct{ path, want string }{
		{"/a", "/a"}, {"/b", "/b"}, {"/a", "/a"}, {"/c", "/*"}, {"/a", "/*"}, // one name stands for all from then on
		{"/users/1/cart", "/users/1/cart"}, {"/users/2/cart", "/users/2/cart"},
		{"no path", "*"}, {"", "*"}, {"/\xff", "*"}, {"/" + strings.Repeat("x", mostBytes), "*"},
	} {
		if got := n.of(test.path); got != test.want {
			t.Errorf("%.20q has the name %s, want %s", test.path, got, test.want)
		}
	}
	given, mostNames := map[string]bool{}, n.total()
	for parent := range 2 * mostNames {
		for child := range 3 {
			given[n.of(fmt.Sprintf("/p%d/%d", parent, child))] = true
		}
	}
	// Beside the paths there is one name for each of the parents, and one for the rest.
	if most := mostNames + mostNames/2 + 1; len(given) > most || len(n.parents) > mostNames || !given[rest] {
		t.Errorf("%d locks have %d names, of %d parents; want %d or fewer, and one for the rest", 6*mostNames, len(given), len(n.parents), most)
	}
}

func TestChosenNamesAreBounded(t *testing.T) {
	n := newNames(func(path string) string { return path }, 2)
	given := map[string]bool{}
	for i := range 3 * fewNames {
		given[n.of(fmt.Sprint(i))] = true
	}
	if len(given) != fewNames+1 || !given[rest] || n.of("0") != "0" || n.of("\xff") != rest {
		t.Errorf("a function that chooses %d names leads to %d, the first of which becomes %s; want %d and the first one itself", 3*fewNames, len(given), n.of("0"), fewNames+1)
	}
}

// TestMaxLocksBoundsTheNames of one parent, and with ten parents those of all.
func TestMaxLocksBoundsTheNames(t *testing.T) {
	for most, total := range map[int]int{0: 100, 1: 100, 50: 500, 80: 800} {
		cfg := configOf([]Option{WithMaxLocks(most)})
		n := newNames(cfg.choose, cfg.most)
		for i := range most {
			if path := fmt.Sprintf("/t/%d", i); n.of(path) != path {
				t.Errorf("of at most %d locks, lock %d has the name %s, want its own", most, i, n.of(path))
			}
		}
		for parent := range 2 * total {
			n.of(fmt.Sprintf("/p%d/x", parent))
		}
		if len(n.parents) > total {
			t.Errorf("with at most %d names of a parent's own, %d parents are kept, want at most %d", most, len(n.parents), total)
		}
		if most == 0 {
			continue
		}
		if got := n.of("/t/more"); got != "/t/*" || n.total() != total {
			t.Errorf("beyond %d locks, another one has the name %s, and there are %d in all; want /t/* and %d", most, got, n.total(), total)
		}
	}
}

func TestGaugesAddUpWhatIsLive(t *testing.T) {
	now := time.Unix(1000, 0)
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	got := tallyOf([]live{
		{"/a", "mutex", 1, ago(5), 0, true, "/a/1", nil},
		{"/a", "mutex", 1, ago(4), 0, true, "/a/1", nil}, // has entered it again
		{"/a", "mutex", 1, ago(3), 9, false, "", nil},
		{"/a", "mutex", 1, ago(7), 2, false, "", nil},
		{"/a", "mutex", 1, ago(6), 1, false, "", nil},
		{"/b", "read", 1, ago(1), 0, true, "/b/1", nil},
		{"/b", "read", 1, ago(2), 0, true, "/b/2", nil},
		{"/b", "write", 1, now, 0, false, "", nil},
		{"/c", "semaphore", 3, ago(8), 0, true, "/c/1", nil},
	}, now)
	want := map[series]tally{
		{"/a", "mutex"}:     {3, 1, 2, 7 * time.Second, 5 * time.Second},
		{"/a", ""}:          {3, 1, 2, 7 * time.Second, 5 * time.Second},
		{"/b", "read"}:      {0, 2, 0, 0, 2 * time.Second},
		{"/b", "write"}:     {1, 0, 0, 0, 0},
		{"/b", ""}:          {1, 2, 0, 0, 2 * time.Second},
		{"/c", "semaphore"}: {0, 3, 0, 0, 8 * time.Second},
		{"/c", ""}:          {0, 3, 0, 0, 8 * time.Second},
	}
	if !maps.Equal(got, want) {
		t.Errorf("the gauges say %v, want %v", got, want)
	}
}

func TestTheStateOfTheSession(t *testing.T) {
	s := session{state: words.Connecting}
	for _, test := range []struct {
		event       events.Event
		name, state string
	}{
		{events.Connected{Session: 1, Server: "zk1:2181"}, words.Connected, words.Connected},
		{events.Suspended{}, words.Suspended, words.Suspended},
		{events.Resumed{}, words.Resumed, words.Connected},
		{events.SessionExpired{Session: 1}, words.Expired, words.Connecting},
	} {
		var name string
		if s, name = s.behind(test.event); name != test.name || s.state != test.state {
			t.Errorf("behind %T, called %s, the session is %s; want %s and %s", test.event, name, s.state, test.name, test.state)
		}
	}
}

// TestTextIsClean: OTLP refuses a whole batch because of one attribute that is not UTF-8.
func TestTextIsClean(t *testing.T) {
	for text, want := range map[string]string{
		"/locks/a": "/locks/a", "/\xff\xfe/a": "/\uFFFD/a", strings.Repeat("x", mostText) + "y": strings.Repeat("x", mostText),
	} {
		if got := clean(text); got != want {
			t.Errorf("%.20q becomes %.20q, want %.20q", text, got, want)
		}
	}
}

// Live tells how many acquisitions the hook knows.
func (h *Hook) Live() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.acquisitions)
}
