package session

import (
	"context"
	"errors"
	"path"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// Inspected is a node with what is in it, or why it may not be seen.
type Inspected struct {
	Stat  *zk.Stat // nil: there is no such node, or it may not be seen
	Found []Found  // those of its children that were wanted; of an ephemeral node, which has none, the node itself
	Rest  []string // the names of the others, in order
	Err   error    // a server's refusal, [ErrNoAuth] for one; what else is said was seen all the same
}

// Inspect looks at nodes, which are valid paths without the chroot: it lists each of them and reads those of its children that are
// wanted, as [Session.ReadQueue] does for one directory, and returns what it has seen in their order. What may not be seen of one
// of them is said there, and is no error of the whole.
func (s *Session) Inspect(ctx context.Context, nodes []string, wanted func(name string) bool) ([]Inspected, error) {
	full := make([]string, len(nodes))
	for i, node := range nodes {
		full[i] = under(s.chroot, node)
	}
	return look(ctx, s, func(c *client) ([]Inspected, error) { return c.inspectAll(ctx, full, wanted) })
}

func (c *client) inspectAll(ctx context.Context, nodes []string, wanted func(name string) bool) ([]Inspected, error) {
	var (
		inspecting sync.WaitGroup
		all        = make([]Inspected, len(nodes))
		errs       = make([]error, len(nodes))
	)
	for i, node := range nodes {
		inspecting.Go(func() { all[i], errs[i] = c.inspect(ctx, node, wanted) })
	}
	inspecting.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// inspect looks at one node. What a server refuses for good is said of it, and any other error returned.
func (c *client) inspect(ctx context.Context, node string, wanted func(name string) bool) (seen Inspected, _ error) {
	if err := ctx.Err(); err != nil { // nobody waits
		return Inspected{}, err
	}
	c.readings <- struct{}{}
	children, stat, err := c.conn.Children(node)
	<-c.readings
	dir, names := node, []string(nil)
	switch {
	case err != nil:
	case Ephemeral(stat):
		dir, names = path.Dir(node), []string{path.Base(node)}
	default:
		for _, child := range children {
			if wanted(child) {
				names = append(names, child)
			} else {
				seen.Rest = append(seen.Rest, child)
			}
		}
		slices.Sort(seen.Rest)
	}
	if err == nil {
		seen.Stat = stat
		seen.Found, err = c.readAll(ctx, dir, names)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return Inspected{}, nil
	}
	if outcome, refusal := zkerr.Classify(err); outcome == zkerr.Refused && !zkerr.Unsettled(refusal) {
		seen.Err = refusal
		return seen, nil
	}
	return seen, err
}
