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

// This file is about the directories of locks: what a client remembers about them, and
// how they are created.

// mostDirectories limits the directories that a client remembers. Any other directory
// costs a round trip.
const mostDirectories = 1 << 16

// directories holds the books of one client, by directory. It is safe for concurrent use.
// Package recipes decides what the books say.
type directories struct {
	mu    sync.Mutex
	known map[string]recipes.DirectoryBook
	sizes map[string]sizeRead                   // by the path of the size node
	left  map[string]recipes.LeaverBook[string] // only of directories in which one of our seats had to wait
}

// book returns what is known about the directory.
func (d *directories) book(dir string) recipes.DirectoryBook {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[dir]
}

// saw notes a Stat of the directory. It reports whether the directory's data may contain
// something new.
func (d *directories) saw(dir string, stat *zk.Stat) (unknown bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, unknown := d.known[dir].Saw(stat.Czxid, stat.NumChildren, stat.DataLength)
	keep(d.known, dir, b)
	return unknown
}

// read notes the directory's data, and returns them parsed.
func (d *directories) read(dir string, data []byte, stat *zk.Stat) recipes.DirectoryData {
	d.mu.Lock()
	defer d.mu.Unlock()
	says := recipes.ParseDirectoryData(data)
	keep(d.known, dir, d.known[dir].Read(says, stat.Czxid))
	return says
}

// made notes that the session has created the directory, with our marker. The zxid is 0
// if it is unknown.
func (d *directories) made(dir string, czxid int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if czxid != 0 {
		keep(d.known, dir, d.known[dir].Read(recipes.DirectoryData{Ours: true}, czxid))
	}
}

// learn notes what an answer says about the directory.
func (d *directories) learn(dir string, m recipes.Meaning) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep(d.known, dir, m.Book(d.known[dir]))
}

// fewer notes that this many nodes have left the directory.
func (d *directories) fewer(dir string, nodes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep(d.known, dir, d.known[dir].Fewer(int32(nodes)))
}

// sizeRead is the content of a semaphore's size node, or the zero value.
type sizeRead struct{ size, version int32 }

// size returns the content of the size node, as last read.
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

// noteLeft notes that a seat of ours gives up its node and leaves a floor.
func (d *directories) noteLeft(dir, node string) {
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

// isFree reports whether no contender is ahead of a seat whose blocker past is gone; see
// [recipes.LeaverBook.Free].
func (d *directories) isFree(dir, past, next string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left[dir].Free(past, next)
}

// keep stores a book in one of the maps, which holds no empty books and at most
// mostDirectories others. It is called with mu held.
func keep[B comparable](books map[string]B, dir string, b B) {
	var empty B
	if b == empty {
		delete(books, dir)
		return
	}
	if _, known := books[dir]; !known && len(books) >= mostDirectories {
		for other := range books { // an arbitrary one
			delete(books, other)
			break
		}
	}
	books[dir] = b
}

// makeParents creates the directory with the data, and any missing directories above it,
// as containers, which the server removes when they are empty. It creates plain nodes if
// the server has no containers, or if stay is set. Kazoo's directories must stay: its
// locks create their directory once, and fail if it disappears.
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

// The following code creates a lock's directory and the first node in it in one round
// trip. It sends two requests in a row, and a server executes them in that order.
//
// If the directory exists already, the node is created in it, and its contender lists as
// usual. If nodes above are missing, both requests fail.

// isFresh reports whether to create a node together with its directory, which does not
// seem to exist. The servers must be known to have container nodes, because others close
// the connection.
func (c *client) isFresh(t *Seat, x *recipes.Errand) bool {
	attempt, _ := t.attempted()
	return x.Layout == recipes.LayoutQueue && attempt == 1 && x.Dir != "/" &&
		t.permits == nil && !t.kind.Kazoo() && c.containers.has() && c.dirs.book(x.Dir).New()
}

// createFresh creates the directory and the node, and reports whether it created the
// directory. If so, the Stat of the answer has the zxid that created the node, which is
// that of the reply to the create.
//
// The request for the node is sent on the same connection as the first one, or refused as
// if there were no directory; see [wire.Link.Await]. The client would keep it when a
// connection ends, and send it on the next one. By then the seat may have been withdrawn,
// and its caller, which does not wait for the node during an outage, may have acquired
// the lock again.
func (c *client) createFresh(
	t *Seat, x *recipes.Errand, p recipes.Plan,
) (a recipes.Answer, made bool, err error) {
	parent := x.Dir // keeps the errand off the heap
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
	case <-answered: // it was not sent, or was mistaken for another seat's request
	}
	if a.Result = recipes.ResultUnknown; !t.isWithdrawn(x.Epoch) { // the wait may have been long
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

// containerNodes is what a session knows about its servers' support of container nodes.
//
//   - ZooKeeper before 3.5 answers that it does not know the request, and closes the
//     connection.
//   - ClickHouse Keeper before 2026 closes the connection without an answer.
//
// Network trouble looks like the second. So it takes two such connections, and no
// answered request, to conclude that containers are not supported. If both were only
// trouble, some empty directories stay.
type containerNodes struct {
	mu    sync.Mutex
	known bool // a server has answered such a request
	lacks bool
	lost  int // connections that ended without an answer
	on    any // the latest such connection
}

// lostForLack is the number of such connections after which the servers count as lacking
// containers.
const lostForLack = 2

// has reports whether the servers are known to have container nodes.
func (n *containerNodes) has() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known && !n.lacks
}

// lacking reports whether the servers count as lacking container nodes.
func (n *containerNodes) lacking() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lacks
}

// heard notes the outcome of a request for a container on a connection. It reports
// whether the servers count as lacking containers from now on.
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
