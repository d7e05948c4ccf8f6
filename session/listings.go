package session

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file is about a seat's list request: first the barrier, if it needs one, then the
// listings of its directories, and finally the seat's own part.

// listing reads one directory for all list requests that need it. Many seats of a session
// may wait in one directory, and one reading serves them all.
//
// A request must be served by a reading that begins after it. One in progress will not
// do:
//
//  1. B lists.
//  2. C's node is created.
//  3. C lists, and gets B's answer, which does not have C's node.
//  4. C believes that its node is gone, creates another one, and waits behind the first,
//     which nothing removes.
//
// Requests that arrive during a reading wait for the next one, together.
type listing struct {
	slot

	dir   string
	now   []*seatRequest // served by the reading that waits or is in progress, which reads it
	later []*seatRequest // those that arrived during that reading
	gone  int            // at least this many of them are unwanted
	turn  bool           // the turn of a contender in now may have come; makes it urgent
}

var _ request = (*listing)(nil)

const (
	// listedName is roughly the size of a name in a listing, in bytes.
	listedName = 64
	// listedLeast is the minimum size expected of a listing, and that of an unknown
	// directory.
	listedLeast = 16 << 10
	// crowded is the number of requests from which it pays to index the names.
	crowded = 8
)

// reads joins a list request to the listings it needs. It returns false if there is
// nothing to list, or if the barrier comes first.
func (s *Session) reads(r *seatRequest) bool {
	if r.wants.barrier || len(r.wants.dirs) == 0 {
		return false
	}
	r.wants.found, r.wants.missing = make([]*names, len(r.wants.dirs)), len(r.wants.dirs)
	for _, dir := range r.wants.dirs {
		s.join(dir, r)
	}
	return true
}

// join adds a request to the next reading of the directory.
func (s *Session) join(dir string, r *seatRequest) {
	switch l := s.client.listings[dir]; {
	case l == nil:
		l = &listing{slot: slot{epoch: r.epoch}, dir: dir, later: []*seatRequest{r}}
		s.client.listings[dir] = l
		l.admit(s)
	case l.waits != nil:
		l.now = append(l.now, r)
		l.turn = l.turn || r.turn
		if l.urgency() < l.lane { // it has become more urgent
			s.pending.remove(l)
			s.pending.add(l)
		}
	default:
		l.later = append(l.later, r)
	}
}

// admit queues a reading for the requests that have arrived.
func (l *listing) admit(s *Session) {
	l.now, l.later = l.later, nil
	l.turn = slices.ContainsFunc(l.now, func(r *seatRequest) bool { return r.turn })
	l.bytes = int32(max(listedLeast, listedName*s.client.dirs.book(l.dir).Children()))
	s.pending.add(l)
}

func (l *listing) urgency() urgency {
	if l.turn {
		return turning
	}
	return joining
}

// refuse also refuses the requests that wait for the next reading.
func (l *listing) refuse(s *Session) {
	for _, r := range slices.Concat(l.now, l.later) {
		if r.wants.missing--; r.wants.missing == 0 {
			r.refuse(s)
		}
	}
}

func (l *listing) onDequeue(*Session) {
	l.now = slices.DeleteFunc(l.now, func(r *seatRequest) bool { return r.unwanted })
}

func (l *listing) do(c *client) (func(*Session), error) {
	children, err := c.childrenOf(l.dir)
	var found *names
	if err == nil {
		found = namesOf(children, len(l.now) >= crowded)
		found.semaphore = showsSemaphore(l.dir, children)
	}
	return func(s *Session) {
		if c.outdated {
			found, err = nil, zk.ErrConnectionClosed
		}
		l.ended(s, c, found, err)
	}, err
}

// ended passes on the result of a reading, and starts the next one if it is needed.
func (l *listing) ended(s *Session, c *client, found *names, err error) {
	served := l.now
	l.now = nil
	for _, r := range served {
		r.heard(s, c, l.dir, found, err)
	}
	if len(l.later) == 0 {
		delete(c.listings, l.dir)
		return
	}
	s.take(l)
}

// wantsNothing removes a list request whose machine no longer waits for it from readings
// that have not begun.
func (s *Session) wantsNothing(r *seatRequest) {
	r.unwanted = true
	if r.wants == nil || r.epoch != s.client.epoch {
		return
	}
	unwanted := func(r *seatRequest) bool { return r.unwanted }
	for _, dir := range r.wants.dirs {
		l := s.client.listings[dir]
		if l == nil {
			continue
		}
		// Many may become unwanted at a time, so they are removed in bulk.
		if l.gone++; 2*l.gone <= len(l.now)+len(l.later) {
			continue
		}
		l.gone, l.later = 0, slices.DeleteFunc(l.later, unwanted)
		if l.waits == nil { // in progress
			continue
		}
		if l.now = slices.DeleteFunc(l.now, unwanted); len(l.now) == 0 {
			s.pending.remove(l)
			delete(s.client.listings, dir)
		}
	}
}

// doBarrier writes through the quorum. A sync would not do, because a deposed leader
// answers it.
func (r *seatRequest) doBarrier(c *client) (func(*Session), error) {
	in, err := c.barrierOf(r.seat, r.epoch)
	return func(s *Session) {
		r.wants.barrier = false
		if c.outdated {
			in = recipes.Unknown{Epoch: r.epoch, Op: r.op}
		}
		switch {
		case in != nil:
			r.settle(s, c, in, err)
		case s.late(r):
			r.refuse(s)
		default:
			s.reads(r)
		}
	}, err
}

// heard handles the result of a listing. The request itself is queued when all its
// listings have ended.
func (r *seatRequest) heard(s *Session, c *client, dir string, found *names, err error) {
	w := r.wants
	// A lock must not queue up among the waiters or permits of a semaphore.
	if found != nil && found.semaphore && r.seat.permits == nil {
		err = ErrInner(strings.TrimPrefix(dir, s.chroot))
	}
	w.found[slices.Index(w.dirs, dir)] = found
	w.err = worse(w.err, r.seat.blame(dir, err))
	w.missing--
	switch {
	case w.missing > 0:
	case r.unwanted:
	case errors.Is(w.err, ErrKind):
		r.settle(s, c, recipes.Refused{Epoch: r.epoch, Op: r.op}, w.err)
	case w.err != nil:
		in, err := unanswered(r.epoch, r.op, w.err)
		r.settle(s, c, in, err)
	case s.late(r):
		r.refuse(s)
	default:
		s.pending.add(r)
	}
}

// discardMade deletes the nodes that a request of unknown outcome has made, if they were
// listed but a server refused the rest of the search, or if the lock's own directory turns
// out to be part of a semaphore. The machine does not know them.
func (r *seatRequest) discardMade(s *Session) {
	if list, is := r.effect.(recipes.List); !is || !list.Barrier {
		return
	}
	for i, found := range r.wants.found {
		if found == nil { // this listing was refused
			continue
		}
		for _, name := range found.queue {
			if strings.HasPrefix(name.Text, head(name.Kind, r.guid)) {
				s.take(&removal{node: below(r.wants.dirs[i], name.Text)})
			}
		}
	}
	// Permits are named before they are read.
	if t := r.seat; t.permits != nil {
		for _, node := range t.nodes(t.ownNode()) {
			if strings.HasPrefix(node, path.Join(t.permits.dir, head(0, r.guid))) {
				s.take(&removal{node: node})
			}
		}
	}
}

// listNeeds is what a list request needs before it is made itself.
type listNeeds struct {
	barrier bool     // a write through the quorum comes first
	dirs    []string // without duplicates
	found   []*names // the contenders in each of dirs
	missing int      // listings that have not ended
	err     error    // why one of them failed
}

// list finds the seat's node by its GUID among the listed names. It reads and watches the
// node, whose Stat has the owner and the token.
func (c *client) list(t *Seat, e recipes.List, id guid, found *names) (recipes.Input, error) {
	listed := recipes.Listed{Epoch: e.Epoch, Queue: found.queue}
	name, ok := found.own(t.kind, id)
	if !ok {
		return listed, nil
	}
	listed.Own.Name = name
	own := below(t.dir, name.Text)
	listed.Own.Name.Text = path.Base(own) // share one string: a holder keeps both for a long time
	// Name it before the read, because a seat gets no watch on a node that it does not
	// follow.
	t.nameOwn(c, e.Epoch, []string{own}, 0)
	node, err := c.follow(ofNode, own, t)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		listed.Own = recipes.Own{}
	case err != nil:
		return unanswered(e.Epoch, recipes.OpList, err)
	default:
		// A reader in a writer's place has the writer's token; see fence.
		listed.Own.Owner, listed.Own.Token = node.stat.EphemeralOwner, cmp.Or(t.lent, node.stat.Czxid)
		t.nameOwn(c, e.Epoch, []string{own}, listed.Own.Token)
	}
	return listed, nil
}

// childrenOf lists a lock's directory and updates its book. A directory that does not
// exist counts as empty.
func (c *client) childrenOf(dir string) ([]string, error) {
	children, stat, err := c.conn.Children(dir)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		c.dirs.forget(dir)
		return nil, nil
	case err != nil:
		return nil, err
	case c.dirs.saw(dir, stat):
		if data, stat, err := c.conn.Get(dir); err == nil { // if this fails, the next listing tries again
			c.dirs.read(dir, data, stat)
		}
	}
	return children, nil
}

// names are the contenders found by a listing. All requests that it serves share them, so
// nothing modifies them.
type names struct {
	queue   []events.Name
	indexed bool // the queue is sorted by text

	semaphore bool // the directory is part of a semaphore

	mu      sync.Mutex
	members map[int][]events.Name // copies of the queue for multi-locks, by member
}

// own finds the node of an attempt by the prefix of its name. The zero id finds nothing.
func (n *names) own(kind events.Kind, id guid) (name events.Name, ok bool) {
	if id == (guid{}) {
		return events.Name{}, false
	}
	mine := head(kind, id)
	from := 0
	if n.indexed {
		from, _ = slices.BinarySearchFunc(n.queue, mine,
			func(name events.Name, text string) int { return cmp.Compare(name.Text, text) })
	}
	for _, name := range n.queue[from:] {
		switch {
		case strings.HasPrefix(name.Text, mine):
			return name, true
		case n.indexed:
			return events.Name{}, false
		}
	}
	return events.Name{}, false
}

// as returns a copy of the queue for a multi-lock in which the directory belongs to this
// member.
func (n *names) as(member int) []events.Name {
	n.mu.Lock()
	defer n.mu.Unlock()
	queue, known := n.members[member]
	if known {
		return queue
	}
	queue = slices.Clone(n.queue)
	for i := range queue {
		queue[i].Member = int32(member)
	}
	if n.members == nil {
		n.members = map[int][]events.Name{}
	}
	n.members[member] = queue
	return queue
}

// namesOf returns the contenders among the children of a directory.
func namesOf(children []string, indexed bool) *names {
	n := &names{indexed: indexed}
	for _, child := range children {
		if name, ok := events.ParseName(child); ok {
			n.queue = append(n.queue, name)
		}
	}
	if indexed {
		slices.SortFunc(n.queue, func(a, b events.Name) int { return cmp.Compare(a.Text, b.Text) })
	}
	return n
}

// worse returns the error that leaves the outcome open, if one of the two does.
func worse(a, b error) error {
	if a == nil {
		return b
	}
	if outcome, _ := zkerr.Classify(b); !outcome.Settled() {
		return b
	}
	return a
}
