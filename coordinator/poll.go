package coordinator

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

const (
	// leastLook and mostLook are the bounds of the time in which a look sends reads.
	leastLook = time.Second
	mostLook  = 5 * time.Second
	// smallTree is the largest number of nodes for which each look searches the whole
	// tree.
	smallTree = 256
	// restFor is how long the search for locks pauses for each node that it looked at.
	// With 1,000 reads per second, it takes a fifth of them.
	restFor = 4 * time.Millisecond
	// trusted is how long a lock that the caller watches is not read again. A read shows
	// what a watch does not: new data of a holder, and locks below the lock.
	trusted = 5 * time.Second
)

// Poll returns [Coordinator.Locks] for repeated calls. While connected, each takes a few
// seconds at most and yields what is known by then; the next one continues from there.
// Calls must not overlap.
func (c *Coordinator) Poll(root string) func(context.Context) iter.Seq2[events.LockInfo, error] {
	p := &poll{c: c, root: root, small: true, known: &session.Known{}, places: map[string]*place{}}
	return func(ctx context.Context) iter.Seq2[events.LockInfo, error] {
		return func(yield func(events.LockInfo, error) bool) {
			if err := p.look(ctx, yield); err != nil {
				yield(events.LockInfo{Path: root, Kind: events.LockUnknown}, err)
			}
		}
	}
}

// poll is what is known about the locks below a path.
type poll struct {
	c    *Coordinator
	root string

	known  *session.Known
	places map[string]*place // where locks were found, by path
	looks  int
	ended  time.Time // the last look

	search    walk      // the state of the search for locks
	searching bool      // the search is not over
	due       time.Time // when the next search may begin
	small     bool      // the last search looked at so few nodes that one look can search them all
}

// place is a path with locks, as last seen.
type place struct {
	look  int // the look that saw it
	left  int // the look that left it out
	seen  time.Time
	leaf  bool // there was nothing below it
	locks []sighting
}

// look yields all locks once, first those that it reads again. It returns an error if it
// could not finish.
//
// In a small tree, each look is a complete search. In a larger one, half of the time is
// for known locks, least recently seen first, and half for the search, which continues
// where the last look stopped.
func (p *poll) look(ctx context.Context, yield func(events.LockInfo, error) bool) error {
	if err := p.c.checkPath(p.root); err != nil {
		return err
	}
	// A look takes about as long as the caller pauses between two looks, so reads take at
	// most half of the time.
	now := time.Now()
	span := leastLook
	if !p.ended.IsZero() {
		span = min(max(now.Sub(p.ended), leastLook), mostLook)
	}
	defer func() { p.ended = time.Now() }()
	p.looks++
	until := now.Add(span)
	begins := !p.searching && !now.Before(p.due)
	if begins {
		p.begin()
	}
	defer p.keepRead()
	if alone := begins && p.small; !alone {
		visits := until
		if p.searching {
			visits = now.Add(span / 2)
		}
		if more, err := p.visit(ctx, visits, yield); err != nil || !more {
			return err
		}
	}
	// The search uses the remaining time, and the next look continues it.
	for p.searching {
		at, step, err := p.search.next(ctx, until)
		if err != nil {
			return err
		}
		if step == later {
			break
		}
		if step == over {
			p.searched(begins)
			session.ReportProgress(ctx, session.Progress{Nodes: p.search.nodes, Whole: true})
			if p.small && !begins { // an earlier look began it, so it may have missed new nodes
				p.begin()
				begins = true
			}
		} else if !p.take(at, yield) {
			return nil
		}
	}
	p.keepRead()
	// Yield places that there was no time to read again as last seen.
	for _, at := range p.unseen(compareInTree) {
		for _, l := range p.places[at].locks {
			if !yield(l.shown(), l.err) {
				return nil
			}
		}
	}
	return nil
}

// begin begins a search.
func (p *poll) begin() {
	again := p.search.c != nil
	p.search, p.searching = newWalk(p.c, p.root, p.known), true
	p.search.again, p.search.leave = again, p.leave
}

// keepRead keeps what the search has read but not yielded, so that the next look reads it
// again, as it does all known places.
func (p *poll) keepRead() {
	p.search.ahead = slices.DeleteFunc(p.search.ahead, func(at spot) bool {
		if at.seen {
			p.keep(at)
		}
		return at.seen
	})
}

// searched is called at the end of a search. A search that began with this look has seen
// every existing place.
func (p *poll) searched(began bool) {
	if began && p.small {
		for _, at := range p.unseen(strings.Compare) {
			if p.places[at].left != p.looks {
				p.forget(at)
			}
		}
	}
	p.searching = false
	p.small, p.due = p.search.nodes <= smallTree, time.Now()
	if !p.small { // the next search comes after a pause
		p.due = p.due.Add(time.Duration(p.search.nodes) * restFor)
	}
}

// leave reports whether the search leaves out a node, because the caller watches it, and
// it was seen recently with nothing below it. Later in the same look, neither may be true
// any more.
func (p *poll) leave(ctx context.Context, at string) bool {
	known := p.places[at]
	if known == nil || !known.leaf || time.Since(known.seen) >= trusted || !session.IsWatched(ctx, at) {
		return false
	}
	known.left = p.looks
	return true
}

// forget drops a place and the known contents of its directories.
func (p *poll) forget(at string) {
	delete(p.places, at)
	p.known.Keep(at, nil)
	waiting, holding := session.SemaphoreDirs(at)
	p.known.Keep(waiting, nil)
	p.known.Keep(holding, nil)
}

// visit looks at known places again, and reports whether the caller wants more.
func (p *poll) visit(
	ctx context.Context, until time.Time, yield func(events.LockInfo, error) bool,
) (more bool, _ error) {
	paths := p.unseen(func(a, b string) int {
		return cmp.Or(p.places[a].seen.Compare(p.places[b].seen), compareInTree(a, b))
	})
	paths = slices.DeleteFunc(paths, func(at string) bool { return p.leave(ctx, at) })
	for chunk := range slices.Chunk(paths, mostSpots) {
		all, err := p.c.inspect(ctx, chunk, p.known, until)
		if err != nil {
			return false, err
		}
		for _, n := range all {
			if n.partial() {
				continue
			}
			locks := n.locks()
			remember(p.known, n, locks)
			if !p.take(spot{path: n.path, locks: locks, leaf: len(n.below()) == 0}, yield) {
				return false, nil
			}
		}
		if !time.Now().Before(until) {
			break
		}
	}
	return true, nil
}

// keep keeps what was seen at a path, and returns the place, or nil if there are no
// locks.
func (p *poll) keep(at spot) *place {
	if len(at.locks) == 0 {
		p.forget(at.path)
		return nil
	}
	now := &place{seen: at.locks[0].info.Seen, leaf: at.leaf, locks: kept(at.locks)}
	if before := p.places[at.path]; before != nil {
		now.look = before.look
	}
	p.places[at.path] = now
	return now
}

// take keeps what was seen at a path, and yields it unless this look already has.
func (p *poll) take(at spot, yield func(events.LockInfo, error) bool) bool {
	now := p.keep(at)
	if now == nil || now.look == p.looks {
		return true
	}
	now.look = p.looks
	for _, l := range at.locks {
		if !yield(l.shown(), l.err) {
			return false
		}
	}
	return true
}

// unseen returns the places that this look has not seen yet, sorted.
func (p *poll) unseen(compare func(a, b string) int) []string {
	all := slices.SortedFunc(maps.Keys(p.places), compare)
	return slices.DeleteFunc(all, func(at string) bool { return p.places[at].look == p.looks })
}

// kept returns the locks with long data truncated.
func kept(locks []sighting) []sighting {
	locks = slices.Clone(locks)
	for i := range locks {
		contenders := slices.Clone(locks[i].info.Contenders)
		for k, c := range contenders {
			if len(c.Data) > mostRemembered {
				contenders[k].Data = bytes.Clone(c.Data[:mostRemembered])
			}
		}
		locks[i].info.Contenders = contenders
	}
	return locks
}

// shown returns a copy of the lock for the caller, because the poll keeps the lock and
// its data.
func (s sighting) shown() events.LockInfo {
	info := s.info
	info.Contenders = slices.Clone(info.Contenders)
	for i, c := range info.Contenders {
		info.Contenders[i].Data = bytes.Clone(c.Data)
	}
	return info
}

// compareInTree orders paths as a walk visits them: a node, everything below it, and then
// its next sibling.
func compareInTree(a, b string) int {
	for {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		if x != y || !moreA || !moreB {
			return cmp.Or(strings.Compare(x, y), cmp.Compare(len(restA), len(restB)))
		}
		a, b = restA, restB
	}
}
