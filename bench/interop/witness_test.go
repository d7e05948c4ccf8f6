package interop

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// witness looks at the server's nodes on the referee's behalf. Its methods may be called by several goroutines.
type witness struct{ conn *zk.Conn }

// callWitness connects a witness. The caller must Close its connection.
func callWitness(ctx context.Context, addr string) (witness, error) {
	conn, err := connectStock(ctx, addr, 30*time.Second)
	if err != nil {
		return witness{}, fmt.Errorf("connecting the witness: %w", err)
	}
	return witness{conn}, nil
}

// nodeOf returns a node that the session owns in the directory, and the zxid that created it. The session must own that many nodes; any
// other number is an error.
func (w witness) nodeOf(dir string, session int64, nodes int) (node string, czxid int64, err error) {
	children, _, err := w.conn.Children(dir)
	if err != nil {
		return "", 0, fmt.Errorf("listing %s: %w", dir, err)
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
		return "", 0, fmt.Errorf("looking at %s: %w", dir, err)
	}
	var found []string
	for i, stat := range stats {
		if stat != nil && stat.EphemeralOwner == session {
			found = append(found, path.Join(dir, children[i]))
			czxid = stat.Czxid
		}
	}
	if len(found) != nodes {
		return "", 0, fmt.Errorf("session 0x%x has %d nodes in %s: %q of %q", session, len(found), dir, found, children)
	}
	return found[0], czxid, nil
}

// gone is an error while the directory exists. The server keeps a plain directory, so the witness removes it. go-zookeeper's lock makes one
// if the server has removed the container between two visits.
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

// exists tells whether the node is there.
func (w witness) exists(node string) (bool, error) {
	there, _, err := w.conn.Exists(node)
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", node, err)
	}
	return there, nil
}

// children lists a directory. One that does not exist has none.
func (w witness) children(dir string) ([]string, error) {
	children, _, err := w.conn.Children(dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	return children, nil
}

// data are those of a node.
func (w witness) data(node string) ([]byte, error) {
	data, _, err := w.conn.Get(node)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", node, err)
	}
	return data, nil
}
