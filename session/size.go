package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about the node that says how many permits a semaphore has.

// ErrSizeNode reports that the data of a semaphore's size node are not a size.
var ErrSizeNode = errors.New("zkgrant: not a semaphore size")

// size reads how many permits there are. If no size is written it writes the seat's own.
func (c *client) size(t *Seat) (size, version int32, _ error) {
	node := t.permits.size
	for range maxTries {
		data, stat, err := c.conn.Get(node)
		if err == nil {
			if size, version = ParseSize(data), stat.Version; size == 0 {
				return 0, 0, fmt.Errorf("%w: %s holds %.20q", ErrSizeNode, node, data)
			}
			c.dirs.sized(node, sizeRead{size, version})
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

// ParseSize returns the number of permits in the data of a size node, or 0 if the data
// are not a number of permits.
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

// Resize sets the size of the semaphore at the path, which is without the chroot. It
// creates missing nodes, with the given access control list or that of the config. It
// waits for a connection and for the answer until ctx ends. The error is the cause of
// ctx, a server's refusal, [ErrKind] if the path is the node of a lock of one node, or
// [ErrClosed].
func (s *Session) Resize(ctx context.Context, semaphore string, size int32, acl []zk.ACL) error {
	if acl == nil {
		acl = s.cfg.ACL
	}
	node := path.Join(under(s.chroot, semaphore), SizeNode)
	_, err := call(ctx, s, terms{urgent: joining}, func(c *client) (struct{}, error) { return struct{}{}, c.resize(node, size, acl) })
	return otherKind(err)
}

// resize writes the size, and makes and deletes a node among the permits in the same
// transaction. The first in the queue that waits for room has the permits' directory
// watched, and so learns of the size as well. The node of the size has no watch of its
// own. Every waiter would have to arm it, it would fire only at a resize, and it would
// stay forever, because a client cannot drop a watch.
//
// If there are no permits no waiter waits for room. Permits may come between the look and
// the write, so it looks again.
func (c *client) resize(node string, size int32, acl []zk.ACL) error {
	wake := path.Join(path.Dir(node), permitDir, wakingNode)
	set := &zk.SetDataRequest{Path: node, Data: []byte(strconv.Itoa(int(size))), Version: anyVersion}
	for range maxTries {
		outcome, failed, err := zkerr.ClassifyMulti(c.conn.Multi(set,
			&zk.CreateRequest{Path: wake, Acl: acl, Flags: zk.FlagEphemeral},
			&zk.DeleteRequest{Path: wake, Version: anyVersion}))
		if failed > 0 && outcome == zkerr.Refused {
			var done bool
			if done, err = c.resizeUnheard(node, size, err); done {
				return nil
			}
			failed = 0
		}
		switch {
		case failed == 0 && errors.Is(err, zk.ErrNoNode):
			if err := c.makeSize(node, size, acl); err != nil {
				return err
			}
		case err != nil, failed < 0:
			return err
		}
	}
	return zk.ErrNoNode
}

// resizeUnheard writes the size where no waiter can be notified, for the reason in
// unheard. It reports whether nothing else is left to do.
func (c *client) resizeUnheard(node string, size int32, unheard error) (done bool, _ error) {
	if _, err := c.conn.Set(node, []byte(strconv.Itoa(int(size))), anyVersion); err != nil {
		return false, err
	}
	if !errors.Is(unheard, zk.ErrNoNode) {
		c.logger.Warn("semaphore resized; waiters see the new size when the next permit is taken or released",
			zap.String("node", node), zap.Error(unheard))
		return true, nil
	}
	exists, _, err := c.conn.Exists(path.Join(path.Dir(node), permitDir))
	return err == nil && !exists, err
}

// wakingNode does not stay among the permits: it is made and deleted in one transaction.
const wakingNode = "resized"
