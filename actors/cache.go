package actors

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about cached locks. A [Cache] is the lock of one path. Its stays are nodes, mostly one: that which the process has, or
// queues up for. While that is about to go another one may queue up. Every decision is that of [recipes.Stay].
//
// What drives a cached lock happens in the goroutine of the caller, under the cache's mutex: Grant, release, the news of another
// contender, loss, and Close. Nothing is called under the mutex that may call the cache. So:
//
//  1. A Grant is published under the mutex. A loss that is noted behind it is told behind it, and one noted before prevents it.
//  2. The session renews the lease, and tells its end, for a node from the machine's Grant to Rest, and from a Claim's fresh answer on. Rest
//     is posted under the mutex, and no turn is granted behind it before such an answer. So every holder hears of the end of the lease.
//  3. Whatever a machine hears it hears in its drain, behind which the stay hears it.

// StayPort is what a stay needs of the session for its node.
type StayPort interface {
	Port

	// Proven reports whether the epoch's session can be believed alive, and a write was answered that was sent within two probe intervals.
	Proven(epoch recipes.Epoch) bool
}

// Terms is what acquisitions have in common that share a node.
type Terms struct {
	Data, ACL string // of the node
	Revocable bool
	Handoffs  int32         // local grants once another contender is known
	For       time.Duration // and for how long
}

// CacheConfig is what a cache is made with.
type CacheConfig struct {
	All      *Caches
	Idle     time.Duration        // how long a node stays that nobody wants
	Interval func() time.Duration // between two probes
	// Queue returns what queues up for a node, or an error. The function starts it.
	Queue func(beside Beside) (lock *Lock, port StayPort, start func(try bool), err error)
}

// Cache is the cached lock of one path.
type Cache struct {
	path  string
	terms Terms
	cfg   CacheConfig
	at    *list.Element // among the quiet ones; the mutex of all caches guards it

	mu    sync.Mutex
	stays []*stay // the newest is the last
	habit recipes.Habit
	gone  bool     // it is not among all caches any more
	todo  []func() // when the mutex is free
}

// then has the function called when the mutex is free. It is called with mu held.
func (c *Cache) then(f func()) { c.todo = append(c.todo, f) }

// unlock lets go of the mutex, and does what was left for then.
func (c *Cache) unlock() {
	todo := c.todo
	c.todo = nil
	c.mu.Unlock()
	for _, f := range todo {
		f()
	}
}

// ask has one queue up.
func (c *Cache) ask(t *turn) {
	c.mu.Lock()
	defer c.unlock()
	if t.is != turnNew {
		return
	}
	if c.gone { // since it was looked up
		c.gone = false
		c.cfg.All.enter(c)
	}
	if owner := t.enters; owner != nil {
		t.enters = nil
		if owner.cache == c && owner.is == turnHolds && owner.stay.mayEnter() {
			owner.stay.enters(t)
			return
		}
	}
	if t.try && !c.mayTry() {
		t.isTurnedAway()
		return
	}
	c.elsewhere(t)
}

// mayTry reports whether one that tries may have the lock.
func (c *Cache) mayTry() bool {
	if len(c.stays) == 0 {
		return true
	}
	s := c.stays[len(c.stays)-1]
	return s.book.Accepts() && s.epoch != 0 && !s.book.Held() && s.first == nil
}

// elsewhere has one wait for the newest stay that accepts it, or for a new one. It is called with mu held.
func (c *Cache) elsewhere(t *turn) {
	if t.is == turnWaits && t.try { // where it waited there was no lock for it
		t.isTurnedAway()
		return
	}
	var s *stay
	if n := len(c.stays); n > 0 && c.stays[n-1].book.Accepts() {
		s = c.stays[n-1]
	} else {
		var err error
		if s, err = c.begin(t.try); err != nil {
			t.isRefused(err)
			return
		}
	}
	ahead := s.ahead + s.book.Waiting()
	s.add(t)
	s.move()
	if t.is == turnWaits && t.stay == s && len(s.holders) > 0 {
		t.stands(ahead + 1)
		t.queues(recipes.Queue{Ahead: ahead + 1})
	}
}

// begin has another node queue up.
func (c *Cache) begin(try bool) (*stay, error) {
	s := &stay{cache: c}
	queue, port, start, err := c.cfg.Queue(s.hears)
	if err != nil {
		return nil, err
	}
	s.queue, s.port = queue, port
	c.stays = append(c.stays, s)
	c.cfg.All.busy(c)
	c.then(func() {
		c.cfg.All.want(c.path, c)
		start(try)
	})
	return s, nil
}

// worth asks the habit whether to keep the node.
func (c *Cache) worth(node string) (worth bool) {
	name, _ := events.ParseName(node)
	c.habit, worth = c.habit.Worth(name.Seq)
	return worth
}

// forget takes a stay out.
func (c *Cache) forget(s *stay) {
	c.habit = c.habit.Ended(s.book)
	i := slices.Index(c.stays, s)
	c.stays = slices.Delete(c.stays, i, i+1)
	if len(c.stays) == 0 && !c.gone {
		c.cfg.All.quiet(c)
	}
}

// want notes that an acquisition of the process that is not cached is about to queue up. It stands on no turn's place.
func (c *Cache) want() {
	c.mu.Lock()
	defer c.unlock()
	for _, s := range slices.Clone(c.stays) {
		s.wants()
		s.move()
	}
}

// close has every node go when nobody holds it.
func (c *Cache) close() {
	c.mu.Lock()
	defer c.unlock()
	for _, s := range slices.Clone(c.stays) {
		s.book = s.book.Spends()
		s.move()
	}
}

// Caches are the caches of a session, by path, where those with other terms stand beside each other like contenders of other sessions. Those
// that are quiet have an idle node, or none. The one that became so first goes when there are too many.
type Caches struct {
	most int

	mu     sync.Mutex
	paths  map[string][]*Cache
	quiets list.List // of *Cache, the latest first
	closed bool
}

// NewCaches returns no caches. So many may be quiet.
func NewCaches(most int) *Caches { return &Caches{most: most, paths: map[string][]*Cache{}} }

// At returns the cache of the path and the terms, which is made if there is none; nil when all are closed.
func (a *Caches) At(path string, terms Terms, config func() CacheConfig) *Cache {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil
	}
	for _, c := range a.paths[path] {
		if c.terms == terms {
			a.mu.Unlock()
			return c
		}
	}
	c := &Cache{path: path, terms: terms, cfg: config()}
	c.cfg.All = a
	a.paths[path] = append(a.paths[path], c)
	oldest := a.shelve(c)
	a.mu.Unlock()
	if oldest != nil && oldest != c {
		a.evict(oldest)
	}
	return c
}

// enter takes one in again. It is called with the cache's mutex held.
func (a *Caches) enter(c *Cache) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.paths[c.path], c) {
		a.paths[c.path] = append(a.paths[c.path], c)
	}
}

// Want notes that another contender of the process is about to queue up at the path.
func (a *Caches) Want(path string) { a.want(path, nil) }

// want is Want for a contender that is of the one cache.
func (a *Caches) want(path string, by *Cache) {
	a.mu.Lock()
	all := a.paths[path]
	if len(all) == 0 || len(all) == 1 && all[0] == by {
		a.mu.Unlock()
		return
	}
	all = slices.Clone(all)
	a.mu.Unlock()
	for _, c := range all {
		if c != by {
			c.want()
		}
	}
}

// Close has every node go when nobody holds it.
func (a *Caches) Close() {
	a.mu.Lock()
	a.closed = true
	var all []*Cache
	for _, some := range a.paths {
		all = append(all, some...)
	}
	a.mu.Unlock()
	for _, c := range all {
		c.close()
	}
}

// quiet notes that a cache is so, from now on. It is called with the cache's mutex held.
func (a *Caches) quiet(c *Cache) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if oldest := a.shelve(c); oldest != nil {
		c.then(func() { a.evict(oldest) })
	}
}

// shelve puts a cache in front of the quiet ones. It returns the last one, and takes it out, if there are too many. It is called with mu held.
func (a *Caches) shelve(c *Cache) (oldest *Cache) {
	if c.at == nil {
		c.at = a.quiets.PushFront(c)
	} else {
		a.quiets.MoveToFront(c.at)
	}
	if a.quiets.Len() <= a.most {
		return nil
	}
	oldest, _ = a.quiets.Remove(a.quiets.Back()).(*Cache)
	oldest.at = nil
	return oldest
}

// busy notes that a cache is not quiet. It is called with the cache's mutex held.
func (a *Caches) busy(c *Cache) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.at != nil {
		a.quiets.Remove(c.at)
		c.at = nil
	}
}

// evict has a cache give its idle node up, and forgets the cache if nothing is left of it.
func (a *Caches) evict(c *Cache) {
	c.mu.Lock()
	defer c.unlock()
	c.gone = true // so that it is not quiet when its node has gone
	for _, s := range slices.Clone(c.stays) {
		if s.book.Idle() {
			s.book = s.book.Spends()
			s.move()
		}
	}
	if c.gone = len(c.stays) == 0; !c.gone {
		return
	}
	a.busy(c)
	a.mu.Lock()
	defer a.mu.Unlock()
	left := slices.DeleteFunc(a.paths[c.path], func(other *Cache) bool { return other == c })
	if a.paths[c.path] = left; len(left) == 0 {
		delete(a.paths, c.path)
	}
}
