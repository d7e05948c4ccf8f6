package session

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

func TestWishesAreReadAsTheyAreWritten(t *testing.T) {
	for _, c := range []struct {
		data    string
		stands  bool
		bounded bool
		grace   time.Duration
		user    string
	}{
		{"", false, false, 0, ""},
		{"job 17", false, false, 0, "job 17"},
		{"__REVOKE__", true, false, 0, ""},
		{"__REVOKE__ 0\n", true, true, 0, ""},
		{"__REVOKE__ 1500\njob 17", true, true, 1500 * time.Millisecond, "job 17"},
		{"__REVOKE__ 1500\na\nb", true, true, 1500 * time.Millisecond, "a\nb"},
		{"__REVOKE__ 1500\n__REVOKE__", true, true, 1500 * time.Millisecond, "__REVOKE__"},
		{"__REVOKE__ 9223372036854775807\nx", true, true, mostGrace, "x"},
		{"__REVOKE__ 9223372036854775808\nx", false, false, 0, "__REVOKE__ 9223372036854775808\nx"},
		{"__REVOKE__ -5\nx", false, false, 0, "__REVOKE__ -5\nx"},
		{"__REVOKE__ +5\nx", false, false, 0, "__REVOKE__ +5\nx"},
		{"__REVOKE__ \nx", false, false, 0, "__REVOKE__ \nx"},
		{"__REVOKE__\nx", false, false, 0, "__REVOKE__\nx"},
		{"__REVOKE__5\nx", false, false, 0, "__REVOKE__5\nx"},
		{"__REVOKE__ 5", false, false, 0, "__REVOKE__ 5"},
		{"__REVOKE__ 5ms\nx", false, false, 0, "__REVOKE__ 5ms\nx"},
		{" __REVOKE__", false, false, 0, " __REVOKE__"},
	} {
		w, user := read([]byte(c.data))
		if want := (wish{c.stands, c.bounded, c.grace}); w != want || string(user) != c.user || string(UserData("lock-0000000001", []byte(c.data))) != c.user {
			t.Errorf("%q: %+v, %q; want %+v, %q", c.data, w, user, want, c.user)
		}
		if w.stands && w.grace < mostGrace && !bytes.Equal(w.data(user), []byte(c.data)) {
			t.Errorf("the data are written again as %q, want %q", w.data(user), c.data)
		}
		if w.stands && !Reserved([]byte(c.data)) {
			t.Errorf("%q is free for callers, want it reserved", c.data)
		}
	}
}

func TestAGraceIsKeptInMilliseconds(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{
		-1: 0, 0: 0, 1: time.Millisecond, time.Millisecond: time.Millisecond, time.Millisecond + 1: 2 * time.Millisecond,
		math.MaxInt64: mostGrace, time.Hour: time.Hour,
	} {
		if got := within(grace); got.grace != want || !got.bounded || !got.stands {
			t.Errorf("within %v: %+v, want %v", grace, got, want)
		}
	}
}

// TestAWishIsWrittenIfItSaysSomethingNew checks when the data of a node are written anew.
func TestAWishIsWrittenIfItSaysSomethingNew(t *testing.T) {
	none, curators := wish{}, wish{stands: true}
	for _, c := range []struct {
		want, standing wish
		asked          bool
		adds           bool
	}{
		{within(5), none, false, true},
		{within(5), none, true, true},
		{within(5), curators, false, true},
		{within(5), curators, true, true},
		{within(time.Second), within(time.Second), false, false},
		{within(time.Second), within(time.Minute), false, true},
		{within(time.Minute), within(time.Second), false, false},
		{within(time.Second), within(time.Minute), true, false},
		{curators, none, false, true},
		{curators, none, true, true},
		{curators, curators, false, false},
		{curators, within(5), false, false},
	} {
		if got := c.want.adds(c.standing, c.asked); got != c.adds {
			t.Errorf("%+v beside %+v, asked %v: %v", c.want, c.standing, c.asked, got)
		}
	}
}

// TestWatchesKnowTheSoonestWish that was read at a path, also for a seat that reads it anew.
func TestWatchesKnowTheSoonestWish(t *testing.T) {
	c, seat := &client{}, &Seat{}
	_, ticket := c.watches.Ask("/a", seat)
	c.watches.Answered("/a", ticket, true)
	if _, wished := c.requestIn("/a"); wished || c.wish("/a", 0) != 0 {
		t.Error("there is a time before any was set, want none")
	}
	for _, e := range []struct{ by, want int64 }{{9, 9}, {12, 9}, {0, 9}, {5, 5}, {6, 5}} {
		if got := int64(c.wish("/a", recipes.Moment(e.by))); got != e.want {
			t.Errorf("by %d: %d, want %d", e.by, got, e.want)
		}
		if by, wished := c.requestIn("/b", "/a"); !wished || int64(by) != e.want {
			t.Errorf("the wish is by %d (%v), want %d", by, wished, e.want)
		}
	}
	c.watches.Changed("/a")
	if _, wished := c.requestIn("/a"); wished {
		t.Error("after a change there is a wish, want none: what stands there is unknown")
	}
	_, ticket = c.watches.Ask("/a", nil)
	c.watches.Answered("/a", ticket, true)
	if by := c.wish("/a", 7); by != 5 {
		t.Errorf("read anew, the wish is by %d, want 5", by)
	}
	c.watches.Unnote("/a")
	if _, wished := c.requestIn("/a"); wished || c.wish("/a", 7) != 7 {
		t.Error("a wish that was taken back is there, want it gone")
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
		if string(data) != c.data || len(data) > len(c.user)+TimeoutSize {
			t.Errorf("%q with %v is written as %q, want %q", c.user, c.timeout, data, c.data)
		}
		if user, timeout := splitTimeout(data); !same(user, c.user) || timeout != c.timeout {
			t.Errorf("%q is read as %q, %v; want %q, %v", data, user, timeout, c.user, c.timeout)
		}
		for node, want := range map[string][]byte{revocableNode: c.user, plainNode: data, curatorsNode: data, "task": data} {
			if got := UserData(node, data); !same(got, want) {
				t.Errorf("of %s %q is shown, want %q", node, got, want)
			}
			asked := within(3 * time.Second).data(data)
			if got := UserData(node, asked); !same(got, want) {
				t.Errorf("of %s, which is asked for, %q is shown, want %q", node, got, want)
			}
			named := c.timeout
			if node != revocableNode {
				named = 0
			}
			if _, rest := read(asked); timeoutIn(node, rest) != named {
				t.Errorf("%s, which is asked for, names %v, want %v", node, timeoutIn(node, rest), named)
			}
		}
	}
}

func TestDataWithoutATimeoutAreTheUsers(t *testing.T) {
	for _, data := range [][]byte{
		nil, {}, []byte("job 17"), []byte("\n"), []byte("zkgrant-timeout"), []byte("zkgrant-timeout \n"), []byte("zkgrant-timeout ms\n"),
		[]byte("zkgrant-timeout 5ms"), []byte("zkgrant-timeout 5\n"), []byte("zkgrant-timeout 5s\n"), []byte("zkgrant-timeout -5ms\n"),
		[]byte("zkgrant-timeout +5ms\n"), []byte("zkgrant-timeout 05ms\n"), []byte("zkgrant-timeout -0ms\n"),
		[]byte("zkgrant-timeout 2147483648ms\n"), []byte("zkgrant-timeout 5ms\nmore"), []byte("zkgrant-timeout 5ms\n\n"),
		[]byte("job 17zkgrant-timeout 5ms\n"), []byte("job 17\n zkgrant-timeout 5ms\n"), []byte("job 17\nzkgrant-timeout  5ms\n"),
	} {
		if user, timeout := splitTimeout(data); !same(user, data) || timeout != 0 {
			t.Errorf("%q is read as %q, %v; want all of it, and no timeout", data, user, timeout)
		}
	}
}

// TestTheDataThatAreShownCannotReachTheLine behind them, which a second reader may still read.
func TestTheDataThatAreShownCannotReachTheLine(t *testing.T) {
	data := withTimeout([]byte("job"), time.Second)
	user, _ := splitTimeout(data)
	_ = append(user, "xxxxxx"...)
	if _, timeout := splitTimeout(data); timeout != time.Second {
		t.Errorf("after an append to what is shown the node says %q, want its timeout as it was", data)
	}
}

func FuzzTimeoutLine(f *testing.F) {
	for _, seed := range []string{"", "\n", "job", "__REVOKE__", "__REVOKE__ 5\njob", "zkgrant-timeout 5ms\n", "\nzkgrant-timeout 0ms\n", "a\nzkgrant-timeout 30000ms\n"} {
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
		wished := within(time.Second).data(line)
		if user := UserData(revocableNode, wished); !same(user, data) {
			t.Errorf("%q under a wish is shown as %q, want %q", wished, user, data)
		}
		if user, got := splitTimeout(data); got > 0 && !bytes.Equal(withTimeout(user, got), data) || got == 0 && len(user) > len(data) {
			t.Errorf("%q is read as %q, %v, which is not written like that", data, user, got)
		}
		if !bytes.Equal(before, data) {
			t.Errorf("%q was changed to %q", before, data)
		}
	})
}

// FuzzRecord: any data are read as a record, or are no record.
func FuzzRecord(f *testing.F) {
	f.Add([]byte("zkgrant holder\nnode n\ntoken 0x7\nsince 2026-02-28T23:59:59Z\n\ndata"))
	f.Add([]byte("zkgrant holder\nnode n\ndelay 15s\nmarked 7\ntaken 0x9 m\n\n"))
	f.Add([]byte("zkgrant holder\nmarked\ndelay -1s\ntaken  \n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		first, ok := parseHolding(text)
		if !ok || first.since.Year() > 9999 {
			return
		}
		again, ok := parseHolding(first.bytes())
		if !ok || again.token != first.token || !bytes.Equal(again.data, first.data) || again.lockDelay != first.lockDelay {
			t.Errorf("%+v, written and read again, is %+v; want the same", first, again)
		}
	})
}
