package actors

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file is about cached locks. A [Cache] is the lock of one path. Each of its stays is one node that the process has or queues
// up for. Mostly there is one; while its node is about to go, another one may queue up. [recipes.Stay] makes every decision.
//
// Grant, release, the news of another contender, loss and Close of a cached lock happen in the goroutine of the caller, under the
// cache's mutex. A function that may call the cache is never called under the mutex. So:
//
//  1. A Grant is published under the mutex. A loss noted behind it is told behind it. A loss noted before prevents it.
//  2. The session renews the lease for a node, and tells of the lease's end, from the machine's Grant to Rest, and again from a
//     Claim's fresh answer on. Rest is posted under the mutex, and no turn is granted between it and such an answer. So every
//     holder hears of the end of the lease.
//  3. The loop gives a machine every input, and the stay hears it behind the machine.

// StayPort is what a stay needs of the session for its node.
type StayPort interface {
	Port

	// Proven reports two facts: the epoch's session can be believed alive, and a write sent within two probe intervals was answered.
	Proven(epoch recipes.Epoch) bool
}

// Terms is what acquisitions that share a node have in common.
type Terms struct {
	Data, ACL string // of the node
	Revocable bool
	Handoffs  int32         // local grants at the most, once another contender is known
	For       time.Duration // how long local grants go on then
}

// CacheConfig is what a cache is made with.
type CacheConfig struct {
	All      *Caches
	Idle     time.Duration        // how long an unwanted node stays
	Interval func() time.Duration // between two probes
	// Queue returns a lock that queues up for a node, or an error. The function start starts it.
	Queue func(beside Beside) (lock *Lock, port StayPort, start func(try bool), err error)
}

// Cache is the cached lock of one path.
type Cache struct {
	path  string
	terms Terms
	cfg   CacheConfig
	at    *list.Element // among the quiet caches; the mutex of all caches guards it

	mu    sync.Mutex
	stays []*stay // the newest is the last
	habit recipes.Habit
	gone  bool     // the cache is not in cfg.All any more
	todo  []func() // calls for when the mutex is free
}

// then has f called when the mutex is free. It is called with mu held.
func (c *Cache) then(f func()) { c.todo = append(c.todo, f) }

// unlock unlocks the mutex, and calls what then has collected.
func (c *Cache) unlock() {
	todo := c.todo
	c.todo = nil
	c.mu.Unlock()
	for _, f := range todo {
		f()
	}
}

// ask has a turn wait for the lock, or turns it away. A turn that was admitted to the lock is granted it.
func (c *Cache) ask(t *turn) {
	c.mu.Lock()
	defer c.unlock()
	switch t.is {
	case turnHolds: // it was admitted
		t.stay.grants(t)
		return
	case turnNew:
	case turnWaits, turnOver:
		return
	}
	if c.gone { // since it was looked up
		c.gone = false
		c.cfg.All.enter(c)
	}
	if t.try && !c.mayTry() {
		t.isTurnedAway()
		return
	}
	c.elsewhere(t)
}

// mayTry reports whether a turn that only tries may have the lock.
func (c *Cache) mayTry() bool {
	if len(c.stays) == 0 {
		return true
	}
	s := c.stays[len(c.stays)-1]
	return s.book.Accepts() && s.epoch != 0 && !s.book.Held() && s.first == nil
}

// elsewhere has a turn wait for the newest stay that accepts it, or for a new stay. It is called with mu held.
func (c *Cache) elsewhere(t *turn) {
	if t.is == turnWaits && t.try { // its stay had no turn for it
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

// begin returns a new stay, whose node queues up.
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

// worth asks the habit whether it pays to keep the node.
func (c *Cache) worth(node string) (worth bool) {
	name, _ := events.ParseName(node)
	c.habit, worth = c.habit.Worth(name.Seq)
	return worth
}

// forget removes a stay.
func (c *Cache) forget(s *stay) {
	c.habit = c.habit.Ended(s.book)
	i := slices.Index(c.stays, s)
	c.stays = slices.Delete(c.stays, i, i+1)
	if len(c.stays) == 0 && !c.gone {
		c.cfg.All.quiet(c)
	}
}

// want notes that another acquisition of the process, one that is not of this cache, is about to queue up. It is a contender of its
// own and takes no turn's place.
func (c *Cache) want() {
	c.mu.Lock()
	defer c.unlock()
	for _, s := range slices.Clone(c.stays) {
		s.wants()
		s.move()
	}
}

// close has every node go as soon as it is not held.
func (c *Cache) close() {
	c.mu.Lock()
	defer c.unlock()
	for _, s := range slices.Clone(c.stays) {
		s.book = s.book.Spends()
		s.move()
	}
}

// Caches are the caches of a session, by path. Caches of one path with different terms stand beside each other, like contenders of
// different sessions. A quiet cache has an idle node, or none. If there are too many quiet caches, the one that has been quiet for
// longest goes.
type Caches struct {
	most int

	mu     sync.Mutex
	paths  map[string][]*Cache
	quiets list.List // of *Cache, the latest first
	closed bool
}

// NewCaches returns an empty Caches, with at most so many quiet caches.
func NewCaches(most int) *Caches { return &Caches{most: most, paths: map[string][]*Cache{}} }

// At returns the cache of the path and the terms, and makes it if there is none. It returns nil when the caches are closed.
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

// enter takes a forgotten cache in again. It is called with the cache's mutex held.
func (a *Caches) enter(c *Cache) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.paths[c.path], c) {
		a.paths[c.path] = append(a.paths[c.path], c)
	}
}

// Want notes that a contender of the process that is not cached is about to queue up at the path.
func (a *Caches) Want(path string) { a.want(path, nil) }

// want is Want for a contender of the cache by, which is not told; nil: of no cache.
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

// Close has every node go as soon as it is not held.
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

// quiet notes that a cache is quiet from now on. It is called with the cache's mutex held.
func (a *Caches) quiet(c *Cache) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if oldest := a.shelve(c); oldest != nil {
		c.then(func() { a.evict(oldest) })
	}
}

// shelve puts a cache in front of the quiet ones. If there are too many, it takes the last one out and returns it. It is called
// with mu held.
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

// GiveUp has the node go that has been idle for longest, and returns its port, and those of any other idle
// nodes of that path. It returns none if no node is idle.
func (a *Caches) GiveUp() (ports []StayPort) {
	for ports == nil {
		a.mu.Lock()
		last := a.quiets.Back()
		if last == nil {
			a.mu.Unlock()
			return nil
		}
		oldest, _ := a.quiets.Remove(last).(*Cache)
		oldest.at = nil
		a.mu.Unlock()
		ports = a.evict(oldest)
	}
	return ports
}

// evict has a cache give up its idle node, and forgets the cache if it has no node left. It returns the ports
// of what has gone.
func (a *Caches) evict(c *Cache) (ports []StayPort) {
	c.mu.Lock()
	defer c.unlock()
	c.gone = true // so that forget does not make it quiet
	for _, s := range slices.Clone(c.stays) {
		if s.book.Idle() {
			ports = append(ports, s.port)
			s.book = s.book.Spends()
			s.move()
		}
	}
	if c.gone = len(c.stays) == 0; !c.gone {
		return ports
	}
	a.busy(c)
	a.mu.Lock()
	defer a.mu.Unlock()
	left := slices.DeleteFunc(a.paths[c.path], func(other *Cache) bool { return other == c })
	if a.paths[c.path] = left; len(left) == 0 {
		delete(a.paths, c.path)
	}
	return ports
}
