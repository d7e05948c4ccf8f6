package events_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

const uuid = "4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0"

func TestParseNameRecognisesEveryForm(t *testing.T) {
	for _, c := range []struct {
		name string
		kind events.Kind
		seq  int64
	}{
		{"_c_" + uuid + "-lock-0000000007", events.KindLock, 7},                          // ours, Curator
		{"_c_4f1c0a527c394a0e9a3cd2b1c5a7e9f0-lock-0000000008", events.KindLock, 8},      // go-zookeeper
		{"4f1c0a52-lock-0000000009", events.KindLock, 9},                                 // recipe
		{"lock-0000000000", events.KindLock, 0},                                          // recipe without id
		{"4f1c0a527c394a0e9a3cd2b1c5a7e9f0__lock__0000000010", events.KindKazooLock, 10}, // kazoo
		{"4f1c0a527c394a0e9a3cd2b1c5a7e9f0__rlock__0000000011", events.KindKazooRead, 11},
		{"_c_" + uuid + "-__READ__0000000012", events.KindRead, 12},
		{"_c_" + uuid + "-__WRIT__0000000013", events.KindWrite, 13},
		{"_c_" + uuid + "-x-__WRIT__0000000018", events.KindWrite, 18}, // the text before the marker does not matter
		{"g-read-0000000014", events.KindRecipeRead, 14},
		{"g-write-0000000015", events.KindRecipeWrite, 15},
		{"x-72057594037927936-0000000016", events.KindWriteLock, 16},
		{"x--72057594037927936-0000000017", events.KindWriteLock, 17},
		{"lock-2147483647", events.KindLock, math.MaxInt32},
		{"lock--2147483648", events.KindLock, math.MinInt32},
		{"lock--000000005", events.KindLock, -5},
		{"a__lock__-000000005", events.KindKazooLock, -5},
		{"x-1--000000005", events.KindWriteLock, -5},
		{"a_lock-0000000001", events.KindLock, 1}, {"thread.read-0000000001", events.KindRecipeRead, 1}, // a word's boundary
	} {
		got, ok := events.ParseName(c.name)
		want := events.Name{Text: c.name, Kind: c.kind, Seq: c.seq}
		eventstest.Expect(t, ok && got == want, "ParseName(%q) = %+v, %v; want %+v", c.name, got, ok, want)
	}
}

func TestParseNameIgnoresEverythingElse(t *testing.T) {
	for _, name := range []string{
		"", "-", "_", "_c_", "_c_x", "lock", "lock-", "lock-7", "lock-000000007", "lock-00000000007", "lock-000000000x",
		"lock-0000000007x", "lock-0000000007 ", "lock-+000000007", "lock--000000000", "lock--0000000000", "LOCK-0000000007",
		"config", "!note", "0", "0000000007", "-0000000007", "x-0000000007", "x--0000000007", "x-1a-0000000007",
		"xx-1-0000000007", "_c_" + uuid + "-lease-0000000007", "__lock__", "__READ__000000001", "read0000000001",
		"thread-1234567890", "overwrite-0000000001", "block-0000000007", "größelock-0000000001", "0lock--000000001", // other words
		"lock-٠٠٠٠٠٠٠٠٠٠", "lock-\x000000000001", strings.Repeat("9", 300),
	} {
		got, ok := events.ParseName(name)
		eventstest.Expect(t, !ok, "ParseName(%q) = %+v, want no contender", name, got)
	}
}

func TestCheckFailsClosedAtTheEndOfTheSequence(t *testing.T) {
	for seq, usable := range map[int64]bool{
		0: true, 1: true, 1<<31 - 1<<20 - 1: true,
		1<<31 - 1<<20: false, math.MaxInt32: false, -1: false, math.MinInt32: false,
	} {
		name, ok := events.ParseName(fmt.Sprintf("lock-%010d", seq))
		if !ok {
			t.Fatalf("%d was not parsed", seq)
		}
		if err := name.Check(); (err == nil) != usable || err != nil && !errors.Is(err, events.ErrSequenceEnd) {
			t.Errorf("Check of %d = %v, want usable %v", seq, err, usable)
		}
	}
}

func TestLateNumbers(t *testing.T) {
	for name, late := range map[string]bool{
		"lock-0000000000": false, "/locks/a/lock-2145386495": false, "/locks/a/lock-2145386496": true, "lock-2147483647": true,
		"lock--2147483648": true, "lock--000000001": true, "x": false, "": false, "a-lock-without-a-number": false,
	} {
		eventstest.Equal(t, events.Late(name), late, "Late(%q)", name)
	}
}

func TestNamesSortByNumberThenText(t *testing.T) {
	want := []events.Name{{Text: "z", Seq: -1}, {Text: "c", Seq: 1}, {Text: "a", Seq: 2}, {Text: "b", Seq: 2}}
	names := []events.Name{want[3], want[2], want[0], want[1]}
	slices.SortFunc(names, events.CompareNames)
	eventstest.Equal(t, names, want, "the sorted names")
}

func TestKindsAndReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	named := func(name string) {
		numbered := strings.HasPrefix(name, "kind ") || strings.HasPrefix(name, "reason ")
		eventstest.Expect(t, name != "" && !numbered && !seen[name], "%q is no name, or another one's", name)
		seen[name] = true
	}
	for k := events.KindLock; k <= events.KindUnfair; k++ {
		named(k.String())
	}
	for r := events.ReasonSessionExpired; r <= events.ReasonRevoked; r++ {
		named(r.String())
	}
	eventstest.Equal(t, events.Kind(99).String(), "kind 99", "an unknown kind")
	eventstest.Equal(t, events.Reason(0).String(), "reason 0", "an unknown reason")
}

// TestReasonsAreTextInJSON, as in a log of events, and are read back.
func TestReasonsAreTextInJSON(t *testing.T) {
	for r := events.Reason(0); r <= events.ReasonRevoked+1; r++ {
		text, err := json.Marshal(events.Lost{Path: "/a", Reason: r})
		if want := fmt.Sprintf("%q:%q", "Reason", r); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("the event is %s in JSON, %v; want %s in it", text, err, want)
		}
		var lost events.Lost
		err = json.Unmarshal(text, &lost)
		eventstest.Expect(t, err == nil && lost.Reason == r, "from %s comes %+v, %v", text, lost, err)
	}
	var r events.Reason
	err := r.UnmarshalText([]byte("bad luck"))
	eventstest.Expect(t, err != nil && r == 0, "bad luck is taken for %q, %v; want an error", r, err)
}

// FuzzParseName: any name that a server or a foreign client writes either is not a
// contender or can be rebuilt from its parts.
func FuzzParseName(f *testing.F) {
	for _, s := range []string{"", "lock-0000000001", "x--1--000000005", "a__rlock__2147483647", "lock--2147483648", "_c_x", "-__WRIT__0000000001"} {
		f.Add(s)
	}
	markers := []string{"lock-", "__lock__", "__rlock__", "__READ__", "__WRIT__", "read-", "write-", "-"}
	f.Fuzz(func(t *testing.T, text string) {
		name, ok := events.ParseName(text)
		if !ok {
			if name != (events.Name{}) {
				t.Fatalf("%q: not a contender, but %+v", text, name)
			}
			return
		}
		if name.Text != text || name.Kind == 0 || name.Seq > math.MaxInt32*5 || name.Seq < -math.MaxInt32*5 {
			t.Fatalf("%q was parsed to %+v", text, name)
		}
		head, found := strings.CutSuffix(text, fmt.Sprintf("%010d", name.Seq))
		if !found {
			// Ten digits after a minus sign are accepted, although no server pads that
			// far.
			head, found = strings.CutSuffix(text, fmt.Sprintf("%011d", name.Seq))
		}
		if !found || !slices.ContainsFunc(markers, func(m string) bool { return strings.HasSuffix(head, m) }) {
			t.Fatalf("%q cannot be put together again from %+v", text, name)
		}
	})
}
