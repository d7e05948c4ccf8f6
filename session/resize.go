package session

import (
	"context"
	"errors"
	"path"
	"strconv"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
)

// Resize sets the size of the semaphore at the path, which is without the chroot, and makes
// what is missing with the access control list, or that of the config. It waits for a
// connection, if there is none, and for the answer, until ctx ends. The error is the cause
// of ctx, a server's refusal, or [ErrClosed].
func (s *Session) Resize(ctx context.Context, semaphore string, size int32, acl []zk.ACL) error {
	if acl == nil {
		acl = s.cfg.ACL
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r := &resizing{node: path.Join(join(s.chroot, semaphore), sizeNode), size: size, acl: acl, outcome: make(chan error, 1)}
	if !s.actor.Post(r) {
		return ErrClosed
	}
	select {
	case err := <-r.outcome:
		return err
	case <-ctx.Done():
		r.left.Store(true)
		return context.Cause(ctx)
	}
}

// resizing is a request of somebody who waits for it. It is made until that is settled, or
// nobody waits: to make it twice does no harm.
type resizing struct {
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
	return func(s *Session) {
		if outcome == Unknown || unsettled(err) {
			s.again(c, r)
			return
		}
		r.outcome <- ofKind(err)
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
