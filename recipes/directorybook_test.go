package recipes

import "testing"

func TestParseDirectoryData(t *testing.T) {
	for _, c := range []struct {
		data  string
		floor int64
		ours  bool
	}{
		{string(Marker()), 0, true},
		{string(FloorData(1)), 1, true},
		{string(FloorData(0x7fff_ffff_ffff_ffff)), 0x7fff_ffff_ffff_ffff, true},
		{"zkgrant\nfloor 0x1f", 0x1f, true},
		{"zkgrant\nfloor 0x", 0, true},
		{"zkgrant\nfloor 0xffffffffffffffffff\n", 0, true},
		{"zkgrant\nfloor 0x1f more\n", 0, true},
		{"zkgrant\nsomething of a later version\n", 0, true},
		{"", 0, false},
		{"zkgrant", 0, false},
		{"zkgrant's notes\n", 0, false},
		{" zkgrant\n", 0, false},
		{"floor 0x1f\n", 0, false},
		{"xzkgrant\nfloor 0x1f\n", 0, false},
	} {
		if got, want := ParseDirectoryData([]byte(c.data)), (DirectoryData{c.ours, c.floor}); got != want {
			t.Errorf("%q says %+v, want %+v", c.data, got, want)
		}
	}
}

func TestAFloorNamesOneNode(t *testing.T) {
	for _, c := range []struct {
		floor, node int64
		want        bool
	}{{5, 5, true}, {5, 6, false}, {0, 0, false}, {5, 0, false}, {0, 5, false}} {
		if got := (DirectoryData{true, c.floor}).Names(c.node); got != c.want {
			t.Errorf("the floor %d names node %d: %v", c.floor, c.node, got)
		}
	}
}

// A page is one event in the life of a directory's book.
type page struct {
	kind     byte // s: a Stat is seen; o, t: the data are read, and are ours or theirs; x: they may not be written
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
		b = b.Shut()
	}
	return b
}

// TestADirectoryIsKnownByItsCreation goes through all histories of two directories of the same name.
func TestADirectoryIsKnownByItsCreation(t *testing.T) {
	pages := []page{{'s', 7, 1}, {'s', 7, 2}, {'s', 8, 1}, {'s', 8, 2}, {'o', 7, 0}, {'o', 8, 0}, {'t', 7, 0}, {'t', 8, 0}, {'x', 0, 0}}
	var visit func(b DirectoryBook, history []page)
	visit = func(b DirectoryBook, history []page) {
		writable, markable := b.Writable(), b.Markable()
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

// mayWrite returns the directory that may be written after a history, or 0, and whether a create in it may expect to be alone: 1 or
// 0.
func mayWrite(history []page) (czxid, alone int64) {
	shut := false
	alone = 1
	for _, p := range history {
		switch {
		case p.kind == 't', p.kind == 's' && czxid != 0 && czxid != p.czxid:
			czxid, shut, alone = 0, false, 1
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
	if none, three := (DirectoryBook{}).Children(), b.Children(); none != 0 || three != 3 {
		t.Errorf("%d and %d nodes, want 0 and 3", none, three)
	}
}

// TestOnlyAHolderThatLeftMakesAPlaceFree goes through all histories of three contenders of a session.
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
