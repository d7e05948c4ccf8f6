package coordinator

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// Semaphore is a handle for a number of permits. It holds nothing, may be used any number
// of times, and from any goroutine.
type Semaphore struct {
	lock *Lock // its rule is that of who takes one permit
	size atomic.Int64
}

// Semaphore returns a handle for the semaphore at the path, which has so many permits. They are
// given out in the order in which they were asked for: whoever wants several gets them
// together, and nobody who came later is let in before.
//
// How many there are is agreed among all who use it: whoever comes first writes it to a node, `size`
// below the path, which stays. Who comes with another opinion gets [ErrSizeMismatch], unless the handle
// was made with [AdoptSize]. [Semaphore.Resize] changes it.
//
// On the wire it is Curator's InterProcessSemaphoreV2, and with one permit its
// InterProcessSemaphoreMutex. These do not know of the size, and have one of their
// own. Whatever is below `leases` counts as a permit that is taken, whoever made it.
func (c *Coordinator) Semaphore(path string, permits int, options ...LockOption) *Semaphore {
	s := &Semaphore{lock: c.lock(path, familySemaphore, recipes.Semaphore{Permits: 1}, options)}
	s.size.Store(int64(permits))
	return s
}

// Path returns the path that the handle was made with.
func (s *Semaphore) Path() string { return s.lock.path }

// Acquire asks for one permit, or as many as [WithPermits] says, and returns at once, as
// [Lock.Acquire] does. All permits of an acquisition are granted with one Grant, lost with one Lost,
// and given back with one Release.
//
// The Token grows from grant to grant. It tells an older holder from a newer one; who needs at most
// one writer at a time wants a mutex.
//
// A context that holds permits of the semaphore (see [Acquisition.Context]) may ask for more, unless
// it then had more than there are: it would wait for itself, which is [ErrDeadlock]. Several who do that
// can still come to wait for each other.
func (s *Semaphore) Acquire(ctx context.Context, options ...AcquireOption) *Acquisition {
	cfg := configOf(options)
	return s.taking(cfg).acquire(ctx, cfg)
}

// Do runs f while holding the permits; see [Lock.Do].
func (s *Semaphore) Do(ctx context.Context, f func(context.Context, events.Grant) error, options ...AcquireOption) error {
	cfg := configOf(options)
	return s.taking(cfg).do(ctx, f, cfg)
}

// Resize sets how many permits there are, for everybody who uses the semaphore, and from
// then on in the opinion of this handle. If there are more than before, who can now be
// granted is, in the order of the queue. If there are fewer nobody loses any: nothing is granted until
// enough were given back; who wants more than there are ends with [ErrPermits] when it is
// first in the queue.
//
// It returns when the servers have it. An error that is the cause of ctx leaves open whether they
// will. If a connection breaks it is sent again, so it may overrule another Resize of the same moment.
func (s *Semaphore) Resize(ctx context.Context, permits int) error {
	if permits <= 0 || permits > math.MaxInt32 {
		return fmt.Errorf("%w: a size of %d for %s", ErrPermits, permits, s.lock.path)
	}
	if err := s.lock.c.checkPath(s.lock.path); err != nil {
		return err
	}
	if err := s.lock.c.session.Resize(ctx, s.lock.path, int32(permits), s.lock.cfg.acl); err != nil {
		return fmt.Errorf("zkgrant: size of %s: %w", s.lock.path, err)
	}
	s.size.Store(int64(permits))
	return nil
}

// taking returns what one acquisition asks for. What does not fit the rule's numbers is
// found by checkPermits.
func (s *Semaphore) taking(cfg acquireConfig) *Lock {
	permits, size := int64(1), s.size.Load()
	if cfg.permits != nil {
		permits = int64(*cfg.permits)
	}
	l := *s.lock
	l.rule = recipes.Semaphore{Size: fitting(size), Permits: fitting(permits), Adopt: s.lock.cfg.adopt}
	return &l
}

// fitting returns the number, or 0, which no number of permits is, if it is none.
func fitting(n int64) int32 {
	if n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int32(n)
}

// permits returns how many permits of a semaphore the lock takes; 0: it is none.
func (l *Lock) permits() int {
	s, _ := l.rule.(recipes.Semaphore)
	return int(s.Permits)
}

// checkPermits finds numbers that cannot be had. each is how many bytes of a request a permit
// takes, about.
func (l *Lock) checkPermits(cfg acquireConfig, each int) error {
	s, ok := l.rule.(recipes.Semaphore)
	switch {
	case !ok && cfg.permits != nil:
		return fmt.Errorf("%w: %s is no semaphore", ErrPermits, l.path)
	case !ok:
		return nil
	case s.Size <= 0:
		return fmt.Errorf("%w: the size of %s", ErrPermits, l.path)
	case s.Permits <= 0:
		return fmt.Errorf("%w: %d of %s", ErrPermits, *cfg.permits, l.path)
	case s.Permits > s.Size && !s.Adopt:
		return fmt.Errorf("%w: %d of %s, which has %d", ErrPermits, s.Permits, l.path, s.Size)
	}
	const names = 128 // of a lease, with what a request has around it
	if int64(s.Permits)*int64(each+names)+overhead > session.MaxRequest {
		return fmt.Errorf("%w: %d permits of %s in one request", ErrTooLarge, s.Permits, l.path)
	}
	return nil
}

// checkOwn fails if the context holds so many permits already that there can never be as
// many as it asks for.
func (l *Lock) checkOwn(ctx context.Context) error {
	s, ok := l.rule.(recipes.Semaphore)
	if !ok || s.Adopt {
		return nil
	}
	total := int64(s.Permits)
	for o := ownerOf(ctx); o != nil; o = o.next {
		if held := o.acquisition; held.lock.c == l.c && held.lock.path == l.path && held.actor.Holding() {
			total += int64(held.lock.permits())
		}
	}
	if total > int64(s.Size) {
		return fmt.Errorf("%w: %d permits of %s, which has %d", ErrDeadlock, total, l.path, s.Size)
	}
	return nil
}

// explainSize says in what the opinions differ.
func (l *Lock) explainSize(end actors.End) error {
	s, _ := l.rule.(recipes.Semaphore)
	if end.Why == recipes.WhySizeMismatch {
		return fmt.Errorf("%w: %s has %d permits, and not %d", ErrSizeMismatch, l.path, end.Size, s.Size)
	}
	return fmt.Errorf("%w: %d of %s, which has %d", ErrPermits, s.Permits, l.path, end.Size)
}
