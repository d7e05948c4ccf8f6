// Package cache keeps the nodes of cached locks until another contender wants the lock.
//
// The package is a client of ordinary acquisitions. An acquisition without a caller gets
// a node. The callers wait in a queue within the process, and take turns holding the lock
// under that node, without a request. Once the acquisition knows of another contender, a
// bounded number of turns follows, and then it is released. [recipes.Stay] makes these
// decisions.
//
// One mutex guards all caches of a coordinator. A Grant, a release, the news of another
// contender, a loss and Close are processed in the caller's goroutine, under the mutex.
// Functions that may call the cache are never called under it. So:
//
//  1. A Grant is published under the mutex. A later loss is reported after it, and an
//     earlier loss prevents it.
//  2. The session renews the lease of a node until [actors.Lookout.Rest] is called, and
//     again once [actors.Lookout.Known] returns true. Rest is called under the mutex, and
//     no turn is granted in between. So every holder learns of the end of the lease.
//  3. Every input reaches the acquisition's machine first, then its lookout, then the
//     cache.
package cache

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// Terms are what acquisitions that share a node have in common. Acquisitions with other
// terms compete, like contenders of different sessions.
type Terms struct {
	Data, ACL string // of the node
	Revocable bool
	Handoffs  int32         // maximum number of local grants once another contender is known
	For       time.Duration // how long local grants may continue then
}

// Handle is a cached lock, with what its acquisitions have in common. It is never
// modified.
type Handle struct {
	Caches *Caches
	Path   string
	Terms  Terms
	Keeper Keeper
}

// Config configures the caches of a coordinator.
type Config struct {
	Size   int           // how many idle nodes are kept at most
	Idle   time.Duration // for how long
	Strict bool          // a lost connection is a loss
}

// Keeper creates the acquisitions that own nodes.
type Keeper interface {
	// Queue returns an idle acquisition of a node with the data, or an error.
	Queue(data string, tell actors.Beside) (*actors.Lookout, error)
}

// Caches are the caches of a coordinator.
type Caches struct {
	cfg Config

	mu    sync.Mutex
	paths map[string]*cache // caches with a node, and those in quiet
	quiet list.List         // of *cache, by when the process last stopped using them, the latest first
	todo  []func()          // calls to make once the mutex is unlocked

	displaced []*stay // their waiters are told the new places before those calls
}

// cache has the nodes of one path.
type cache struct {
	all  *Caches
	path string

	stays []*stay // newest last
	habit recipes.Habit
	last  Terms         // the terms of the latest node
	at    *list.Element // in quiet, or nil
}

// New returns empty caches.
func New(cfg Config) *Caches { return &Caches{cfg: cfg, paths: map[string]*cache{}} }

// Lock returns a lock that takes turns under a node of the handle.
func (h *Handle) Lock(cfg actors.Config) *actors.Lock {
	t := &turn{of: h}
	t.Init(cfg, t)
	return &t.Lock
}

// at returns the cache of a path, or a new one. It is called with mu held.
func (a *Caches) at(path string) *cache {
	if c := a.paths[path]; c != nil {
		return c
	}
	return &cache{all: a, path: path}
}

// Want notes that an acquisition of the process is about to queue up at the path with its
// own node: one with the terms other, or an uncached one if other is nil. For caches with
// other terms, it is another contender.
func (a *Caches) Want(path string, other *Terms) {
	a.mu.Lock()
	defer a.unlock()
	if c := a.paths[path]; c != nil {
		c.each(func(s *stay) {
			if other == nil || *s.terms != *other {
				s.want()
			}
		})
	}
}

// Close gives up every node as soon as it is not held.
func (a *Caches) Close() {
	a.mu.Lock()
	defer a.unlock()
	for _, c := range a.paths {
		c.each((*stay).spend)
	}
}

// GiveUp gives up the node that has been idle longest, and returns its port, or nil if no
// node is idle.
func (a *Caches) GiveUp() (port actors.Port) {
	a.mu.Lock()
	defer a.unlock()
	for port == nil && a.quiet.Len() > 0 {
		port = a.evict()
	}
	return port
}

// evict forgets the last cache in quiet, gives up its node if that is idle, and returns
// that node's port. It is called with mu held.
func (a *Caches) evict() (port actors.Port) {
	c, _ := a.quiet.Back().Value.(*cache)
	c.each(func(s *stay) {
		if s.book.Idle() {
			port = s.node.Port()
			s.spend()
		}
	})
	c.busy()
	if len(c.stays) == 0 {
		delete(a.paths, c.path)
	}
	return port
}

// then schedules a call of f for when the mutex is unlocked. It is called with mu held.
func (a *Caches) then(f func()) { a.todo = append(a.todo, f) }

// unlock reports new places, unlocks the mutex, and makes the scheduled calls.
func (a *Caches) unlock() {
	for _, s := range a.displaced {
		s.tellPlaces()
	}
	clear(a.displaced)
	a.displaced = a.displaced[:0]
	todo := a.todo
	a.todo = nil
	a.mu.Unlock()
	for _, f := range todo {
		f()
	}
}

// The methods of a cache are called with the mutex held.

// each calls f with each stay. f may end the stay.
func (c *cache) each(f func(*stay)) {
	for _, s := range slices.Clone(c.stays) {
		f(s)
	}
}

// rest notes that the process no longer uses the cache. If too many caches are in quiet,
// the last one is forgotten. Caches without a node are there, too, for their habit, and
// so are caches whose idle node is in use again: removing and adding them each time would
// allocate. So an idle node may be given up although there are fewer than Size.
func (c *cache) rest() {
	if c.at != nil {
		c.all.quiet.MoveToFront(c.at)
		return
	}
	c.at = c.all.quiet.PushFront(c)
	if c.all.quiet.Len() > c.all.cfg.Size {
		c.all.evict()
	}
}

// busy removes the cache from quiet, because the process uses it with a new node or
// forgets it.
func (c *cache) busy() {
	if c.at != nil {
		c.all.quiet.Remove(c.at)
		c.at = nil
	}
}

// newest returns the latest stay with these terms, or nil.
func (c *cache) newest(terms *Terms) *stay {
	for _, s := range slices.Backward(c.stays) {
		if *s.terms == *terms {
			return s
		}
	}
	return nil
}

// after returns the first stay behind s with the same terms that may still be granted, or
// nil.
func (c *cache) after(s *stay) *stay {
	for _, next := range c.stays[slices.Index(c.stays, s)+1:] {
		if *next.terms == *s.terms && !next.book.Over && !next.book.Spent {
			return next
		}
	}
	return nil
}

// queue queues a turn at a stay, or at a new one if s is nil. The stay passes on what it
// does not accept.
func (c *cache) queue(t *turn, s *stay) {
	if s == nil {
		var err error
		if s, err = c.begin(t); err != nil {
			t.fail(func() { t.Refuse(err) })
			return
		}
	}
	displaced := t.is == turnWaits
	s.add(t)
	s.move()
	if t.is != turnWaits || t.stay != s {
		return
	}
	// A node that waits reports its turns' places when it lists the queue, but that may
	// have been before this turn came.
	if ahead, known := s.placeOf(int(s.book.Waiting) - 1); known && !displaced {
		t.Queue(ahead)
	} else {
		s.displace()
	}
}

// begin returns a new stay for the turn. Its node queues up.
func (c *cache) begin(t *turn) (*stay, error) {
	s := &stay{cache: c, terms: &t.of.Terms}
	node, err := t.of.Keeper.Queue(s.terms.Data, s.hear)
	if err != nil {
		return nil, err
	}
	s.node = node
	c.busy()
	c.stays, c.all.paths[c.path] = append(c.stays, s), c
	try := t.try
	c.all.then(func() {
		c.all.Want(c.path, s.terms) // before the node is created
		s.start(try)
	})
	return s, nil
}

// worth reports whether the node of a stay, which was just granted, is worth keeping.
func (c *cache) worth(s *stay) (worth bool) {
	name, _ := events.ParseName(s.grant.Node)
	c.habit, worth = c.habit.Worth(name.Seq)
	same := c.last == *s.terms
	c.last = *s.terms
	return worth && same
}

// end removes a stay that is over. The path's habit is kept for a while.
func (c *cache) end(s *stay) {
	c.habit = c.habit.Ended(s.book)
	c.stays = slices.DeleteFunc(c.stays, func(other *stay) bool { return other == s })
	if len(c.stays) == 0 {
		c.rest()
	}
}
