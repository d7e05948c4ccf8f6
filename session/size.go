package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"sync/atomic"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about how many permits a semaphore has: the node that says so.

// wakingNode is among the leases for no time: it is made and deleted in one transaction.
const wakingNode = "resized"

// ErrSizeNode says that what a semaphore's size node holds is no size.
var ErrSizeNode = errors.New("zkgrant: no size of a semaphore")

// size reads how many permits there are, and writes the seat's opinion down if nobody
// has.
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

// ParseSize returns how many permits the data of a size node say there are, or 0 if that is no number of permits.
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
	node := path.Join(join(s.chroot, semaphore), SizeNode)
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

// resize writes the size, and makes and deletes a node among the leases in the same transaction. Whoever is first in the queue
// and waits for room has their directory watched, and so hears of the size as well. The node of the size needs no
// watch of its own: one that has to be armed by everybody who waits, and that fires when somebody resizes the semaphore,
// would stay for ever, for a client cannot drop any.
//
// Where there are no leases nobody waits for room. They may come between the look and the write, so it looks again.
func (c *client) resize(r *resizing) error {
	wake := path.Join(path.Dir(r.node), leaseDir, wakingNode)
	size := &zk.SetDataRequest{Path: r.node, Data: []byte(strconv.Itoa(int(r.size))), Version: anyVersion}
	for range reaped {
		res, err := c.conn.Multi(size,
			&zk.CreateRequest{Path: wake, Acl: r.acl, Flags: zk.FlagEphemeral},
			&zk.DeleteRequest{Path: wake, Version: anyVersion})
		failed := FailedOp(res)
		if failed >= 0 {
			err = res[failed].Error
		}
		if failed > 0 && !unsettled(err) {
			var done bool
			if done, err = c.resizeUnheard(r, err); done {
				return nil
			}
			failed = 0
		}
		switch {
		case failed == 0 && errors.Is(err, zk.ErrNoNode):
			if err := c.makeSize(r.node, r.size, r.acl); err != nil {
				return err
			}
		case err != nil, failed < 0:
			return err
		}
	}
	return zk.ErrNoNode
}

// resizeUnheard writes the size where nobody can be told of it, as the error says, and reports whether that is all there is to do.
func (c *client) resizeUnheard(r *resizing, unheard error) (done bool, _ error) {
	if _, err := c.conn.Set(r.node, []byte(strconv.Itoa(int(r.size))), anyVersion); err != nil {
		return false, err
	}
	if !errors.Is(unheard, zk.ErrNoNode) {
		c.logger.Warn("resized, and who waits for permits hears of it when the next one is taken or given back",
			zap.String("node", r.node), zap.Error(unheard))
		return true, nil
	}
	exists, _, err := c.conn.Exists(path.Join(path.Dir(r.node), leaseDir))
	return err == nil && !exists, err
}
