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

// TestAWishIsWrittenIfItSaysSomethingNew holds when the data of a node are written anew.
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

// TestWatchesKnowTheSoonestWish that was read at a path, also by somebody who reads it anew.
func TestWatchesKnowTheSoonestWish(t *testing.T) {
	w, seat := newWatches(), &Seat{}
	w.note("/a", seat)
	if _, wished := w.wished("/a"); wished || w.wish("/a", 0) != 0 {
		t.Error("there is a time that nobody has set, want none")
	}
	for _, c := range []struct{ by, want int64 }{{9, 9}, {12, 9}, {0, 9}, {5, 5}, {6, 5}} {
		if got := int64(w.wish("/a", recipes.Moment(c.by))); got != c.want {
			t.Errorf("by %d: %d, want %d", c.by, got, c.want)
		}
		if by, wished := w.wished("/b", "/a"); !wished || int64(by) != c.want {
			t.Errorf("the wish is by %d (%v), want %d", by, wished, c.want)
		}
	}
	w.changed("/a")
	if _, wished := w.wished("/a"); wished {
		t.Error("after a change there is a wish, want none: nobody knows what stands there")
	}
	w.note("/a", nil)
	if by := w.wish("/a", 7); by != 5 {
		t.Errorf("read anew, the wish is by %d, want 5", by)
	}
	w.unwish("/a")
	if _, wished := w.wished("/a"); wished || w.wish("/a", 7) != 7 {
		t.Error("a wish that was taken back is there, want it gone")
	}
	w.gone("/a")
	if len(w.wishes) > 0 || len(w.paths) > 0 {
		t.Errorf("of a path that is gone %v and %v are left, want nothing", w.wishes, w.paths)
	}
	if w.wish("/nobody's", 7); len(w.wishes) > 0 {
		t.Errorf("of a path that nobody watches %v is left, want nothing", w.wishes)
	}
}
