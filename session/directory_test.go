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
	equal(t, len(d.known), mostDirectories, "remembered directories")
	latest := d.book(fmt.Sprint("/locks/", mostDirectories+999))
	expect(t, latest.Writable() == 1, "the latest directory is forgotten, want it remembered")
	d = newDirectories() // keeps no empty book
	d.read("/locks/a", recipes.Marker(), &zk.Stat{Czxid: 1})
	d.learn("/locks/a", recipes.Meaning{Note: recipes.NoteGone})
	expect(t, len(d.known) == 0, "%v are kept, want nothing", d.known)
}

func newDirectories() *directories {
	return &directories{known: map[string]recipes.DirectoryBook{}, sizes: map[string]sizeRead{}, left: map[string]recipes.LeaverBook[string]{}}
}
