package session

import (
	"context"
	"errors"
	"path"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"
)

// Found is a node as it was read.
type Found struct {
	Name string // the last component of its path
	Data []byte // the caller's
	Stat *zk.Stat
}

// ReadQueue reads the wanted children of a directory, in no order. If wanted is nil, it reads all of them. It
// leaves out a child that is gone by the time it is read. If the directory does not exist it finds nothing,
// and that is no error. The path is valid and without the chroot. The result is what one server knew. That
// may be behind the other servers, but not behind what this session has done or been told.
//
// ReadQueue writes nothing and watches nothing. It waits for a connection, if there is none, and for the
// answers, until ctx ends. If the connection is lost meanwhile it begins again, so its result never comes
// from two sessions. The error is the cause of ctx, ErrClosed, or a server's refusal: [ErrNoAuth] if the
// directory or one of the children may not be read.
func (s *Session) ReadQueue(ctx context.Context, dir string, wanted func(name string) bool) ([]Found, error) {
	dir = under(s.chroot, dir)
	return look(ctx, s, func(c *client) ([]Found, error) { return c.gather(ctx, dir, wanted) })
}

// Look is ReadQueue for one node: it returns the node, or nothing if it does not exist.
func (s *Session) Look(ctx context.Context, node string) ([]Found, error) {
	node = under(s.chroot, node)
	return look(ctx, s, func(c *client) ([]Found, error) {
		return c.readAll(ctx, path.Dir(node), []string{path.Base(node)}, nil)
	})
}

// look calls read for a caller, and returns all that it has read, or nothing.
func look[T any](ctx context.Context, s *Session, read func(*client) ([]T, error)) ([]T, error) {
	seen, err := call(ctx, s, terms{urgent: looking}, read)
	if err != nil {
		return nil, err
	}
	return seen, nil
}

// gather lists the directory and reads the wanted children.
func (c *client) gather(ctx context.Context, dir string, wanted func(name string) bool) ([]Found, error) {
	children, _, err := c.listed(dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, child := range children {
		if wanted == nil || wanted(child) {
			names = append(names, child)
		}
	}
	return c.readAll(ctx, dir, names, nil)
}

// listed lists a directory, when there is room for that.
func (c *client) listed(dir string) (children []string, stat *zk.Stat, err error) {
	c.readings.begin(&c.readings.names)
	defer c.readings.end(&c.readings.names)
	children, stat, err = c.conn.Children(dir)
	if err != nil {
		return nil, nil, err
	}
	size := 0
	for _, child := range children {
		size += 4 + len(child) // as it is sent
	}
	c.readings.answered(size, &c.readings.names)
	return children, stat, nil
}

// readAll reads the nodes, many at a time, and leaves out those that do not exist. It stops at an
// error and at the end of ctx, and returns when no reading is under way. With a pass each reading waits for its turn.
func (c *client) readAll(ctx context.Context, dir string, names []string, p *pass) ([]Found, error) {
	var (
		reading sync.WaitGroup
		stopped atomic.Bool
		errs    = make([]error, len(names))
		all     = make([]Found, len(names))
		flows   = []*flow{&c.readings.data, {}}
	)
	for i, name := range names {
		if err := p.next(ctx); err != nil {
			errs[i] = err
			break
		}
		c.readings.begin(flows...)
		if stopped.Load() || ctx.Err() != nil {
			c.readings.end(flows...)
			break
		}
		reading.Go(func() {
			defer c.readings.end(flows...)
			data, stat, err := c.conn.Get(path.Join(dir, name))
			switch {
			case err == nil:
				c.readings.answered(len(data), flows...)
				all[i] = Found{Name: name, Data: data, Stat: stat}
				p.keep(all[i])
			case !errors.Is(err, zk.ErrNoNode):
				errs[i] = err
				stopped.Store(true)
			}
		})
	}
	reading.Wait()
	found := all[:0]
	for i, f := range all {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if f.Stat != nil {
			found = append(found, f)
		}
	}
	return found, nil
}
