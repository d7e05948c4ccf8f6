package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// Names locks names, each with a mutex at its [Path]. It is certmagic's Locker, TryLocker and LockLeaseRenewer. Within one Names, a name
// stays taken until Unlock, even after a loss.
//
// A loss is told by [OnLost], and Unlock returns it. RenewLockLease repairs it.
type Names struct {
	lock  func(name string) *coordinator.Lock
	cfg   config
	mu    sync.Mutex
	slots map[string]*slot
}

// slot is a name that callers of this process hold or wait for.
type slot struct {
	turn  chan struct{} // full while a caller has its turn
	users int           // with a turn, or waiting for it
	held  *coordinator.Acquisition
}

// NewNames returns a locker of names below the root.
func NewNames(c *coordinator.Coordinator, root string, options ...Option) *Names {
	return newNames(func(name string) *coordinator.Lock { return c.Mutex(Path(root, name)) }, options)
}

func newNames(lock func(name string) *coordinator.Lock, options []Option) *Names {
	return &Names{lock: lock, cfg: configOf(options), slots: map[string]*slot{}}
}

// Lock waits for the lock, at most until ctx ends. Its errors are those of [coordinator.Acquisition.Wait].
func (n *Names) Lock(ctx context.Context, name string) error {
	s := n.enter(name)
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		n.leave(name, s)
		return fmt.Errorf("zkgrant: locking %.256s: %w", name, context.Cause(ctx))
	}
	return n.hold(ctx, name, s)
}

// TryLock locks if that needs no wait, and reports whether it has.
func (n *Names) TryLock(ctx context.Context, name string) (bool, error) {
	s := n.enter(name)
	select {
	case s.turn <- struct{}{}:
	default:
		n.leave(name, s)
		return false, nil
	}
	err := n.hold(ctx, name, s, coordinator.Try())
	if errors.Is(err, coordinator.ErrNotAcquired) {
		return false, nil
	}
	return err == nil, err
}

// Unlock gives the lock back, and waits until its node is gone or ctx ends. It returns a [*coordinator.LostError] if the lock was lost, and
// [ErrNotLocked] if the name is not locked. The name is free in each case.
func (n *Names) Unlock(ctx context.Context, name string) error {
	n.mu.Lock()
	s := n.slots[name]
	var a *coordinator.Acquisition
	if s != nil {
		a, s.held = s.held, nil
	}
	n.mu.Unlock()
	if a == nil {
		return fmt.Errorf("%w: %.256s", ErrNotLocked, name)
	}
	err := giveBack(ctx, a)
	<-s.turn
	n.leave(name, s)
	return err
}

// RenewLockLease returns nil at once while the lock is held: the session renews its lease by itself. After a loss it locks the name again, as
// Lock does. It returns [ErrNotLocked] if the name is not locked. certmagic calls it before each attempt to obtain a certificate.
func (n *Names) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	n.mu.Lock()
	s := n.slots[name]
	var old *coordinator.Acquisition
	if s != nil {
		old = s.held
	}
	n.mu.Unlock()
	switch {
	case old == nil:
		return fmt.Errorf("%w: %.256s", ErrNotLocked, name)
	case old.Valid():
		return nil
	}
	a, err := n.cfg.hold(ctx, n.lock(name))
	if err != nil {
		return err // Unlock reports the loss
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.held != old {
		a.Release()
		return fmt.Errorf("%w meanwhile: %.256s", ErrNotLocked, name)
	}
	s.held = a
	return nil
}

func (n *Names) enter(name string) *slot {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.slots[name]
	if s == nil {
		s = &slot{turn: make(chan struct{}, 1)}
		n.slots[name] = s
	}
	s.users++
	return s
}

func (n *Names) leave(name string, s *slot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(n.slots, name)
	}
}

// hold takes the lock for the caller that has its turn.
func (n *Names) hold(ctx context.Context, name string, s *slot, more ...coordinator.AcquireOption) error {
	a, err := n.cfg.hold(ctx, n.lock(name), more...)
	if err != nil {
		<-s.turn
		n.leave(name, s)
		return err
	}
	n.mu.Lock()
	s.held = a
	n.mu.Unlock()
	return nil
}
