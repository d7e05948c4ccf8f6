package interop

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/bench/peers"
)

// witness reads the server's nodes for the referee. Its methods are safe for concurrent
// use.
type witness struct{ conn *zk.Conn }

// callWitness connects a witness. The caller must Close its connection.
func callWitness(ctx context.Context, addr string) (witness, error) {
	conn, err := peers.Connect(ctx, addr, 30*time.Second, nil)
	return witness{conn}, err
}

// owned returns the nodes that the session owns in the directory, the zxid that created
// the last of them, and all children.
func (w witness) owned(dir string, session int64) (found []string, czxid int64, children []string, _ error) {
	children, err := w.children(dir)
	if err != nil {
		return nil, 0, nil, err
	}
	stats := make([]*zk.Stat, len(children))
	failed := make([]error, len(children))
	var all sync.WaitGroup
	for i, child := range children {
		all.Go(func() {
			var there bool
			if there, stats[i], failed[i] = w.conn.Exists(path.Join(dir, child)); !there {
				stats[i] = nil
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, 0, nil, fmt.Errorf("looking at %s: %w", dir, err)
	}
	for i, stat := range stats {
		if stat != nil && stat.EphemeralOwner == session {
			found = append(found, path.Join(dir, children[i]))
			czxid = stat.Czxid
		}
	}
	return found, czxid, children, nil
}

// nodeOf returns a node that the session owns in the directory, and the zxid that created
// it. It is an error unless the session owns exactly that many nodes.
func (w witness) nodeOf(dir string, session int64, nodes int) (node string, czxid int64, err error) {
	found, czxid, children, err := w.owned(dir, session)
	if err == nil && len(found) != nodes {
		err = fmt.Errorf("session 0x%x has %d nodes in %s: %q of %q", session, len(found), dir, found, children)
	}
	if err != nil {
		return "", 0, err
	}
	return found[0], czxid, nil
}

func (w witness) owns(dir string, session int64) (bool, error) {
	found, _, _, err := w.owned(dir, session)
	return len(found) > 0, err
}

// gone returns an error while the directory exists. The server does not remove a plain
// directory, so gone does. go-zookeeper's lock creates one if the server has removed the
// container between two visits.
func (w witness) gone(dir string) error {
	there, stat, err := w.conn.Exists(dir)
	switch {
	case err != nil:
		return fmt.Errorf("looking at %s: %w", dir, err)
	case !there:
		return nil
	case stat.EphemeralOwner == 0:
		err = w.conn.Delete(dir, -1)
	}
	return errors.Join(fmt.Errorf("%s is still there", dir), err)
}

func (w witness) exists(node string) (bool, error) {
	there, _, err := w.conn.Exists(node)
	return there, wrap(err, node)
}

// children lists a directory. A missing directory has no children.
func (w witness) children(dir string) ([]string, error) {
	children, _, err := w.conn.Children(dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return children, wrap(err, dir)
}

func (w witness) data(node string) ([]byte, error) {
	data, _, err := w.conn.Get(node)
	return data, wrap(err, node)
}

// make creates a persistent node and its missing parents.
func (w witness) make(node string) error {
	if node == "/" {
		return nil
	}
	if err := w.make(path.Dir(node)); err != nil {
		return err
	}
	_, err := w.conn.Create(node, nil, 0, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		err = nil
	}
	return wrap(err, node)
}

func (w witness) remove(node string) error { return wrap(w.conn.Delete(node, -1), node) }

// wrap adds the node to an error.
func wrap(err error, node string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", node, err)
}
