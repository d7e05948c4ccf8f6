package session

import (
	"errors"
	"path"
	"sync"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about the directories of locks: what a client remembers of them, and how
// they are made.

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

// leaves notes that a seat of ours gives its node up, and leaves a floor.
func (d *directories) leaves(dir, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep(d.left, dir, d.left[dir].Leaves(node, true))
}

// removed notes that the node of a seat that leaves a floor is gone.
func (d *directories) removed(dir, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep(d.left, dir, d.left[dir].Removed(node, true))
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

// makeParents makes the directory, with the data, and whatever is missing above it. They
// are containers, which the server removes when they are empty. They are plain nodes if
// the server has no containers, or if they are to stay. Kazoo needs nodes that stay: its
// lock makes its directory once, and fails from then on if that goes.
func (c *client) makeParents(dir string, data []byte, acl []zk.ACL, stay bool) error {
	err := c.makeDirectory(dir, data, acl, stay)
	switch {
	case errors.Is(err, zk.ErrNoNode) && dir != "/":
		if err := c.makeParents(path.Dir(dir), nil, acl, stay); err != nil {
			return err
		}
		return c.makeParents(dir, data, acl, stay)
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	default:
		return err
	}
}

func (c *client) makeDirectory(dir string, data []byte, acl []zk.ACL, stay bool) error {
	if !stay && !c.containers.lacking() {
		on, _ := c.dialer.Owing()
		_, err := c.conn.CreateContainer(dir, data, zk.FlagContainer, acl)
		if c.containers.heard(on, err) {
			c.logger.Warn("the servers have no container nodes; empty lock directories may stay",
				zap.Error(err))
		}
		if err == nil || zkerr.Unnamed(err) != zkerr.CodeUnimplemented {
			return err
		}
	}
	_, err := c.conn.Create(dir, data, zk.FlagPersistent, acl)
	return err
}

// What follows makes a lock's directory and the first node in it in one round trip. Two
// requests leave one after the other, and a server takes them in that order.
//
// If the directory exists already, the node stands in it, and its contender lists as
// usual. If nodes above are missing, both find nothing.

// isFresh reports whether the directory of a create may be a new one. The servers must be
// known to have container nodes: others close the connection.
func (c *client) isFresh(t *Seat, x *recipes.Errand) bool {
	attempt, _ := t.attempted()
	return x.Layout == recipes.LayoutQueue && attempt == 1 && x.Dir != "/" &&
		t.permits == nil && !t.kind.Kazoo() && c.containers.has() && c.dirs.book(x.Dir).New()
}

// createFresh makes the directory and the node. It also returns whether it has made the
// directory. Then the Stat of the answer is the node's: the zxid of a reply to a create is
// the zxid that has created the node.
//
// The request for the node leaves on the connection of the first one, or is refused as if
// there were no directory, see [wire.Link.Await]. The client keeps what it is given when a
// connection ends, and sends it on the next one. By then the seat may have been withdrawn,
// and its caller, who does not wait for the node during an outage, may have acquired the
// lock again.
func (c *client) createFresh(
	t *Seat, x *recipes.Errand, p recipes.Plan,
) (a recipes.Answer, made bool, err error) {
	parent := x.Dir // the errand itself stays off the heap
	dir := c.link.Await(parent, nil)
	node := c.link.Await(x.Nodes[0], dir)
	defer c.link.Forget(dir, node)
	var failure error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		failure = c.makeDirectory(parent, recipes.Marker(), t.acl, false)
	}()
	select {
	case <-dir.Sent:
	case <-answered: // it was not sent, or taken for the request of another seat
	}
	if a.Result = recipes.ResultUnknown; !t.isWithdrawn(x.Epoch) { // it may have waited long
		a, err = c.perform(t, p)
	}
	<-answered
	if failure != nil {
		return a, false, err
	}
	c.dirs.made(parent, dir.Zxid())
	if a.Result == recipes.ResultDone {
		a.Stats = []recipes.Stat{{Czxid: node.Zxid()}}
	}
	return a, true, err
}

// containerNodes is what a session has seen of container nodes on its servers.
//
//   - ZooKeeper before 3.5 answers that it knows no such request, and closes the
//     connection.
//   - ClickHouse Keeper before 2026 closes the connection and says nothing.
//
// Network trouble looks like the second. So it takes two such connections, and no
// answered request. If both were trouble, directories stay that might have been removed.
type containerNodes struct {
	mu    sync.Mutex
	known bool // a server has answered such a request, so it knows it
	lacks bool
	lost  int // connections that ended instead of an answer
	on    any // the latest of them
}

// lostForLack is after how many connections the servers are taken not to have container
// nodes.
const lostForLack = 2

// has reports whether the servers are known to have them.
func (n *containerNodes) has() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known && !n.lacks
}

// lacking reports whether the servers are taken to have none.
func (n *containerNodes) lacking() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lacks
}

// heard notes the outcome of a request for one on a connection. It returns whether that
// is why the servers are taken to have none.
func (n *containerNodes) heard(on any, err error) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	had := n.lacks
	switch outcome, _ := zkerr.Classify(err); {
	case err != nil && zkerr.Unnamed(err) == zkerr.CodeUnimplemented:
		n.lacks = true
	case outcome == zkerr.Unknown:
		if !n.known && on != n.on {
			n.on = on
			n.lost++
		}
		n.lacks = n.lacks || n.lost == lostForLack
	case outcome.Settled():
		n.known = true
	}
	return n.lacks && !had
}
