package session

import (
	"context"
	"errors"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/session/internal/pace"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// DefaultReadRate is how many reads a second a process sends to look at locks, unless [SetReadRate] says otherwise.
const DefaultReadRate = 1000

// reads is shared by all that look at locks in this process: the bound protects the servers, which other sessions of it use, too.
//
//nolint:gochecknoglobals // there is one a process
var reads = pace.NewLimiter(DefaultReadRate)

// SetReadRate sets how many reads a second [Session.Inspect] sends in this process, in all sessions together. 0 is no bound.
func SetReadRate(rate int) { reads.Set(rate) }

// AwaitRead waits for the turn of a read that is not Inspect's. It returns the cause of ctx if ctx ends first.
func AwaitRead(ctx context.Context) error {
	_, err := reads.Wait(ctx, time.Time{})
	return err
}

// Inspected is a node and its contents, or why it may not be seen.
type Inspected struct {
	Stat    *zk.Stat // nil: there is no such node, or it may not be seen
	Found   []Found  // its wanted children; of an ephemeral node, which has none, the node itself
	Rest    []string // the names of the other children, in order
	Err     error    // a server's refusal, such as [ErrNoAuth]; the other fields are valid all the same
	Partial bool     // the time was over before all was read; the other fields are empty
}

// Inspection says how nodes are looked at.
type Inspection struct {
	Wanted func(name string) bool // the children to read
	Known  *Known                 // what was read before, and where the rest goes; nil: nothing is kept
	Until  time.Time              // no read is sent after it; zero: it takes as long as it takes
}

// Known has contents of directories that need not be read again. The zero value has none. Its methods may be called from any goroutine.
type Known struct {
	mu   sync.Mutex
	dirs map[string]map[string]Found // by directory and name
}

// Len returns of how many directories it has contents.
func (k *Known) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.dirs)
}

// Keep replaces what is known of a directory.
func (k *Known) Keep(dir string, found map[string]Found) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if delete(k.dirs, dir); len(found) > 0 {
		if k.dirs == nil {
			k.dirs = map[string]map[string]Found{}
		}
		k.dirs[dir] = found
	}
}

func (k *Known) add(dir string, f Found) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dirs == nil {
		k.dirs = map[string]map[string]Found{}
	}
	if k.dirs[dir] == nil {
		k.dirs[dir] = map[string]Found{}
	}
	k.dirs[dir][f.Name] = f
}

// split divides the children of a directory into those that are known, and the others.
func (k *Known) split(dir string, stat *zk.Stat, children []string) (known []Found, others []string) {
	if k == nil {
		return nil, children
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.dirs[dir]
	for _, child := range children {
		if f, ok := all[child]; ok && f.Stat.Czxid > stat.Czxid { // else the directory is another one
			known = append(known, f)
		} else {
			others = append(others, child)
		}
	}
	return known, others
}

// pass lets the reads of an inspection through, one after the other. A nil pass lets all through and keeps nothing.
type pass struct {
	until time.Time
	known *Known
	dir   string
}

// errLater reports that a read was not sent, because the time of the inspection is over.
var errLater = errors.New("the time is over")

func (p *pass) next(ctx context.Context) error {
	if p == nil || IsRootOnly(ctx) {
		return nil
	}
	ok, err := reads.Wait(ctx, p.until)
	if err == nil && !ok {
		return errLater
	}
	return err
}

func (p *pass) keep(f Found) {
	if p != nil && p.dir != "" {
		p.known.add(p.dir, f)
	}
}

// Inspect lists each of the nodes and reads their wanted children, as [Session.ReadQueue] does for one directory. It returns what it has
// seen in the order of the nodes. They are valid paths without the chroot. If a node may not be seen, its entry says so, and that is no
// error of the whole.
//
// Each listing and each read waits until the process may send it, see [SetReadRate]. Inspect returns when there is time for no more.
func (s *Session) Inspect(ctx context.Context, nodes []string, how Inspection) ([]Inspected, error) {
	return look(ctx, s, func(c *client) ([]Inspected, error) {
		return inspectAll(nodes, func(node string) (Inspected, error) { return c.inspect(ctx, s.chroot, node, how) })
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
func (c *client) inspect(ctx context.Context, chroot, node string, how Inspection) (seen Inspected, _ error) {
	if err := ctx.Err(); err != nil { // the caller does not wait any more
		return Inspected{}, err
	}
	p := &pass{until: how.Until, known: how.Known}
	if err := p.next(ctx); err != nil {
		return Inspected{Partial: true}, unlessLater(err)
	}
	full := under(chroot, node)
	children, stat, err := c.listed(full)
	dir, names := full, []string(nil)
	switch {
	case err != nil:
	case Ephemeral(stat):
		dir, names = path.Dir(full), []string{path.Base(full)}
	default:
		p.dir = node
		seen.Found, children = how.Known.split(node, stat, children)
		for _, child := range children {
			if how.Wanted(child) {
				names = append(names, child)
			} else {
				seen.Rest = append(seen.Rest, child)
			}
		}
		slices.Sort(seen.Rest)
	}
	if err == nil {
		seen.Stat = stat
		var read []Found
		read, err = c.readAll(ctx, dir, names, p)
		seen.Found = append(seen.Found, read...)
	}
	if errors.Is(err, errLater) {
		return Inspected{Partial: true}, nil
	}
	if errors.Is(err, zk.ErrNoNode) {
		return Inspected{}, nil
	}
	if outcome, refusal := zkerr.Classify(err); outcome == zkerr.Refused {
		seen.Err = refusal
		return seen, nil
	}
	return seen, err
}

// unlessLater returns the error, unless it says that a read has to wait for the next inspection.
func unlessLater(err error) error {
	if errors.Is(err, errLater) {
		return nil
	}
	return err
}
