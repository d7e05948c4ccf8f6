package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// Semaphore is the [Handle] of a semaphore.
type Semaphore struct {
	lock *Lock // its rule is for one permit

	mu       sync.RWMutex // read-locked until an acquisition is in live, where Resize finds it
	size     int64        // as far as this handle knows
	resizing int          // calls of Resize in progress
	written  int64        // the zxid of the size, while such calls are in progress; else 0
}

// Semaphore returns a handle for the semaphore at the path, with this many permits,
// granted in order of arrival. The first contender writes the size to the node `size`
// below the path; that node stays. Another size is [ErrSizeMismatch], unless the handle
// has [AdoptSize].
func (c *Coordinator) Semaphore(path string, permits int, options ...LockOption) *Semaphore {
	return &Semaphore{
		lock: c.handle(path, kindSemaphore, recipes.Semaphore{Permits: 1}, lockConfigOf(options)),
		size: int64(permits),
	}
}

// Path returns the path.
func (s *Semaphore) Path() string { return s.lock.path }

// Acquire requests one permit, or [Permits]. All come with one Grant, and end with one
// Lost or one Release. The Token fences only if the size is 1. A context that holds
// permits may request more, but not beyond the size ([ErrDeadlock]).
func (s *Semaphore) Acquire(ctx context.Context, options ...AcquireOption) *Acquisition {
	return s.acquire(ctx, configOf(options))
}

func (s *Semaphore) acquire(ctx context.Context, cfg acquireConfig) *Acquisition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.taking(cfg).acquire(ctx, cfg)
}

// Do runs f while holding the permits; see [Lock.Do].
func (s *Semaphore) Do(ctx context.Context, f func(context.Context, events.Grant) error,
	options ...AcquireOption) error {
	return do(ctx, s, f, options)
}

// Resize sets the number of permits for every process and for this handle. Waiters follow
// it; later acquisitions of other handles end with [ErrSizeMismatch], unless they have
// [AdoptSize]. No permit is revoked. After [ErrClosed] or the cause of ctx, it may have
// happened.
func (s *Semaphore) Resize(ctx context.Context, permits int) error {
	if permits <= 0 || permits > math.MaxInt32 {
		return fmt.Errorf("%w: a size of %d for %s", errInvalidPermits, permits, s.lock.path)
	}
	if err := cmp.Or(s.lock.err, s.lock.unfit); err != nil {
		return err
	}
	if err := s.lock.c.live.isOf(s.lock); err != nil {
		return err
	}
	s.announce()
	zxid, err := s.lock.c.session.Resize(ctx, s.lock.path, int32(permits), s.lock.cfg.acl)
	s.mu.Lock()
	defer s.mu.Unlock()
	// Of concurrent calls, the one that wrote its size last may return first.
	if err == nil && zxid > s.written {
		s.size, s.written = int64(permits), zxid
	}
	if s.resizing--; s.resizing == 0 {
		s.written = 0 // a later call writes later, even if an operator has reset the servers
	}
	if err != nil {
		return fmt.Errorf("zkgrant: size of %s: %w", s.lock.path, err)
	}
	return nil
}

// announce notes that the size is about to change. Until the outcome is known, every
// earlier acquisition at the path, and every new one of this handle, accepts any size.
// Otherwise:
//
//  1. A caller requests a permit.
//  2. Resize returns.
//  3. The acquisition finds the new size, which is not the one that it expects.
func (s *Semaphore) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resizing++
	for _, a := range s.lock.c.live.at(s.lock.path) {
		if a.lock.kind == kindSemaphore {
			a.actor.Adopt()
		}
	}
}

// taking returns the lock for one acquisition; checkPermits rejects numbers out of range.
// It is called with mu held.
func (s *Semaphore) taking(cfg acquireConfig) *Lock {
	permits := int64(1)
	if cfg.permits != nil {
		permits = int64(*cfg.permits)
	}
	l := *s.lock
	l.rule = recipes.Semaphore{Size: fitting(s.size), Permits: fitting(permits),
		Adopt: s.lock.cfg.adopt || s.resizing > 0}
	return &l
}

// fitting returns n, or 0 if n is not a valid number of permits.
func fitting(n int64) int32 {
	if n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int32(n)
}

// permits returns how many permits the lock takes, or 0 if it is not a semaphore.
func (l *Lock) permits() int {
	s, _ := l.rule.(recipes.Semaphore)
	return int(s.Permits)
}

// checkPermits rejects numbers that can never be granted. each is roughly how many bytes
// of a request a permit takes.
func (l *Lock) checkPermits(cfg acquireConfig, each int) error {
	s, _ := l.rule.(recipes.Semaphore)
	switch {
	case s.Size <= 0:
		return fmt.Errorf("%w: the size of %s is not between 1 and %d",
			errInvalidPermits, l.path, math.MaxInt32)
	case s.Permits <= 0:
		return fmt.Errorf("%w: %d of %s", errInvalidPermits, *cfg.permits, l.path)
	case s.Permits > s.Size && !s.Adopt:
		return fmt.Errorf("%w: %d of %s, which has %d", errInvalidPermits, s.Permits, l.path, s.Size)
	}
	const names = 128 // for the names of a permit and their encoding
	if int64(s.Permits)*int64(each+names)+overhead > session.MaxRequest {
		return fmt.Errorf("%w: %d permits of %s in one request", ErrTooLarge, s.Permits, l.path)
	}
	return nil
}

// explainSize returns an error that says how the sizes or numbers differ.
func (l *Lock) explainSize(end actors.End) error {
	s, _ := l.rule.(recipes.Semaphore)
	if end.Why == recipes.WhySizeMismatch {
		return fmt.Errorf("%w: %s has %d permits, not %d", ErrSizeMismatch, l.path, end.Size, s.Size)
	}
	return fmt.Errorf("%w: %d of %s, which has %d", ErrPermits, s.Permits, l.path, end.Size)
}
