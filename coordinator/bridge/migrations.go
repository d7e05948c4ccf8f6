package bridge

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/zkgrant/zkgrant/coordinator"
)

// Migrations lets one process at a time migrate a database. It implements goose's
// lock.Locker and lock.SessionLocker, and does not use the database. Within one
// Migrations, the lock stays locked until the unlock, even after a loss.
//
// [OnLost] reports a loss. The unlock returns it, and so does goose's provider in the
// end. goose keeps working until its caller's context ends, so let OnLost cancel that
// context.
type Migrations struct {
	lock *coordinator.Lock
	cfg  config
	turn chan struct{} // full while a caller has the lock, or waits for it

	mu   sync.Mutex
	held *coordinator.Acquisition
}

// NewMigrations returns a Migrations that uses this lock.
func NewMigrations(lock *coordinator.Lock, options ...Option) *Migrations {
	return &Migrations{lock: lock, cfg: configOf(options), turn: make(chan struct{}, 1)}
}

// Lock waits for the lock until ctx ends. Its errors are those of [coordinator.Lock.Hold].
func (m *Migrations) Lock(ctx context.Context, _ *sql.DB) error {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("zkgrant: locking %.256s: %w", m.lock.Path(), context.Cause(ctx))
	}
	a, err := m.cfg.hold(ctx, m.lock)
	if err != nil {
		<-m.turn
		return err
	}
	m.mu.Lock()
	m.held = a
	m.mu.Unlock()
	return nil
}

// Unlock is [coordinator.Acquisition.ReleaseAndWait]: if ctx ends before the servers
// confirm the release, it returns [coordinator.ErrReleasePending], and if the lock was
// lost, a [*coordinator.LostError]. If it is not locked, it returns [ErrNotLocked].
func (m *Migrations) Unlock(ctx context.Context, _ *sql.DB) error {
	m.mu.Lock()
	a := m.held
	m.held = nil
	m.mu.Unlock()
	if a == nil {
		return fmt.Errorf("%w: %.256s", ErrNotLocked, m.lock.Path())
	}
	err := a.ReleaseAndWait(ctx)
	<-m.turn
	return err
}

// SessionLock is Lock.
func (m *Migrations) SessionLock(ctx context.Context, _ *sql.Conn) error { return m.Lock(ctx, nil) }

// SessionUnlock is Unlock.
func (m *Migrations) SessionUnlock(ctx context.Context, _ *sql.Conn) error { return m.Unlock(ctx, nil) }
