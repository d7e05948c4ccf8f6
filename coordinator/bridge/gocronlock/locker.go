package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
)

// ErrShutdown reports a Lock after Shutdown or Close.
var ErrShutdown = errors.New("gocronlock: shut down")

// Option configures a Locker.
type Option func(*Locker)

// OnLost calls f when a held lock is lost, before another process can hold it. The error
// is a [*coordinator.LostError], or [coordinator.ErrClosed] if the coordinator was
// closed. f runs in its own goroutine. gocron does not stop the job.
func OnLost(f func(error)) Option { return func(l *Locker) { l.onLost = f } }

// Locker implements gocron's Locker. Each job has an unfair lock at the [bridge.Path] of
// its name.
type Locker struct {
	c       *coordinator.Coordinator
	root    string
	minimum time.Duration
	onLost  func(error)

	mu   sync.Mutex
	held int                   // locks not released yet
	kept map[*lock]*time.Timer // locks of finished jobs, until their minimum time is over
	over bool                  // no further lock is granted
	rush bool                  // ignore the minimum time from now on
	idle chan struct{}         // closed when over and nothing is held
}

// New returns a locker for jobs below root. It keeps each lock for at least the minimum
// time after its grant. Call Shutdown or Close after the scheduler has stopped.
func New(c *coordinator.Coordinator, root string, minimum time.Duration, options ...Option) *Locker {
	l := &Locker{c: c, root: root, minimum: minimum, kept: map[*lock]*time.Timer{}, idle: make(chan struct{})}
	for _, o := range options {
		if o != nil {
			o(l)
		}
	}
	return l
}

// Lock locks the job if no process holds its lock, and does not wait. Its errors are
// those of [coordinator.Lock.Hold], among them a [*events.HeldError];
// [coordinator.ErrInvalid] if the minimum is neither 0 nor at least 1 ms; and
// [ErrShutdown]. gocron then skips the job, and reports the error only to the listener
// AfterLockError.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	if l.minimum != 0 && l.minimum < time.Millisecond {
		return nil, fmt.Errorf("%w: gocronlock: a minimum of %v is neither 0 nor at least 1ms", coordinator.ErrInvalid, l.minimum)
	}
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return nil, ErrShutdown
	}
	l.held++
	l.mu.Unlock()

	a, err := l.c.Unfair(bridge.Path(l.root, key)).Hold(ctx, coordinator.Try())
	if err != nil {
		l.given()
		return nil, fmt.Errorf("gocronlock: %.256s: %w", key, err)
	}
	k := &lock{of: l, a: a, due: time.Now().Add(l.minimum)}
	l.watch(a) //nolint:contextcheck // ctx bounds the wait only
	return k, nil
}

// watch reports the loss of the lock.
func (l *Locker) watch(a *coordinator.Acquisition) {
	if l.onLost == nil {
		return
	}
	held := a.Context(context.Background())
	context.AfterFunc(held, func() {
		if end := context.Cause(held); !errors.Is(end, coordinator.ErrReleased) {
			l.onLost(end)
		}
	})
}

// given counts a lock as released.
func (l *Locker) given() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held--; l.held == 0 && l.over {
		close(l.idle)
	}
}

// Shutdown refuses further locks, and waits until all jobs are done and their minimum
// times are over. If ctx ends first, it returns the cause: by then it has released the
// locks of finished jobs, and each other lock is released as soon as its job is done.
func (l *Locker) Shutdown(ctx context.Context) error {
	l.mu.Lock()
	idle := l.held == 0
	if idle && !l.over {
		close(l.idle)
	}
	l.over = true
	l.mu.Unlock()
	if idle {
		return nil // even if ctx has ended, too
	}
	select {
	case <-l.idle:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.rush = true
	kept := l.kept
	l.kept = map[*lock]*time.Timer{}
	l.mu.Unlock()
	for k, timer := range kept {
		timer.Stop()
		k.a.Release()
		l.given()
	}
	return context.Cause(ctx)
}

// Close is [Locker.Shutdown] without waiting: it refuses further locks and releases those
// of finished jobs, even within their minimum time. The lock of a running job is released
// when the job is done.
func (l *Locker) Close() error {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.Shutdown(now) // the error only says that it did not wait
	return nil
}

// lock is a lock held for a job.
type lock struct {
	of  *Locker
	a   *coordinator.Acquisition
	due time.Time // the end of the minimum time

	unlocked bool // guarded by the mutex of the locker
}

// Unlock releases the lock. Before the end of the minimum time it returns at once, and
// the lock is released at that end. Otherwise it is
// [coordinator.Acquisition.ReleaseAndWait]: it returns [coordinator.ErrReleasePending] if
// ctx ends before the servers confirm the release, and a [*coordinator.LostError] if the
// lock was lost before.
func (k *lock) Unlock(ctx context.Context) error {
	l := k.of
	l.mu.Lock()
	if k.unlocked {
		l.mu.Unlock()
		return bridge.ErrNotLocked
	}
	k.unlocked = true
	if rest := time.Until(k.due); rest > 0 && !l.rush && k.a.Valid() {
		l.kept[k] = time.AfterFunc(rest, k.expire)
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	k.a.Release()
	l.given()
	return k.a.ReleaseAndWait(ctx)
}

// expire releases the lock at the end of the minimum time.
func (k *lock) expire() {
	l := k.of
	l.mu.Lock()
	_, kept := l.kept[k]
	delete(l.kept, k)
	l.mu.Unlock()
	if kept { // otherwise Shutdown has released it
		k.a.Release()
		l.given()
	}
}
