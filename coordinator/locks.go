package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// Locks walks the tree from root and yields each lock, of any library, with a holder or a
// waiter, and each semaphore with a size. It yields an unreadable node with its error.
// The walk ends with the cause of ctx, [ErrClosed], or [ErrPath] for root.
func (c *Coordinator) Locks(ctx context.Context, root string) iter.Seq2[events.LockInfo, error] {
	return func(yield func(events.LockInfo, error) bool) {
		fail := func(err error) { yield(events.LockInfo{Path: root, Kind: events.LockUnknown}, err) }
		if err := c.checkPath(root); err != nil {
			fail(err)
			return
		}
		w := newWalk(c, root, nil)
		for {
			at, step, err := w.next(ctx, time.Time{})
			if err != nil {
				fail(err)
				return
			}
			if step != walked {
				return
			}
			for _, l := range at.locks {
				if !yield(l.info, l.err) {
					return
				}
			}
		}
	}
}

// mostSpots is how many nodes a walk looks at at a time.
const mostSpots = 64

// walk is the state of a walk through a tree.
type walk struct {
	c     *Coordinator
	known *session.Known // contents that need not be read again, or nil
	ahead []spot         // the spots to come, the next one last, so that it is cheap to put nodes before the others
	nodes int            // how many it has looked at
	again bool           // an earlier walk was completed

	// leave reports whether a node need not be looked at. If nil, all are.
	leave func(ctx context.Context, path string) bool
}

func newWalk(c *Coordinator, root string, known *session.Known) walk {
	return walk{c: c, known: known, ahead: []spot{{path: root}}}
}

// step is the outcome of one step of a walk.
type step uint8

const (
	walked step = iota // it has looked at one more spot
	later              // time is up; the next call continues
	over               // it has looked at all spots
)

// next returns the next spot, in tree order. No request is sent after until, unless that
// is zero.
func (w *walk) next(ctx context.Context, until time.Time) (spot, step, error) {
	for len(w.ahead) > 0 {
		if ctx.Err() != nil {
			return spot{}, later, context.Cause(ctx)
		}
		if at := w.ahead[len(w.ahead)-1]; at.seen {
			w.ahead[len(w.ahead)-1] = spot{} // do not keep it in memory
			w.ahead = w.ahead[:len(w.ahead)-1]
			return at, walked, nil
		}
		if !until.IsZero() && !time.Now().Before(until) {
			return spot{}, later, nil
		}
		if err := w.look(ctx, until); err != nil {
			return spot{}, later, err
		}
		if !w.ahead[len(w.ahead)-1].seen { // there was no time for it
			return spot{}, later, nil
		}
	}
	w.ahead = nil
	return spot{}, over, nil
}

// spot is a node on the way.
type spot struct {
	path  string
	seen  bool
	locks []sighting // the locks there, once seen
	leaf  bool       // nothing below it needs to be looked at; once seen
}

// sighting is a pair to yield.
type sighting struct {
	info events.LockInfo
	err  error
}

// look inspects the next unseen spots, and queues the nodes below each spot after it. A
// spot for which there was no time remains unseen.
func (w *walk) look(ctx context.Context, until time.Time) error {
	var at []int
	var paths []string
	for i := len(w.ahead) - 1; i >= max(0, len(w.ahead)-mostSpots); i-- {
		if !w.ahead[i].seen {
			at, paths = append(at, i), append(paths, w.ahead[i].path)
		}
	}
	all, err := w.c.inspect(ctx, paths, w.known, until)
	if err != nil {
		return err
	}
	for k, i := range at { // from the end of the slice, because an insertion moves what follows
		sights := all[k]
		if sights.partial() {
			continue
		}
		w.nodes++
		w.ahead[i].seen, w.ahead[i].leaf, w.ahead[i].locks = true, true, sights.locks()
		remember(w.known, sights, w.ahead[i].locks)
		var below []spot
		for _, child := range sights.below() {
			w.ahead[i].leaf = false
			if w.c.chroot+child != systemTree && !session.IsRootOnly(ctx) &&
				(w.leave == nil || !w.leave(ctx, child)) {
				below = append(below, spot{path: child})
			}
		}
		slices.Reverse(below)
		w.ahead = slices.Insert(w.ahead, i, below...)
	}
	session.ReportProgress(ctx, session.Progress{Nodes: w.nodes, Whole: w.again})
	return nil
}

// mostRemembered limits the bytes of a waiter that are kept from one walk to the next.
const mostRemembered = 4 << 10

// remember keeps waiters with little data. Holders are not kept, because their data may
// change. A waiter that has become a holder meanwhile is shown once more with the data
// that it waited with.
func remember(known *session.Known, n inspected, locks []sighting) {
	if known == nil {
		return
	}
	// A waiter's data do not change while it waits, so it need not be read again.
	waits := map[string]bool{}
	for _, l := range locks {
		for _, contender := range l.info.Contenders {
			waits[contender.Node] = !contender.Holding
		}
	}
	keep := func(dir string, found []session.Found) {
		var kept map[string]session.Found
		for _, f := range found {
			if waits[path.Join(dir, f.Name)] && session.Ephemeral(f.Stat) && len(f.Data) <= mostRemembered {
				if kept == nil {
					kept = map[string]session.Found{}
				}
				kept[f.Name] = f
			}
		}
		known.Keep(dir, kept)
	}
	queue, permits := session.SemaphoreDirs(n.path)
	keep(n.path, n.node.Found)
	keep(queue, n.waiting.Found)
	known.Keep(permits, nil)
}

// inspected is a node, and its two directories if it may be a semaphore.
type inspected struct {
	path             string
	seen             time.Time
	node             session.Inspected
	waiting, permits session.Inspected
}

// partial reports whether there was no time to read all of it.
func (n inspected) partial() bool { return n.node.Partial || n.waiting.Partial || n.permits.Partial }

// inspect looks at nodes until it runs out of time.
func (c *Coordinator) inspect(
	ctx context.Context, paths []string, known *session.Known, until time.Time,
) (all []inspected, _ error) {
	look := func(
		ctx context.Context, paths []string, wanted func(name string) bool,
	) ([]session.Inspected, error) {
		return c.session.Inspect(ctx, paths, session.Inspection{Wanted: wanted, Known: known, Until: until})
	}
	err := c.whileOpen(ctx, func(ctx context.Context) error {
		nodes, err := look(ctx, paths,
			func(name string) bool { return isContender(name) || name == session.SizeNode })
		if err != nil {
			return err
		}
		now := time.Now()
		all = make([]inspected, len(paths))
		var maybe []int
		var queues, permits []string
		for i, node := range nodes {
			all[i] = inspected{path: paths[i], node: node, seen: now}
			if waiting, holding := session.SemaphoreDirs(paths[i]); all[i].maybeSemaphore() {
				maybe, queues, permits = append(maybe, i), append(queues, waiting), append(permits, holding)
			}
		}
		if len(maybe) == 0 {
			return nil
		}
		seen, err := look(ctx, queues, isContender)
		if err != nil {
			return err
		}
		// The permits are read after the queue, as in Semaphore.Queue.
		taken, err := look(ctx, permits, func(string) bool { return true })
		if err != nil {
			return err
		}
		for k, i := range maybe {
			all[i].waiting, all[i].permits = seen[k], taken[k]
		}
		return nil
	})
	return all, err
}

// maybeSemaphore reports whether to read the directories of a semaphore.
func (n inspected) maybeSemaphore() bool {
	_, permits := session.SemaphoreDirs("")
	return n.size() > 0 || slices.Contains(n.node.Rest, permits)
}

// size returns the size in the size node, or 0.
func (n inspected) size() int {
	for _, f := range n.node.Found {
		if f.Name == session.SizeNode && !session.Ephemeral(f.Stat) { // else it is an unfair lock
			return int(session.ParseSize(f.Data))
		}
	}
	return 0
}

// contenders returns the contenders in the node itself.
func (n inspected) contenders() (found []session.Found) {
	for _, f := range n.node.Found {
		if f.Name != session.SizeNode {
			found = append(found, f)
		}
	}
	return found
}

// isSemaphore reports whether a session holds a permit, or the node has a size and no
// children other than a semaphore's.
func (n inspected) isSemaphore() bool {
	for _, f := range n.permits.Found {
		if session.IsPermit(f.Name) && session.Ephemeral(f.Stat) {
			return true
		}
	}
	waiting, permits := session.SemaphoreDirs("")
	others := slices.ContainsFunc(n.node.Rest,
		func(name string) bool { return name != waiting && name != permits })
	return n.size() > 0 && !others && len(n.contenders()) == 0
}

// locks returns the locks at the node.
func (n inspected) locks() (all []sighting) {
	switch {
	case n.node.Err != nil:
		all = append(all, n.unseen(events.LockUnknown, n.node.Err))
	case n.node.Stat == nil: // it is gone
	case session.Ephemeral(n.node.Stat):
		for _, f := range n.node.Found {
			holder := contender(path.Dir(n.path), f)
			holder.Kind, holder.Holding = events.KindUnfair, true
			all = append(all, sighting{info: events.LockInfo{Path: n.path, Kind: events.LockUnfair,
				Contenders: []events.Contender{holder}, Seen: n.seen}})
		}
	default:
		if found := n.contenders(); len(found) > 0 {
			kind, rule := kindOf(found)
			all = append(all, sighting{info: events.LockInfo{Path: n.path, Kind: kind,
				Contenders: queueOf(n.path, rule, found), Seen: n.seen}})
		}
	}
	if !n.isSemaphore() {
		return all
	}
	if err := cmp.Or(n.waiting.Err, n.permits.Err); err != nil {
		return append(all, n.unseen(events.LockSemaphore, err))
	}
	waiting, permits := session.SemaphoreDirs(n.path)
	queue := withPermits(queueOf(waiting, recipes.Mutex{}, n.waiting.Found), permits, n.permits.Found)
	return append(all, sighting{info: events.LockInfo{Path: n.path, Kind: events.LockSemaphore,
		Size: n.size(), Contenders: queue, Seen: n.seen}})
}

// unseen returns what to yield for a lock that cannot be read.
func (n inspected) unseen(kind events.LockKind, err error) sighting {
	return sighting{events.LockInfo{Path: n.path, Kind: kind, Seen: n.seen},
		fmt.Errorf("zkgrant: reading %s: %w", n.path, err)}
}

// below returns the nodes below n that may be or contain locks, in order.
func (n inspected) below() (all []string) {
	if n.node.Stat != nil && session.Ephemeral(n.node.Stat) {
		return nil
	}
	waiting, permits := session.SemaphoreDirs("")
	names, semaphore := slices.Clone(n.node.Rest), n.isSemaphore()
	for _, f := range n.node.Found { // contenders have no children, but other programs' nodes with such names may
		if f.Stat.NumChildren > 0 || f.Name == session.SizeNode && !semaphore {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		at := path.Join(n.path, name)
		switch {
		case semaphore && name == permits:
		case semaphore && name == waiting:
			all = append(all, inspected{path: at, node: n.waiting}.below()...)
		default:
			all = append(all, at)
		}
	}
	return all
}

// kindOf derives the kind of lock of a queue, and the rule for its holders, from its
// contenders.
func kindOf(found []session.Found) (events.LockKind, recipes.Rule) {
	owned, sided := false, false
	for _, f := range found {
		owned = owned || session.Ephemeral(f.Stat)
		switch name, _ := events.ParseName(f.Name); name.Kind {
		case events.KindRead, events.KindWrite, events.KindKazooRead, events.KindRecipeRead,
			events.KindRecipeWrite:
			sided = true
		default:
		}
	}
	kind, rule := events.LockMutex, recipes.Rule(recipes.Mutex{})
	if sided {
		kind, rule = events.LockReadWrite, recipes.Write{}
	}
	if !owned {
		kind = events.LockUnknown
	}
	return kind, rule
}
