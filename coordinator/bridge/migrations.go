package bridge

import (
	"context"
	"database/sql"

	"github.com/zkgrant/zkgrant/coordinator"
)

// Migrations lets one process at a time migrate a database. It is lock.Locker and lock.SessionLocker of goose; the database is not used.
//
// A loss is told by [OnLost], and the unlock returns it, as goose's provider does in the end. goose works on until the context of its caller
// ends, so let OnLost cancel that.
type Migrations struct {
	path  string
	names *Names // with this one
}

// NewMigrations returns a locker with the lock of the handle.
func NewMigrations(lock *coordinator.Lock, options ...Option) *Migrations {
	return &Migrations{lock.Path(), newNames(func(string) *coordinator.Lock { return lock }, options)}
}

// Lock waits for the lock, at most until ctx ends. Its errors are those of [coordinator.Acquisition.Wait].
func (m *Migrations) Lock(ctx context.Context, _ *sql.DB) error { return m.names.Lock(ctx, m.path) }

// Unlock gives the lock back, and waits until its node is gone or ctx ends. It returns a [*coordinator.LostError] if the lock was lost, and
// [ErrNotLocked] if it is not locked.
func (m *Migrations) Unlock(ctx context.Context, _ *sql.DB) error { return m.names.Unlock(ctx, m.path) }

// SessionLock is Lock.
func (m *Migrations) SessionLock(ctx context.Context, _ *sql.Conn) error { return m.Lock(ctx, nil) }

// SessionUnlock is Unlock.
func (m *Migrations) SessionUnlock(ctx context.Context, _ *sql.Conn) error { return m.Unlock(ctx, nil) }
