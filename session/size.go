package session

import (
	"errors"
	"fmt"
	"path"
	"strconv"

	"github.com/go-zookeeper/zk"
)

// This file is about the node that says how many permits a semaphore has.

// ErrSizeNode says that the data of a semaphore's size node are no size.
var ErrSizeNode = errors.New("zkgrant: not a size of a semaphore")

// size reads how many permits there are. If no size is written it writes the seat's own.
func (c *client) size(t *Seat) (size, version int32, _ error) {
	node := t.permits.size
	for range reaped {
		data, stat, err := c.conn.Get(node)
		if err == nil {
			if size, version = ParseSize(data), stat.Version; size == 0 {
				return 0, 0, fmt.Errorf("%w: %s holds %.20q", ErrSizeNode, node, data)
			}
			return size, version, nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return 0, 0, err
		}
		if err := c.makeSize(node, t.permits.opinion, t.acl); err != nil {
			return 0, 0, err
		}
	}
	return 0, 0, fmt.Errorf("%s is deleted as often as it is made: %w", node, zk.ErrNoNode)
}

// ParseSize returns how many permits the data of a size node say there are, or 0 if the data are no number of
// permits.
func ParseSize(data []byte) int32 {
	n, err := strconv.ParseInt(string(data), 10, 32)
	if err != nil || n <= 0 {
		return 0
	}
	return int32(n)
}

// makeSize makes the node, unless there is one, and the semaphore's path.
func (c *client) makeSize(node string, size int32, acl []zk.ACL) error {
	text := []byte(strconv.Itoa(int(size)))
	_, err := c.conn.Create(node, text, zk.FlagPersistent, acl)
	if errors.Is(err, zk.ErrNoNode) {
		if err := c.makeParents(path.Dir(node), nil, acl, false); err != nil {
			return err
		}
		_, err = c.conn.Create(node, text, zk.FlagPersistent, acl)
	}
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return nil // the caller looks again
	}
	return err
}
