package session

import (
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

func TestDirectoriesAreNotRememberedWithoutBound(t *testing.T) {
	d := newDirectories()
	for i := range mostDirectories + 1000 {
		d.read(fmt.Sprint("/locks/", i), recipes.Marker(), &zk.Stat{Czxid: 1})
	}
	if n := len(d.known); n != mostDirectories {
		t.Errorf("%d directories are remembered, want %d", n, mostDirectories)
	}
	if last := fmt.Sprint("/locks/", mostDirectories+999); d.book(last).Writable() != 1 {
		t.Error("the latest directory is forgotten, want it among those that are remembered")
	}
}

func TestAnEmptyBookIsNotKept(t *testing.T) {
	d := newDirectories()
	d.read("/locks/a", recipes.Marker(), &zk.Stat{Czxid: 1})
	d.learn("/locks/a", recipes.Meaning{Note: recipes.NoteGone})
	if len(d.known) != 0 {
		t.Errorf("%v are kept, want nothing", d.known)
	}
}

func newDirectories() *directories {
	return &directories{known: map[string]recipes.DirectoryBook{}, sizes: map[string]sizeRead{}, left: map[string]recipes.LeaverBook[string]{}}
}
