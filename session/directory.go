package session

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"
)

// The data of a directory that we made says so, and may say more. It is a line
// with a magic word, and perhaps a second one with a floor: the zxid that created
// a node which left as a holder, so that nobody older than it is left. A node is
// named by that zxid and not by its number, for directories are removed when they
// are empty, and begin with number 0 again.
const (
	magic     = "zkgrant\n"
	floorMark = "floor 0x"
)

// marker is what a directory's data is without a floor.
func marker() []byte { return []byte(magic) }

// floorData is what it is with one.
func floorData(czxid int64) []byte { return fmt.Appendf(nil, "%s%s%x\n", magic, floorMark, czxid) }

// parseFloor reads a directory's data: whether it is one of ours, and its floor, or 0.
func parseFloor(data []byte) (czxid int64, ours bool) {
	rest, ours := bytes.CutPrefix(data, []byte(magic))
	if !ours {
		return 0, false
	}
	text, marked := strings.CutPrefix(string(rest), floorMark)
	if !marked {
		return 0, true
	}
	czxid, err := strconv.ParseInt(strings.TrimSuffix(text, "\n"), 16, 64)
	if err != nil {
		return 0, true // somebody's later form: no floor that we know of
	}
	return czxid, true
}

// mostDirectories bounds what a client remembers. What is not remembered costs a round trip.
const mostDirectories = 1 << 16

// directories is what one client has learnt of the locks' directories. It is safe
// for concurrent use.
//
// Only in a directory that is ours anything is written to the data: a program's
// own data is never touched. A directory is known by the zxid that created it, and
// what is known of it ends as soon as anything shows that there is another one by
// that name.
type directories struct {
	mu    sync.Mutex
	known map[string]directory
	left  map[string]pastHolder // only of those that somebody of ours had to wait in
}

// pastHolder is who was the latest holder of ours in a directory.
type pastHolder struct {
	node    string // of the latest that has let go
	removed string // of the latest that has let go and is known to be gone
}

type directory struct {
	czxid     int64 // of one that is ours; 0 if it is not, or nobody has looked
	closed    bool  // we may not write its data
	contended bool  // somebody else was there the last time
	children  int32 // how many there were then
}

func newDirectories() *directories {
	return &directories{known: map[string]directory{}, left: map[string]pastHolder{}}
}

// writable returns the zxid of the directory if it is ours and its data may be
// written, or 0.
func (d *directories) writable(dir string) (czxid int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := d.known[dir]; !k.closed {
		return k.czxid
	}
	return 0
}

// markable is writable for a create, which says that it is there only if nobody else
// was the last time.
func (d *directories) markable(dir string) (czxid int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := d.known[dir]; !k.closed && !k.contended {
		return k.czxid
	}
	return 0
}

// children returns how many nodes were in the directory the last time, 0 if nobody has looked.
func (d *directories) children(dir string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int(d.known[dir].children)
}

// saw takes a Stat of the directory. It reports whether reading the data could
// tell something new.
func (d *directories) saw(dir string, stat *zk.Stat) (unknown bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.known[dir]
	if k.czxid != 0 && k.czxid != stat.Czxid {
		k = directory{}
	}
	k.contended, k.children = stat.NumChildren > 1, stat.NumChildren
	keep(d.known, dir, k)
	return k.czxid == 0 && !k.closed && int(stat.DataLength) >= len(magic)
}

// read takes the directory's data. Somebody may have put his own into one of ours.
func (d *directories) read(dir string, data []byte, stat *zk.Stat) {
	if _, ours := parseFloor(data); !ours {
		d.forget(dir)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.known[dir]
	k.czxid = stat.Czxid
	keep(d.known, dir, k)
}

// letGo says that a holder of ours leaves.
func (d *directories) letGo(dir, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.left[dir]
	l.node = node
	keep(d.left, dir, l)
}

// isRemoved says that the node of a holder of ours that has let go is gone.
func (d *directories) isRemoved(dir, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.left[dir]
	l.removed = node
	keep(d.left, dir, l)
}

// isFree tells whether nobody is ahead any more of whoever saw the node past go, and
// next ahead of that: if past was a holder of ours nobody was older, and if next was
// one, and its node is gone, nobody else was.
func (d *directories) isFree(dir, past, next string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.left[dir]
	return l.node == past || l.removed == next
}

// shut says that we may not write the directory's data.
func (d *directories) shut(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.known[dir]
	k.closed = true
	keep(d.known, dir, k)
}

// forget says that there is no such directory, or another one, or one with somebody's data.
func (d *directories) forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, dir)
}

// keep puts the value into one of the maps, which does not grow beyond its bound. It is
// called with mu held.
func keep[V any](m map[string]V, dir string, v V) {
	if _, known := m[dir]; !known && len(m) >= mostDirectories {
		for other := range m { // any one
			delete(m, other)
			break
		}
	}
	m[dir] = v
}
