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

// Inspected is a node and its contents, or why it may not be seen.
type Inspected struct {
	Stat  *zk.Stat // nil: there is no such node, or it may not be seen
	Found []Found  // its wanted children; of an ephemeral node, which has none, the node itself
	Rest  []string // the names of the other children, in order
	Err   error    // a server's refusal, such as [ErrNoAuth]; the other fields are valid all the same
}

// Inspect lists each of the nodes and reads their wanted children, as [Session.ReadQueue] does for one directory. It returns what it has
// seen in the order of the nodes. They are valid paths without the chroot. If a node may not be seen, its entry says so, and that is no
// error of the whole. Children that are known by their paths are not read again.
func (s *Session) Inspect(ctx context.Context, nodes []string, wanted func(name string) bool, known map[string]Found) ([]Inspected, error) {
	return look(ctx, s, func(c *client) ([]Inspected, error) {
		return inspectAll(nodes, func(node string) (Inspected, error) { return c.inspect(ctx, s.chroot, node, wanted, known) })
	})
}

func inspectAll(nodes []string, inspect func(node string) (Inspected, error)) ([]Inspected, error) {
	var (
		inspecting sync.WaitGroup
		all        = make([]Inspected, len(nodes))
		errs       = make([]error, len(nodes))
	)
	for i, node := range nodes {
		inspecting.Go(func() { all[i], errs[i] = inspect(node) })
	}
	inspecting.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// inspect looks at one node. A refusal that is final goes into its result; any other error is returned.
func (c *client) inspect(ctx context.Context, chroot, node string, wanted func(name string) bool, known map[string]Found) (seen Inspected, _ error) {
	if err := ctx.Err(); err != nil { // the caller does not wait any more
		return Inspected{}, err
	}
	full := under(chroot, node)
	children, stat, err := c.listed(full)
	dir, names := full, []string(nil)
	switch {
	case err != nil:
	case Ephemeral(stat):
		dir, names = path.Dir(full), []string{path.Base(full)}
	default:
		for _, child := range children {
			f, old := known[path.Join(node, child)]
			switch {
			case old && f.Stat.Czxid > stat.Czxid: // else the directory is another one
				seen.Found = append(seen.Found, f)
			case wanted(child):
				names = append(names, child)
			default:
				seen.Rest = append(seen.Rest, child)
			}
		}
		slices.Sort(seen.Rest)
	}
	if err == nil {
		seen.Stat = stat
		var read []Found
		read, err = c.readAll(ctx, dir, names)
		seen.Found = append(seen.Found, read...)
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
