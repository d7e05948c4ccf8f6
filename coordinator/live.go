package coordinator

import (
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/session"
)

// live has the acquisitions that are not over, by path. The map has the latest one at
// each path, which links to the previous one, and so on: an intrusive list, because a
// process may hold 100,000 locks.
type live struct {
	mu     sync.Mutex // guards all fields
	paths  map[string]*Acquisition
	count  int
	empty  chan struct{} // closed when the count is 0 and closed is set
	closed bool
	watch  func() // called when there are acquisitions again; see waiters; may be nil
	seen   bool   // watch was called, and waiters has found acquisitions ever since
	inner  int    // acquisitions at a path that a semaphore above would use

	// By multi-lock: the entries at the paths of all its members but the first. It is nil
	// until there is one.
	others map[*Acquisition][]*Acquisition
}

// enter adds an acquisition, unless the coordinator is closed or its path is in use as
// another kind of lock.
func (l *live) enter(a *Acquisition) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	locks := []*Lock{a.lock}
	if m := a.lock.members; m != nil {
		locks = m.locks
	}
	// Check all members before entering the first one, so that a refusal leaves nothing.
	for _, lock := range locks {
		if l.paths[lock.path] == nil && lock.above == "" && l.inner == 0 {
			continue // nothing to conflict with
		}
		switch err := l.checkKind(lock); {
		case err != nil && a.lock.members != nil:
			return lock.failed(err)
		case err != nil:
			return err
		}
	}
	// A multi-lock has an entry at each other member's path, too, without an ID.
	for i, lock := range locks {
		entry := a
		if i > 0 {
			entry = &Acquisition{lock: lock, actor: a.actor}
			if l.others == nil {
				l.others = map[*Acquisition][]*Acquisition{}
			}
			l.others[a] = append(l.others[a], entry)
		}
		if lock.above != "" {
			l.inner++
		}
		entry.earlier = l.paths[lock.path]
		if entry.earlier != nil {
			entry.earlier.later = entry
		}
		l.paths[lock.path] = entry
	}
	// The timer that reports long waits runs only while there are acquisitions.
	if l.count++; !l.seen && l.watch != nil {
		l.seen = true
		l.watch()
	}
	return nil
}

// waiters returns the acquisitions that have waited for at least this long, and whether
// to call it again. If not, watch is called when there are acquisitions again.
func (l *live) waiters(long time.Duration) (all []*Acquisition, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.paths {
		for ; a != nil; a = a.earlier {
			if waited, ok := a.actor.Waiting(); ok && waited >= long && a.id != 0 {
				all = append(all, a)
			}
		}
	}
	l.seen = len(l.paths) > 0 && !l.closed
	return all, l.seen
}

// checkKind fails if the path is in use as another kind of lock. It is called with mu
// held.
func (l *live) checkKind(lock *Lock) error {
	if err := l.checkInner(lock); err != nil {
		return err
	}
	latest := l.paths[lock.path]
	if latest == nil || latest.lock.isOfKind(lock) {
		return nil
	}
	for other := latest; other != nil; other = other.earlier {
		// If the other one is done, its end is known, and its node will soon be gone.
		if !other.lock.isOfKind(lock) && !other.isDone() {
			return fmt.Errorf("%w: %s is already used as %s, not as %s",
				ErrKind, lock.path, other.lock.usedAs(), lock.usedAs())
		}
	}
	return nil
}

// checkInner fails for a lock inside a semaphore that is in use, and for a semaphore with
// such a lock inside. It is called with mu held.
func (l *live) checkInner(lock *Lock) error {
	if lock.above != "" && l.uses(lock.above, kindSemaphore) {
		return session.ErrInner(lock.path)
	}
	if l.inner == 0 || lock.kind != kindSemaphore {
		return nil
	}
	queue, permits := session.SemaphoreDirs(lock.path)
	for _, inner := range []string{queue, permits, path.Join(lock.path, session.SizeNode)} {
		if l.uses(inner, nil) {
			return session.ErrInner(inner)
		}
	}
	return nil
}

// uses reports whether the path is in use as this kind, or as any kind if that is nil. It
// is called with mu held.
func (l *live) uses(path string, as *kind) bool {
	for a := l.paths[path]; a != nil; a = a.earlier {
		if (as == nil || a.lock.kind == as) && !a.isDone() {
			return true
		}
	}
	return false
}

// isOf fails if the coordinator uses the path as another kind of lock.
func (l *live) isOf(lock *Lock) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checkKind(lock)
}

// leave forgets an acquisition that is over. It does nothing for one that enter refused.
func (l *live) leave(a *Acquisition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.later == nil && l.paths[a.lock.path] != a {
		return // enter refused it, or it left already
	}
	for _, entry := range append([]*Acquisition{a}, l.others[a]...) {
		path := entry.lock.path
		switch {
		case entry.later != nil:
			entry.later.earlier = entry.earlier
		case entry.earlier != nil:
			l.paths[path] = entry.earlier
		default:
			delete(l.paths, path)
		}
		if entry.earlier != nil {
			entry.earlier.later = entry.later
		}
		if entry.lock.above != "" {
			l.inner--
		}
		entry.earlier, entry.later = nil, nil // a caller may keep it for a long time
	}
	delete(l.others, a)
	if l.count--; l.closed && l.count == 0 {
		close(l.empty)
	}
}

// hold counts the node of a cached lock, which has no acquisition here. unhold ends that.
func (l *live) hold() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.count++
	return nil
}

func (l *live) unhold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count--; l.closed && l.count == 0 {
		close(l.empty)
	}
}

// close makes every later enter fail. It returns the live acquisitions, a channel that is
// closed when none is left, and whether this is the first call.
func (l *live) close() (all []*Acquisition, empty <-chan struct{}, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, false
	}
	l.closed, l.empty = true, make(chan struct{})
	if l.count == 0 {
		close(l.empty)
	}
	all = make([]*Acquisition, 0, l.count)
	for _, a := range l.paths {
		for ; a != nil; a = a.earlier {
			if a.id != 0 { // an ID of 0: a multi-lock's entry at another path
				all = append(all, a)
			}
		}
	}
	return all, l.empty, true
}

// at returns the acquisitions at a path.
func (l *live) at(path string) (all []*Acquisition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a := l.paths[path]; a != nil; a = a.earlier {
		all = append(all, a)
	}
	return all
}

func (l *live) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}
