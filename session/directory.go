package session

import (
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// mostDirectories bounds how many directories a client remembers. A directory that it
// does not remember costs a round trip.
const mostDirectories = 1 << 16

// directories holds the books of one client, by directory. It is safe for concurrent use.
// Package recipes decides what the books say.
type directories struct {
	mu    sync.Mutex
	known map[string]recipes.DirectoryBook
	sizes map[string]sizeRead                   // by the path of the size node
	left  map[string]recipes.LeaverBook[string] // only of directories in which a seat of ours had to wait
}

func newDirectories() *directories {
	return &directories{known: map[string]recipes.DirectoryBook{}, sizes: map[string]sizeRead{}, left: map[string]recipes.LeaverBook[string]{}}
}

// book returns what is known of the directory.
func (d *directories) book(dir string) recipes.DirectoryBook {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[dir]
}

// saw takes a Stat of the directory. It reports whether reading the data could tell
// something new.
func (d *directories) saw(dir string, stat *zk.Stat) (unknown bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, unknown := d.known[dir].Saw(stat.Czxid, stat.NumChildren, stat.DataLength)
	keep(d.known, dir, b)
	return unknown
}

// read takes the directory's data, and returns what they say.
func (d *directories) read(dir string, data []byte, stat *zk.Stat) recipes.DirectoryData {
	d.mu.Lock()
	defer d.mu.Unlock()
	says := recipes.ParseDirectoryData(data)
	keep(d.known, dir, d.known[dir].Read(says, stat.Czxid))
	return says
}

// made notes that the session has made the directory, with our marker. The zxid is 0 if
// it is not known.
func (d *directories) made(dir string, czxid int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if czxid != 0 {
		keep(d.known, dir, d.known[dir].Read(recipes.DirectoryData{Ours: true}, czxid))
	}
}

// learn takes what an answer has said of the directory.
func (d *directories) learn(dir string, m recipes.Meaning) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep(d.known, dir, m.Book(d.known[dir]))
}

// fewer notes that so many nodes have left the directory.
func (d *directories) fewer(dir string, nodes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep(d.known, dir, d.known[dir].Fewer(int32(nodes)))
}

// sizeRead is the content of a semaphore's size node, or the zero value.
type sizeRead struct{ size, version int32 }

// size returns what was last read of the size node.
func (d *directories) size(node string) sizeRead {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sizes[node]
}

// sized notes the content of the size node.
func (d *directories) sized(node string, s sizeRead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep(d.sizes, node, s)
}

// forget notes that there is no such directory.
func (d *directories) forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, dir)
}

// leaves notes that a seat of ours gives its node up.
func (d *directories) leaves(dir, node string, floor bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep(d.left, dir, d.left[dir].Leaves(node, floor))
}

// removed notes that the node is gone.
func (d *directories) removed(dir, node string, floor bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep(d.left, dir, d.left[dir].Removed(node, floor))
}

// isFree reports whether no contender is ahead of a seat that has seen the node past go,
// see [recipes.LeaverBook.Free].
func (d *directories) isFree(dir, past, next string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left[dir].Free(past, next)
}

// keep puts a book into one of the maps. The map does not grow beyond its bound, and
// holds no empty book. It is called with mu held.
func keep[B comparable](books map[string]B, dir string, b B) {
	var empty B
	if b == empty {
		delete(books, dir)
		return
	}
	if _, known := books[dir]; !known && len(books) >= mostDirectories {
		for other := range books { // any one
			delete(books, other)
			break
		}
	}
	books[dir] = b
}
