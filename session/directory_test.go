package session

import (
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
)

func TestParseFloor(t *testing.T) {
	for _, c := range []struct {
		data  string
		floor int64
		ours  bool
	}{
		{string(marker()), 0, true},
		{string(floorData(1)), 1, true},
		{string(floorData(0x7fff_ffff_ffff_ffff)), 0x7fff_ffff_ffff_ffff, true},
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
	} {
		if floor, ours := parseFloor([]byte(c.data)); floor != c.floor || ours != c.ours {
			t.Errorf("%q: floor %#x, ours %v; want %#x, %v", c.data, floor, ours, c.floor, c.ours)
		}
	}
}

// What is known of a directory ends as soon as there is another one by its name.
func TestADirectoryIsKnownByItsCreation(t *testing.T) {
	const dir = "/locks/a"
	stat := func(czxid int64, children int32) *zk.Stat {
		return &zk.Stat{Czxid: czxid, NumChildren: children, DataLength: int32(len(magic))}
	}
	d := newDirectories()
	if d.writable(dir) != 0 || d.markable(dir) != 0 {
		t.Errorf("a directory that nobody has seen may be written in %d and marked in %d, want neither", d.writable(dir), d.markable(dir))
	}
	if !d.saw(dir, stat(7, 1)) {
		t.Error("the data of a new directory are not worth a look, want one")
	}
	d.read(dir, []byte("theirs"), stat(7, 1))
	if d.writable(dir) != 0 {
		t.Error("a directory with somebody's data may be written, want it left alone")
	}
	d.read(dir, marker(), stat(7, 1))
	if d.writable(dir) != 7 || d.saw(dir, stat(7, 2)) || d.markable(dir) != 0 {
		t.Errorf("our directory may be written in %d and marked, with two in it, in %d; want 7 and 0", d.writable(dir), d.markable(dir))
	}
	if d.saw(dir, stat(7, 1)); d.markable(dir) != 7 {
		t.Errorf("our directory may be marked, with one in it, in %d; want 7", d.markable(dir))
	}
	d.shut(dir)
	if d.writable(dir) != 0 || d.saw(dir, stat(7, 1)) {
		t.Error("a directory that was shut may be written or is worth a look, want neither")
	}
	d.read(dir, marker(), stat(7, 1))
	if d.writable(dir) != 0 {
		t.Error("a directory that was shut may be written when its data are read, want it shut")
	}
	if !d.saw(dir, stat(8, 1)) {
		t.Error("the data of another directory by the name are not worth a look, want one")
	}
	d.read(dir, marker(), stat(8, 1))
	if d.writable(dir) != 8 {
		t.Errorf("the other directory may be written in %d, want 8", d.writable(dir))
	}
	d.forget(dir)
	if d.writable(dir) != 0 {
		t.Error("a directory that was forgotten may be written, want it unknown")
	}
}

func TestDirectoriesAreNotRememberedWithoutBound(t *testing.T) {
	d := newDirectories()
	for i := range mostDirectories + 1000 {
		d.read(fmt.Sprint("/locks/", i), marker(), &zk.Stat{Czxid: 1})
	}
	if n := len(d.known); n != mostDirectories {
		t.Errorf("%d directories are remembered, want %d", n, mostDirectories)
	}
	if last := fmt.Sprint("/locks/", mostDirectories+999); d.writable(last) != 1 {
		t.Error("the latest directory is forgotten, want it among those that are remembered")
	}
}
