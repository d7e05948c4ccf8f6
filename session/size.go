package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about how many permits a semaphore has: the node that says so.

// ErrSize says that what a semaphore's size node holds is no size.
var ErrSize = errors.New("zkgrant: no size of a semaphore")

// size reads how many permits there are, and writes the seat's opinion down if nobody
// has.
func (c *client) size(t *Seat, watch bool) (size, version int32, _ error) {
	node := t.permits.size
	for range reaped {
		data, stat, err := c.readSize(t, watch)
		if err == nil {
			n, err := strconv.ParseInt(string(data), 10, 32)
			if err != nil || n <= 0 {
				return 0, 0, fmt.Errorf("%w: %s holds %.20q", ErrSize, node, data)
			}
			return int32(n), stat.Version, nil
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

func (c *client) readSize(t *Seat, watch bool) ([]byte, *zk.Stat, error) {
	node := t.permits.size
	if watch {
		if arm, fires := t.lookOut(c, node); arm {
			data, stat, _, err := c.conn.GetW(node)
			c.looks.answered(node, fires, err == nil)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				c.unsure(node)
			}
			return data, stat, err
		}
	}
	return c.conn.Get(node)
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
		return nil // whoever asks looks again
	}
	return err
}

// Resize sets the size of the semaphore at the path, which is without the chroot, and makes
// what is missing with the access control list, or that of the config. It waits for a
// connection, if there is none, and for the answer, until ctx ends. The error is the cause
// of ctx, a server's refusal, [ErrKind] if the path is the node of a lock that is one node,
// or [ErrClosed].
func (s *Session) Resize(ctx context.Context, semaphore string, size int32, acl []zk.ACL) error {
	if acl == nil {
		acl = s.cfg.ACL
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	node := path.Join(join(s.chroot, semaphore), sizeNode)
	r := &resizing{node: node, size: size, acl: acl, outcome: make(chan error, 1)}
	if !s.actor.Post(r) {
		return ErrClosed
	}
	select {
	case err := <-r.outcome:
		return err
	case <-ctx.Done():
		r.left.Store(true)
		s.actor.Post(dropped{r})
		return context.Cause(ctx)
	}
}

// resizing is a request of somebody who waits for it. It is made until that is settled, or
// nobody waits: to make it twice does no harm.
type resizing struct {
	slot

	node    string
	size    int32
	acl     []zk.ACL
	left    atomic.Bool // nobody waits any more
	outcome chan error  // size 1
}

var _ request = (*resizing)(nil)

func (r *resizing) meantFor() recipes.Epoch { return 0 }

func (r *resizing) refuse() { r.outcome <- ErrClosed }

func (r *resizing) do(c *client) (func(*Session), error) {
	if r.left.Load() {
		return func(*Session) {}, nil
	}
	outcome, err := Classify(c.resize(r))
	err = otherKind(err)
	return func(s *Session) {
		if outcome == Unknown || unsettled(err) {
			s.again(c, r)
			return
		}
		r.outcome <- err
	}, err
}

func (c *client) resize(r *resizing) error {
	for range reaped {
		_, err := c.conn.Set(r.node, []byte(strconv.Itoa(int(r.size))), anyVersion)
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if err := c.makeSize(r.node, r.size, r.acl); err != nil {
			return err
		}
	}
	return zk.ErrNoNode
}
