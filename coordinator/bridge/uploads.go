package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// Uploads locks uploads by their ids, for tusd. A request that finds an upload locked asks the holder for it, in whatever process that is.
//
// tusd's Locker returns a type of tusd, so a program has to say that an [Upload] is one:
//
//	type locker struct{ *bridge.Uploads }
//
//	func (l locker) NewLock(id string) (handler.Lock, error) { return l.Uploads.NewLock(id) }
type Uploads struct {
	c     *coordinator.Coordinator
	root  string
	grace time.Duration
	cfg   config
}

// NewUploads returns a locker of uploads below the root. A holder that has not given an upload back when the grace is over loses it.
func NewUploads(c *coordinator.Coordinator, root string, grace time.Duration, options ...Option) *Uploads {
	return &Uploads{c: c, root: root, grace: grace, cfg: configOf(options)}
}

// NewLock returns the lock of an upload, which is not locked. It fails with [coordinator.ErrGrace] if the grace is negative.
func (u *Uploads) NewLock(id string) (*Upload, error) {
	if u.grace < 0 {
		return nil, fmt.Errorf("%w: %v for %.256s", coordinator.ErrGrace, u.grace, id)
	}
	return &Upload{of: u, path: Path(u.root, id)}, nil
}

// Upload is the lock of one request for an upload. It is handler.Lock of tusd.
//
// A loss is told as a request to unlock, and by [OnLost]; Unlock returns it.
type Upload struct {
	of   *Uploads
	path string

	mu   sync.Mutex
	held *coordinator.Acquisition
}

// Lock waits for the lock, at most until ctx ends, and asks a holder to unlock. A holder that was asked has to unlock, or loses the lock, also
// after the end of ctx. requestUnlock is called at most once: when another request asks for the upload, or when the lock is lost. The errors
// are those of [coordinator.Acquisition.Wait] and of [coordinator.Coordinator.Revoke], and [coordinator.ErrInvalid] if it is locked already.
func (u *Upload) Lock(ctx context.Context, requestUnlock func()) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.held != nil {
		return fmt.Errorf("%w: %.256s is locked already", coordinator.ErrInvalid, u.path)
	}
	lock := u.of.c.Mutex(u.path, coordinator.Revocable())
	for {
		// No queueing: a request to the holder could reach the waiter that has just become the holder.
		a, err := u.of.cfg.hold(ctx, lock, coordinator.Try())
		if err == nil {
			u.held = a
			go listen(a, requestUnlock) //nolint:contextcheck // ctx bounds the wait only
			return nil
		}
		if !errors.Is(err, coordinator.ErrNotAcquired) {
			return err
		}
		if err := u.of.c.Revoke(ctx, u.path, u.of.grace); err != nil && !errors.Is(err, coordinator.ErrNotHeld) {
			return err
		}
	}
}

// listen calls the function when another request asks for the lock, or when the lock is lost.
func listen(a *coordinator.Acquisition, requestUnlock func()) {
	held := a.Context(context.Background())
	select {
	case <-a.Revoked():
	case <-held.Done():
		if errors.Is(context.Cause(held), coordinator.ErrReleased) {
			return
		}
	}
	requestUnlock()
}

// Unlock gives the upload back, and waits until its node is gone. It returns a [*coordinator.LostError] if the lock was lost, and
// [ErrNotLocked] if it is not locked.
func (u *Upload) Unlock() error {
	u.mu.Lock()
	a := u.held
	u.held = nil
	u.mu.Unlock()
	if a == nil {
		return fmt.Errorf("%w: %.256s", ErrNotLocked, u.path)
	}
	return giveBack(context.Background(), a)
}
