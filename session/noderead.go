package session

import (
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// Node is a node as a read returned it. Without a Stat it does not exist.
type Node struct {
	Data []byte
	Stat *zk.Stat
	// Missing are the missing paths above the node, the uppermost first.
	Missing []string
}

// Err returns zk.ErrNoNode if the node does not exist.
func (n Node) Err() error {
	if n.Stat == nil {
		return zk.ErrNoNode
	}
	return nil
}

// Replace returns the operations that replace the data, if the node is still as it was
// read. They create a missing node, and the missing nodes above it.
func (n Node) Replace(path string, data []byte, acl []zk.ACL) (ops []any) {
	if n.Stat != nil {
		return []any{&zk.SetDataRequest{Path: path, Data: data, Version: n.Stat.Version}}
	}
	for _, above := range n.Missing {
		ops = append(ops, &zk.CreateRequest{Path: above, Acl: acl})
	}
	return append(ops, &zk.CreateRequest{Path: path, Data: data, Acl: acl})
}

// IsOutdated reports whether [Node.Replace] was refused because the nodes have changed
// since they were read.
func IsOutdated(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode)
}

// Read reads a node in the session of the epoch, and in no other: what made the Grant is
// older than every read of its session. The path is without the chroot. It waits for a
// connection and for the answers until ctx ends. The errors are [ErrPath],
// [ErrEpochOver], a server's refusal and the cause of ctx.
func (t *Seat) Read(ctx context.Context, epoch recipes.Epoch, node string) (Node, error) {
	if err := ValidatePath(node); err != nil {
		return Node{}, err
	}
	s := t.session
	return call(ctx, s, terms{epoch: epoch, urgent: handing}, func(c *client) (n Node, err error) {
		if t.news.Load() {
			// A leader that is deposed and does not know it answers a sync, and no write.
			if outcome, err := c.barrier(under(s.chroot, node)); !outcome.Settled() {
				return n, err
			}
			t.news.Store(false)
		}
		n.Data, n.Stat, err = c.conn.Get(under(s.chroot, node))
		if !errors.Is(err, zk.ErrNoNode) {
			return n, err
		}
		n = Node{}
		for above := path.Dir(node); above != "/"; above = path.Dir(above) {
			there, _, err := c.conn.Exists(under(s.chroot, above))
			if there || err != nil {
				return n, err
			}
			n.Missing = append([]string{above}, n.Missing...)
		}
		return n, nil
	})
}
