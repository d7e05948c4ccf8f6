package session

import (
	"errors"
	"fmt"
	"path"
	"sync"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about what all calls of the client have in common: the meaning of an
// answer, and the parents of a node.

// anyVersion makes the server not compare versions.
const anyVersion = -1

// maxTries bounds the attempts at something that others keep deleting.
const maxTries = recipes.Tries

// unanswered is the answer to a single request that ended with an error.
func unanswered(epoch recipes.Epoch, op recipes.Op, err error) (recipes.Input, error) {
	outcome, err := zkerr.Classify(err)
	return classified(epoch, op, outcome, err)
}

// classified is the answer to a request that was not done.
func classified(epoch recipes.Epoch, op recipes.Op, outcome zkerr.Outcome, err error) (recipes.Input, error) {
	if !outcome.Settled() {
		return recipes.Unknown{Epoch: epoch, Op: op}, err
	}
	return recipes.Refused{Epoch: epoch, Op: op, Missing: errors.Is(err, zk.ErrNoNode)}, otherKind(err)
}

// otherKind names the error of a create below the node of a lock that is one node.
func otherKind(err error) error {
	if errors.Is(err, zk.ErrNoChildrenForEphemerals) {
		return fmt.Errorf("%w: %w", ErrKind, err)
	}
	return err
}

// notOwn is the answer to a request that failed for another node than the own one. It
// does not call the own node missing.
func notOwn(in recipes.Input, err error) (recipes.Input, error) {
	if refused, ok := in.(recipes.Refused); ok {
		refused.Missing = false
		in = refused
	}
	return in, err
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
			c.logger.Warn("the servers have no container nodes; empty lock directories may stay", zap.Error(err))
		}
		if err == nil || zkerr.Unnamed(err) != zkerr.CodeUnimplemented {
			return err
		}
	}
	_, err := c.conn.Create(dir, data, zk.FlagPersistent, acl)
	return err
}

// dataIn returns the data of the seat's nodes in the client's session.
func (t *Seat) dataIn(c *client) []byte {
	if t.marks&events.MarkRevocable == 0 {
		return t.data
	}
	return withTimeout(t.data, c.link.Timeout())
}

// barrier is a write through the quorum that changes nothing. If there is no directory,
// that is an answer of the quorum as well.
func (c *client) barrier(dir string) (zkerr.Outcome, error) {
	outcome, _, err := zkerr.ClassifyMulti(c.conn.Multi(&zk.CheckVersionRequest{Path: dir, Version: anyVersion}))
	if errors.Is(err, zk.ErrNoNode) {
		return zkerr.Done, nil
	}
	return outcome, err
}

// check is a claim for the session's own purposes. It returns nil if the node exists.
func (c *client) check(node string) error {
	_, _, err := zkerr.ClassifyMulti(c.conn.Multi(&zk.CheckVersionRequest{Path: node, Version: anyVersion}))
	return err
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
