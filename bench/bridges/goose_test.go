package bridges

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

var (
	_ lock.Locker        = (*bridge.Migrations)(nil)
	_ lock.SessionLocker = (*bridge.Migrations)(nil)
)

// empty is a database without tables: goose stores no versions in it, and the test's
// migrations are functions.
type empty struct{}

var errNoStatements = errors.New("no statements here")

func (empty) Connect(context.Context) (driver.Conn, error) { return empty{}, nil }
func (empty) Driver() driver.Driver                        { return nil }
func (empty) Prepare(string) (driver.Stmt, error)          { return nil, errNoStatements }
func (empty) Begin() (driver.Tx, error)                    { return nil, errNoStatements }
func (empty) Close() error                                 { return nil }

// migrate runs one migration with a goose provider.
func migrate(ctx context.Context, locker goose.ProviderOption, migration func(context.Context) error) error {
	db := sql.OpenDB(empty{})
	defer db.Close()
	step := goose.NewGoMigration(1, &goose.GoFunc{RunDB: func(ctx context.Context, _ *sql.DB) error { return migration(ctx) }}, nil)
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, nil, locker,
		goose.WithGoMigrations(step), goose.WithDisableGlobalRegistry(true), goose.WithDisableVersioning(true))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// TestGooseMigratesInOneProcessAtATime: both of goose's interfaces use one lock, and a
// loss ends the migration.
func TestGooseMigratesInOneProcessAtATime(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(s stage) {
		const path = "/migrations"
		first, second := s.process(), s.process()
		inside, leave, done := make(chan struct{}), make(chan struct{}), make(chan error, 2)
		wait := func(ctx context.Context) error {
			inside <- struct{}{}
			select {
			case <-leave:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		ctx, cancel := context.WithCancelCause(s.Context())
		go func() {
			done <- migrate(ctx, goose.WithLocker(bridge.NewMigrations(first.Mutex(path), bridge.OnLost(cancel))), wait)
		}()
		<-inside
		go func() {
			done <- migrate(s.Context(), goose.WithSessionLocker(bridge.NewMigrations(second.Mutex(path))), wait)
		}()
		s.queued(first.Mutex(path), 2)
		select {
		case <-inside:
			s.Fatal("two processes migrate")
		default:
		}
		leave <- struct{}{}
		eventstest.Check(s, <-done)
		<-inside
		leave <- struct{}{}
		eventstest.Check(s, <-done)

		go func() {
			done <- migrate(ctx, goose.WithLocker(bridge.NewMigrations(first.Mutex(path), bridge.OnLost(cancel))), wait)
		}()
		<-inside
		s.lose(first)
		s.isLoss(<-done, "what goose returns after a loss")
		s.isLoss(context.Cause(ctx), "the end of the migration's context")
	})
}
