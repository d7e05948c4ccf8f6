package recipes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// This file tests the books of a session in all histories up to some length.

func TestParseDirectoryData(t *testing.T) {
	for _, c := range []struct {
		data  string
		floor int64
		ours  bool
	}{
		{string(Marker()), 0, true}, {string(floorData(1)), 1, true},
		{string(floorData(0x7fff_ffff_ffff_ffff)), 0x7fff_ffff_ffff_ffff, true},
		{"zkgrant\nfloor 0x1f", 0x1f, true}, {"zkgrant\nfloor 0x", 0, true},
		{"zkgrant\nfloor 0xffffffffffffffffff\n", 0, true}, {"zkgrant\nfloor 0x1f more\n", 0, true},
		{"zkgrant\nsomething of a later version\n", 0, true},
		{"", 0, false}, {"zkgrant", 0, false}, {"zkgrant's notes\n", 0, false}, {" zkgrant\n", 0, false},
		{"floor 0x1f\n", 0, false}, {"xzkgrant\nfloor 0x1f\n", 0, false},
	} {
		got := ParseDirectoryData([]byte(c.data))
		eventstest.Equal(t, got, DirectoryData{c.ours, c.floor}, "what %q says", c.data)
	}
}

func TestAFloorNamesOneNode(t *testing.T) {
	for _, c := range [][2]int64{{5, 5}, {5, 6}, {0, 0}, {5, 0}, {0, 5}} {
		got := DirectoryData{true, c[0]}.Names(c[1])
		eventstest.Equal(t, got, c == [2]int64{5, 5}, "the floor %d names node %d", c[0], c[1])
	}
}

// A page is one entry in a directory's book.
type page struct {
	kind     byte // s: a Stat arrives; o, t: the data are read, and are ours or theirs; x: they may not be written
	czxid    int64
	children int32
}

func (p page) enter(b DirectoryBook) DirectoryBook {
	switch p.kind {
	case 's':
		b, _ = b.Saw(p.czxid, p.children, int32(len(magic)))
	case 'o', 't':
		b = b.Read(DirectoryData{Ours: p.kind == 'o'}, p.czxid)
	default:
		b = b.shut()
	}
	return b
}

// TestADirectoryIsKnownByItsCreation goes through all histories of two directories with
// the same name.
func TestADirectoryIsKnownByItsCreation(t *testing.T) {
	pages := []page{{'s', 7, 1}, {'s', 7, 2}, {'s', 8, 1}, {'s', 8, 2}, {'o', 7, 0}, {'o', 8, 0}, {'t', 7, 0}, {'t', 8, 0}, {'x', 0, 0}}
	var visit func(b DirectoryBook, history []page)
	visit = func(b DirectoryBook, history []page) {
		writable, markable := b.Writable(), b.markable()
		_, worth := b.Saw(7, 1, int32(len(magic)))
		_, short := b.Saw(7, 1, int32(len(magic))-1)
		may, alone := mayWrite(history)
		if writable != may || markable != may*alone {
			t.Fatalf("%v: writable %d, markable %d, want %d, %d", history, writable, markable, may, may*alone)
		}
		if short || worth && writable == 7 || !worth && writable == 8 {
			t.Fatalf("%v: the data of 7 are worth a look: %v, and too short ones: %v", history, worth, short)
		}
		if len(history) < 5 {
			for _, p := range pages {
				visit(p.enter(b), append(history, p))
			}
		}
	}
	visit(DirectoryBook{}, nil)
}

// mayWrite returns the directory that may be written after a history, or 0, and whether a
// create in it may expect to be alone: 1 or 0.
func mayWrite(history []page) (czxid, alone int64) {
	shut := false
	alone = 1
	for _, p := range history {
		switch {
		case p.kind == 't', p.kind == 's' && czxid != 0 && czxid != p.czxid:
			czxid, shut = 0, false
		case p.kind == 'o':
			czxid = p.czxid
		case p.kind == 'x':
			shut = true
		}
		if p.kind == 's' {
			alone = int64(2 - p.children)
		}
	}
	if shut {
		czxid = 0
	}
	return czxid, alone
}

func TestADirectoryBookCounts(t *testing.T) {
	b, _ := DirectoryBook{}.Saw(7, 3, 0)
	eventstest.Equal(t, DirectoryBook{}.Children(), 0, "nodes in an empty book")
	eventstest.Equal(t, b.Children(), 3, "nodes")
	eventstest.Equal(t, b.Read(DirectoryData{}, 7).Children(), 3, "nodes in another program's directory")
}

// TestOnlyAHolderThatLeftMakesAPlaceFree goes through all histories of three contenders
// of a session.
func TestOnlyAHolderThatLeftMakesAPlaceFree(t *testing.T) {
	var visit func(b LeaverBook[byte], history string, left, removed byte)
	visit = func(b LeaverBook[byte], history string, left, removed byte) {
		for past := byte('a'); past <= 'd'; past++ {
			for next := byte('a'); next <= 'd'; next++ {
				if got, want := b.Free(past, next), past == left || next == removed; got != want {
					t.Fatalf("after %q, %c gone and %c next: free %v, want %v", history, past, next, got, want)
				}
			}
		}
		if len(history) == 12 {
			return
		}
		for _, who := range []byte("abc") {
			name := string(who)
			visit(b.Leaves(who, true), history+" l"+name, who, removed)
			visit(b.Leaves(who, false), history+" g"+name, left, removed)
			visit(b.Removed(who, true), history+" r"+name, left, who)
			visit(b.Removed(who, false), history+" R"+name, left, removed)
		}
	}
	visit(LeaverBook[byte]{}, "", 0, 0)
}

// TestWhatEndsTheClaimToANode tries each input about a node that its contender may
// receive.
func TestWhatEndsTheClaimToANode(t *testing.T) {
	own := Own{Name: events.Name{Text: "lock"}, Owner: 7, Token: 5}
	for _, c := range []struct {
		in   Input
		ends bool
	}{
		{Created{}, false}, {Unknown{Op: OpCreate}, false}, {Unknown{Op: OpDelete}, false}, {Occupied{}, true},
		{Refused{Op: OpCreate}, true}, {Refused{Op: OpCreate, Missing: true}, true},
		{Listed{Own: own}, false}, {Listed{}, true}, {Refused{Op: OpList}, false},
		{Claimed{}, false}, {Refused{Op: OpClaim}, false}, {Refused{Op: OpClaim, Missing: true}, true},
		{Deleted{}, true}, {Refused{Op: OpDelete}, true}, {Gone{}, true}, {Canceled{}, false},
	} {
		book, _ := OwnerBook[byte]{}.Enter('a')
		eventstest.Equal(t, book.Heard('a', c.in, 5).Owner == 0, c.ends, "%+v ends the claim", c.in)
		eventstest.Equal(t, book.Heard('b', c.in, 5), book, "%+v, heard by another contender", c.in)
	}
}

// TestOneOwnerAtAPath goes through all histories of two contenders of a session at one
// path. In each history, the owner is the first contender to enter since the last owner
// left.
func TestOneOwnerAtAPath(t *testing.T) {
	var visit func(b OwnerBook[byte], history string, owner byte, past int64)
	visit = func(b OwnerBook[byte], history string, owner byte, past int64) {
		for _, who := range []byte("ab") {
			for _, czxid := range []int64{5, 6} {
				if got, want := b.Owns(who, czxid), who == owner && czxid != past; got != want || b.Owner != owner {
					t.Fatalf("after%s node %d is %c's: %v, want %v; the owner is %q", history, czxid, who, got, want, b.Owner)
				}
			}
		}
		if len(history) > 15 {
			return
		}
		for _, who := range []byte("ab") {
			next, entered := b.Enter(who)
			if free := owner == 0 || owner == who; entered != free || !free && next != b {
				t.Fatalf("after%s %c enters: %v, want %v", history, who, entered, free)
			}
			before, left, stuck := owner, byte(0), past
			if owner == 0 {
				before = who
			}
			if owner != who {
				left = owner
			} else {
				stuck = 5
			}
			visit(next, history+fmt.Sprintf(" e%c", who), before, past)
			visit(b.Leave(who), history+fmt.Sprintf(" l%c", who), left, past)
			visit(b.Heard(who, Deleted{}, 5), history+fmt.Sprintf(" d%c", who), left, past)
			visit(b.Heard(who, Refused{Op: OpDelete}, 5), history+fmt.Sprintf(" r%c", who), left, stuck)
		}
	}
	visit(OwnerBook[byte]{}, "", 0, 0)
}

// ends are the ways in which a holder of a lock with a record can leave.
var ends = []Withdrawn{
	{WhyReleased, true, false}, {WhyReleased, false, false}, {WhyPanicked, true, true}, {WhyClosed, true, true}, {WhyLost, true, false},
	{WhyLost, false, false},
}

// TestTheLastHolderLeavesForAll makes three holders leave, in every way. The machine sees
// only the last one. The record is then deleted if every holder that had taken its Grant
// has released, and also if none had taken it.
func TestTheLastHolderLeavesForAll(t *testing.T) {
	held, _ := run(NewMachine(Mutex{}), crashSituations()["held"]...)
	for _, a := range ends {
		for _, b := range ends {
			for _, c := range ends {
				share := NewShare()
				for range 2 {
					share, _ = share.Enters()
				}
				var heard Withdrawn
				for i, in := range []Withdrawn{a, b, c} {
					var last bool
					if share, heard, last = share.Leaves(in); last != (i == 2) || heard.Ran != in.Ran {
						t.Fatalf("%v %v %v: holder %d is the last: %v, and of a function: %v", a, b, c, i, last, heard.Ran)
					}
				}
				clean := true
				for _, in := range []Withdrawn{a, b, c} {
					clean = clean && (!in.Taken || in.Why == WhyReleased)
				}
				want := map[bool]string{true: "delete #5 and the record", false: "delete #5"}[clean]
				_, effects := after(held, heard)
				got := strings.TrimSuffix(texts(effects), `, END "lost"`)
				eventstest.Equal(t, got, want, "%v %v %v: the machine hears %v and does", a, b, c, heard)
			}
		}
	}
}

// TestSharesInEveryOrder: a contender enters as long as there is a holder and the lock is
// not lost, in every order of up to seven steps.
func TestSharesInEveryOrder(t *testing.T) {
	var visit func(s Share, holders int, lost bool, history string)
	visit = func(s Share, holders int, lost bool, history string) {
		if len(history) > 7 {
			return
		}
		next, entered := s.Enters()
		if want := holders > 0 && !lost; entered != want {
			t.Fatalf("after %q a contender enters: %v, want %v", history, entered, want)
		}
		if entered {
			visit(next, holders+1, lost, history+"+")
		}
		visit(s.Lost(), holders, true, history+"!")
		left := max(0, holders-1)
		if next, _, last := s.Leaves(Withdrawn{Why: WhyReleased}); last != (left == 0) {
			t.Fatalf("after %q a holder leaves as the last: %v, want %v", history, last, left == 0)
		} else {
			visit(next, left, lost, history+"-")
		}
	}
	visit(Share{}, 0, false, "")
	visit(NewShare(), 1, false, "1")
}
