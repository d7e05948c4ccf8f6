package session

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

func TestRevocationsAreReadAsTheyAreWritten(t *testing.T) {
	for data, c := range map[string]struct {
		want revocation
		user string
	}{
		"__REVOKE__":                        {revocation{stands: true}, ""},
		"__REVOKE__ 0\n":                    {within(0), ""},
		"__REVOKE__ 1500\njob 17":           {within(1500 * time.Millisecond), "job 17"},
		"__REVOKE__ 1500\na\nb":             {within(1500 * time.Millisecond), "a\nb"},
		"__REVOKE__ 1500\n__REVOKE__":       {within(1500 * time.Millisecond), "__REVOKE__"},
		"__REVOKE__ 9223372036854775807\nx": {within(mostGrace), "x"},
	} {
		w, user := read([]byte(data))
		if w != c.want || string(user) != c.user || string(UserData("lock-0000000001", []byte(data))) != c.user {
			t.Errorf("%q: %+v, %q; want %+v, %q", data, w, user, c.want, c.user)
		}
		expect(t, w.grace >= mostGrace || string(w.data(user)) == data,
			"the data are written again as %q, want %q", w.data(user), data)
		expect(t, Reserved([]byte(data)), "%q is free for callers, want it reserved", data)
	}
	for _, data := range []string{
		"", "job 17", "__REVOKE__ 9223372036854775808\nx", "__REVOKE__ -5\nx", "__REVOKE__ +5\nx", "__REVOKE__ \nx",
		"__REVOKE__\nx", "__REVOKE__5\nx", "__REVOKE__ 5", "__REVOKE__ 5ms\nx", " __REVOKE__",
	} {
		w, user := read([]byte(data))
		if w != (revocation{}) || string(user) != data || string(UserData("lock-0000000001", []byte(data))) != data {
			t.Errorf("%q: %+v, %q; want all of it the user's", data, w, user)
		}
	}
}

func TestAGraceIsKeptInMilliseconds(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{
		-1: 0, 0: 0, 1: time.Millisecond, time.Millisecond: time.Millisecond, time.Millisecond + 1: 2 * time.Millisecond,
		math.MaxInt64: mostGrace, time.Hour: time.Hour,
	} {
		got := within(grace)
		expect(t, got.grace == want && got.bounded && got.stands, "within %v: %+v, want %v", grace, got, want)
	}
}

// TestARevocationIsWrittenIfItSaysSomethingNew checks when a revocation request is
// written to a node that may have one.
func TestARevocationIsWrittenIfItSaysSomethingNew(t *testing.T) {
	none, curators := revocation{}, revocation{stands: true}
	for _, c := range []struct {
		want, standing revocation
		adds, asked    bool // if no request was written before, and if one was
	}{
		{within(5), none, true, true},
		{within(5), curators, true, true},
		{within(time.Second), within(time.Second), false, false},
		{within(time.Second), within(time.Minute), true, false},
		{within(time.Minute), within(time.Second), false, false},
		{curators, none, true, true},
		{curators, curators, false, false},
		{curators, within(5), false, false},
	} {
		got, asked := c.want.adds(c.standing, false), c.want.adds(c.standing, true)
		expect(t, got == c.adds && asked == c.asked,
			"%+v beside %+v adds: %v, and %v if asked before; want %v and %v",
			c.want, c.standing, got, asked, c.adds, c.asked)
	}
}

// TestWatchesKnowTheSoonestRevocation: the earliest deadline read at a path counts, also
// for a seat that reads it again.
func TestWatchesKnowTheSoonestRevocation(t *testing.T) {
	c, seat := &client{}, &Seat{}
	_, ticket := c.watches.Ask("/a", seat)
	c.watches.Answered("/a", ticket, true)
	if _, requested := c.requestIn("/a"); requested || c.noteRevocation("/a", 0) != 0 {
		t.Error("there is a time before any was set, want none")
	}
	for _, e := range []struct{ by, want int64 }{{9, 9}, {12, 9}, {0, 9}, {5, 5}, {6, 5}} {
		equal(t, int64(c.noteRevocation("/a", recipes.Moment(e.by))), e.want, "by %d", e.by)
		if by, requested := c.requestIn("/b", "/a"); !requested || int64(by) != e.want {
			t.Errorf("the revocation is by %d (%v), want %d", by, requested, e.want)
		}
	}
	c.watches.Changed("/a")
	_, requested := c.requestIn("/a")
	expect(t, !requested, "after a change there is a revocation, want none: what stands there is unknown")
	_, ticket = c.watches.Ask("/a", nil)
	c.watches.Answered("/a", ticket, true)
	equal(t, c.noteRevocation("/a", 7), 5, "read anew, the revocation is by")
	c.watches.Unnote("/a")
	if _, requested := c.requestIn("/a"); requested || c.noteRevocation("/a", 7) != 7 {
		t.Error("a revocation that was taken back is there, want it gone")
	}
}

const (
	revocableNode = "/locks/a/_c_9f1c0a52-7c39-810e-9a3c-d2b1c5a7e9f0-lock-0000000007"
	plainNode     = "/locks/a/_c_9f1c0a52-7c39-800e-9a3c-d2b1c5a7e9f0-lock-0000000007"
	curatorsNode  = "/locks/a/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lock-0000000007"
)

func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func TestTheTimeoutIsReadAsItIsWritten(t *testing.T) {
	for _, c := range []struct {
		user    []byte
		timeout time.Duration
		data    string
	}{
		{nil, 30 * time.Second, "zkgrant-timeout 30000ms\n"},
		{[]byte{}, 30 * time.Second, "\nzkgrant-timeout 30000ms\n"},
		{[]byte("job 17"), 4 * time.Second, "job 17\nzkgrant-timeout 4000ms\n"},
		{[]byte("a\nb\n"), time.Millisecond, "a\nb\n\nzkgrant-timeout 1ms\n"},
		{[]byte("a\x00\xff"), time.Second, "a\x00\xff\nzkgrant-timeout 1000ms\n"},
		{[]byte("zkgrant-timeout 5ms\n"), time.Second, "zkgrant-timeout 5ms\n\nzkgrant-timeout 1000ms\n"},
		{nil, math.MaxInt32 * time.Millisecond, "zkgrant-timeout 2147483647ms\n"},
	} {
		data := withTimeout(c.user, c.timeout)
		expect(t, string(data) == c.data && len(data) <= len(c.user)+TimeoutSize,
			"%q with %v is written as %q, want %q", c.user, c.timeout, data, c.data)
		if user, timeout := splitTimeout(data); !same(user, c.user) || timeout != c.timeout {
			t.Errorf("%q is read as %q, %v; want %q, %v", data, user, timeout, c.user, c.timeout)
		}
		for node, want := range map[string][]byte{revocableNode: c.user, plainNode: data, curatorsNode: data, "task": data} {
			asked := within(3 * time.Second).data(data)
			for _, text := range [][]byte{data, asked} {
				got := UserData(node, text)
				expect(t, same(got, want), "of %s with %q, %q is shown, want %q", node, text, got, want)
			}
			named := c.timeout
			if node != revocableNode {
				named = 0
			}
			_, rest := read(asked)
			equal(t, timeoutIn(node, rest), named, "the timeout that %s names, which is asked for", node)
		}
	}
}

// TestTheDataThatAreShownCannotReachTheLine: appending to the user's data does not change
// the line after them, which a second reader may still read.
func TestTheDataThatAreShownCannotReachTheLine(t *testing.T) {
	data := withTimeout([]byte("job"), time.Second)
	user, _ := splitTimeout(data)
	_ = append(user, "xxxxxx"...)
	_, timeout := splitTimeout(data)
	equal(t, timeout, time.Second, "after an append to what is shown, the timeout of the node")
}

func FuzzTimeoutLine(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "job", "__REVOKE__", "__REVOKE__ 5\njob", "zkgrant-timeout 5ms\n", "\nzkgrant-timeout 0ms\n",
		"a\nzkgrant-timeout 30000ms\n",
		// These have no timeout.
		"zkgrant-timeout", "zkgrant-timeout \n", "zkgrant-timeout ms\n", "zkgrant-timeout 5ms", "zkgrant-timeout 5\n",
		"zkgrant-timeout 5s\n", "zkgrant-timeout -5ms\n", "zkgrant-timeout +5ms\n", "zkgrant-timeout 05ms\n",
		"zkgrant-timeout -0ms\n", "zkgrant-timeout 2147483648ms\n", "zkgrant-timeout 5ms\nmore",
		"zkgrant-timeout 5ms\n\n", "job 17zkgrant-timeout 5ms\n", "job 17\n zkgrant-timeout 5ms\n",
		"job 17\nzkgrant-timeout  5ms\n",
	} {
		f.Add([]byte(seed), int32(30000), true)
		f.Add([]byte(seed), int32(0), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, millis int32, stored bool) {
		millis = max(millis, 0)
		if !stored && len(data) == 0 {
			data = nil
		}
		before, timeout := bytes.Clone(data), time.Duration(millis)*time.Millisecond
		line := withTimeout(data, timeout)
		if user, got := splitTimeout(line); !same(user, data) || got != timeout {
			t.Errorf("%q with %v is read as %q, %v", data, timeout, user, got)
		}
		requested := within(time.Second).data(line)
		user := UserData(revocableNode, requested)
		expect(t, same(user, data), "%q under a revocation is shown as %q, want %q", requested, user, data)
		user, got := splitTimeout(data)
		reads := got > 0 || !same(user, data)
		if reads && !bytes.Equal(withTimeout(user, got), data) || got > math.MaxInt32*time.Millisecond {
			t.Errorf("%q is read as %q, %v, which is not written like that", data, user, got)
		}
		expect(t, bytes.Equal(before, data), "%q was changed to %q", before, data)
	})
}

// TestTheTimeOfARecord is one that JSON takes, or zero.
func TestTheTimeOfARecord(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-01T00:00:00+24:00": "2025-12-31T00:00:00Z", "9999-12-31T23:59:59-01:00": "0001-01-01T00:00:00Z",
		"0000-01-01T00:00:00+01:00": "0001-01-01T00:00:00Z", "yesterday": "0001-01-01T00:00:00Z",
	} {
		_, since, _ := ParseRecord([]byte("zkgrant holder\nnode n\nsince " + text + "\n"))
		got, err := json.Marshal(since)
		eventstest.Check(t, err)
		eventstest.Equal(t, string(got), strconv.Quote(want), "the time %q", text)
	}
}

// TestARecordNamesANode: a text that is no name would become part of a path.
func TestARecordNamesANode(t *testing.T) {
	for name, want := range map[string]bool{
		"lock-0000000001": true, strings.Repeat("n", 1<<10): true, strings.Repeat("n", 1<<20): false,
		"": false, ".": false, "..": false, "../a": false, "a/b": false, "a\x00": false, "a\r": false,
	} {
		node, _, ok := ParseRecord([]byte("zkgrant holder\nnode " + name + "\n\n"))
		expect(t, ok == want && (!ok || node == name),
			"a record with %.20q is read as %.20q, %v; want %v", name, node, ok, want)
	}
	_, _, ok := ParseRecord([]byte("zkgrant holder\ntoken 0x7\n\n"))
	expect(t, !ok, "a record without a name is read, want none")
}

// FuzzRecord checks that any data either parse as a record or are refused.
func FuzzRecord(f *testing.F) {
	f.Add([]byte("zkgrant holder\nnode n\ntoken 0x7\nsince 2026-02-28T23:59:59Z\n\ndata"))
	f.Add([]byte("zkgrant holder\nnode n\ndelay 15s\nmarked 7\ntaken 0x9 m\n\n"))
	f.Add([]byte("zkgrant holder\nmarked\ndelay -1s\ntaken  \n"))
	f.Add([]byte("zkgrant holder\nnode n\nsince 2026-01-01T00:00:00+24:00\n"))
	f.Add([]byte("zkgrant holder\nnode n\nsince 9999-12-31T23:59:59-01:00\n"))
	f.Add([]byte("zkgrant holder\nnode n\nsince 0000-01-01T00:00:00+01:00\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		first, ok := parseHolding(text)
		if !ok {
			return
		}
		_, err := json.Marshal(first.since)
		eventstest.Check(t, err)
		again, ok := parseHolding(first.bytes())
		if !ok || again.token != first.token || !bytes.Equal(again.data, first.data) || again.lockDelay != first.lockDelay {
			t.Errorf("%+v, written and read again, is %+v; want the same", first, again)
		}
	})
}

// TestNoNodeOfKazooGetsNoData: kazoo omits contenders whose data is null, not those whose
// data is empty.
func TestNoNodeOfKazooGetsNoData(t *testing.T) {
	s := &Session{}
	if got := s.Rewrite("/a/0123456789abcdef0123456789abcdef__lock__0000000001", nil).Data; got == nil || len(got) > 0 {
		t.Errorf("the data become %q (nil: %t), want empty ones", got, got == nil)
	}
}
