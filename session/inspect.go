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
// of them is said there, and is no error of the whole. Children that are known by their paths are not read again.
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

// inspect looks at one node. What a server refuses for good is said of it, and any other error returned.
func (c *client) inspect(ctx context.Context, chroot, node string, wanted func(name string) bool, known map[string]Found) (seen Inspected, _ error) {
	if err := ctx.Err(); err != nil { // nobody waits
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
