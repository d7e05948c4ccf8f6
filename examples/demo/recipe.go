package main

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// recipe is the stock lock: one ephemeral sequential node for each contender. The lowest
// number holds, and every other contender watches the node before its own. The recipe
// never looks at the clock.
type recipe struct {
	conn   *zk.Conn
	path   string
	name   string // the data of its node
	prefix string // of its node's name; unique
}

func newRecipe(conn *zk.Conn, path, name string) *recipe {
	return &recipe{conn: conn, path: path, name: name, prefix: name + "-" + rand.Text() + "-"}
}

// acquire returns nil once its node is the first. Each time it lists the queue, it
// reports how many nodes are ahead.
func (r *recipe) acquire(ctx context.Context, say func(ahead int)) error {
	return r.persist(ctx, func() (bool, error) {
		names, _, err := r.conn.Children(r.path)
		if errors.Is(err, zk.ErrNoNode) {
			return false, makePath(r.conn, r.path)
		}
		if err != nil {
			return false, err
		}
		at := place(names, r.prefix)
		switch at {
		case -1:
			_, err := r.conn.Create(r.path+"/"+r.prefix, []byte(r.name), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			if errors.Is(err, zk.ErrNoNode) {
				err = nil // the servers have just removed the empty directory
			}
			return false, err
		case 0:
			return true, nil
		}
		say(at)
		there, _, gone, err := r.conn.ExistsW(r.path + "/" + names[at-1])
		if err != nil || !there {
			return false, err
		}
		select {
		case <-gone:
		case <-ctx.Done():
		}
		return false, nil
	})
}

// released is the outcome of a release.
type released struct {
	there bool // the node was there, so its session was alive
	err   error
}

// release deletes the node. A missing node is not an error.
func (r *recipe) release(ctx context.Context) (done released) {
	done.err = r.persist(ctx, func() (bool, error) {
		names, _, err := r.conn.Children(r.path)
		if err != nil {
			return false, err
		}
		at := place(names, r.prefix)
		if at < 0 {
			return true, nil
		}
		done.there = true
		err = r.conn.Delete(r.path+"/"+names[at], -1)
		return err == nil, err
	})
	return done
}

// place sorts the names by their numbers and returns the index of the one with the
// prefix, or -1.
func place(names []string, prefix string) int {
	const digits = 10
	number := func(name string) string { return name[max(0, len(name)-digits):] }
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(number(a), number(b)) })
	return slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// persist repeats step until it is the last one. It retries a step that failed because
// there was no connection or no session.
func (*recipe) persist(ctx context.Context, step func() (last bool, err error)) error {
	for ctx.Err() == nil {
		last, err := step()
		switch {
		case err == nil && last:
			return nil
		case err == nil:
			continue
		case !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrNoServer) && !errors.Is(err, zk.ErrSessionExpired):
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// makePath creates the node and its missing parents as containers, which the servers
// remove when empty.
func makePath(conn *zk.Conn, path string) error {
	parts := strings.Split(path, "/")
	for i := 2; i <= len(parts); i++ {
		_, err := conn.CreateContainer(strings.Join(parts[:i], "/"), nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}
