package interop

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// owns tells whether the session has a node in the directory.
func (w witness) owns(dir string, session int64) (bool, error) {
	children, err := w.children(dir)
	if err != nil {
		return false, err
	}
	for _, child := range children {
		there, stat, err := w.conn.Exists(dir + "/" + child)
		if err != nil {
			return false, fmt.Errorf("looking at %s/%s: %w", dir, child, err)
		}
		if there && stat.EphemeralOwner == session {
			return true, nil
		}
	}
	return false, nil
}

// make creates a persistent node and its missing parents.
func (w witness) make(node string) error {
	for end, all := 1, node+"/"; end < len(all); end++ {
		if all[end] != '/' {
			continue
		}
		_, err := w.conn.Create(all[:end], nil, 0, zk.WorldACL(zk.PermAll))
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("making %s: %w", all[:end], err)
		}
	}
	return nil
}

// remove deletes a node.
func (w witness) remove(node string) error {
	if err := w.conn.Delete(node, -1); err != nil {
		return fmt.Errorf("removing %s: %w", node, err)
	}
	return nil
}
