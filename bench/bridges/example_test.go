package bridges

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/go-co-op/gocron/v2"
	"github.com/pressly/goose/v3"
	"github.com/thejerf/suture/v4"
	"github.com/tus/tusd/v2/pkg/handler"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/coordinator/bridge/gocronlock"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// What follows are the blocks of docs/bridges.md, in its order.

var _ = []any{migrations, lead, jobs, certificates, serve, uploads}

func migrations(ctx context.Context, c *coordinator.Coordinator, db *sql.DB, files fs.FS) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	locker := bridge.NewMigrations(c.Mutex("/migrations/orders"), bridge.OnLost(cancel))
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithLocker(locker))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err // a *coordinator.LostError if the lock was lost
}

func lead(ctx context.Context, c *coordinator.Coordinator, report func(context.Context, int64) error) error {
	elector := bridge.NewElector(c.Election("/cron/leader"))
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		return err
	}
	_, err = scheduler.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(func(ctx context.Context) error {
		term, ok := elector.Term()
		if !ok {
			return bridge.ErrNotLeader
		}
		ctx, end := context.WithCancel(ctx) // gocron's context lives as long as the job, and term.Context as long as the term
		defer end()
		return report(term.Context(ctx), term.Grant().Token) // the context ends with the term
	}))
	if err != nil {
		return err
	}
	scheduler.Start()
	campaign, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	context.AfterFunc(ctx, func() {
		defer resign()
		_ = scheduler.Shutdown() // waits for the jobs, for 10 s at most: see gocron.WithStopTimeout
	})
	return elector.Run(campaign)
}

func jobs(ctx context.Context, c *coordinator.Coordinator, logger *zap.Logger) (gocron.Scheduler, error) {
	locker := gocronlock.New(c, "/cron/jobs", 10*time.Second, gocronlock.OnLost(func(err error) {
		logger.Warn("a job runs without its lock", zap.Error(err))
	}))
	return gocron.NewScheduler(gocron.WithDistributedLocker(locker))
}

func certificates(c *coordinator.Coordinator) {
	files := plainStorage{&certmagic.FileStorage{Path: "/shared/certificates"}}
	certmagic.Default.Storage = certificateStorage{files, &certificateLocks{c: c, root: "/certificates"}}
}

type plainStorage struct{ certmagic.Storage } // one level down, so that its locks give way

type certificateStorage struct {
	plainStorage
	*certificateLocks
}

// certificateLocks are certmagic's Locker and LockLeaseRenewer. Within a process a name
// stays taken until its Unlock.
type certificateLocks struct {
	c     *coordinator.Coordinator
	root  string
	names sync.Map // of each name that was ever locked, a *certificateLock
}

type certificateLock struct {
	turn chan struct{} // full while a caller of this process has the name
	held atomic.Pointer[coordinator.Acquisition]
}

func (l *certificateLocks) Lock(ctx context.Context, name string) error {
	found, _ := l.names.LoadOrStore(name, &certificateLock{turn: make(chan struct{}, 1)})
	lock := found.(*certificateLock)
	select {
	case lock.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := l.acquire(ctx, name, lock)
	if err != nil {
		<-lock.turn
	}
	return err
}

func (l *certificateLocks) acquire(ctx context.Context, name string, lock *certificateLock) error {
	a, err := l.c.Mutex(bridge.Path(l.root, name)).Hold(ctx)
	if err != nil {
		return err
	}
	lock.held.Store(a)
	return nil
}

// RenewLockLease is called before each attempt to obtain a certificate. After a loss it
// locks the name again.
func (l *certificateLocks) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	found, ok := l.names.Load(name)
	if !ok {
		return bridge.ErrNotLocked
	}
	lock := found.(*certificateLock)
	held := lock.held.Load()
	if held == nil {
		return bridge.ErrNotLocked
	}
	if held.Valid() {
		return nil
	}
	return l.acquire(ctx, name, lock)
}

func (l *certificateLocks) Unlock(ctx context.Context, name string) error {
	found, ok := l.names.Load(name)
	if !ok {
		return bridge.ErrNotLocked
	}
	lock := found.(*certificateLock)
	held := lock.held.Swap(nil)
	if held == nil {
		return bridge.ErrNotLocked // CleanUpOwnLocks repeats an Unlock that has failed
	}
	err := held.ReleaseAndWait(ctx) // a *coordinator.LostError if the lock was lost
	<-lock.turn
	return err
}

func serve(ctx context.Context, c *coordinator.Coordinator, index func(context.Context, int64) error) error {
	supervisor := suture.NewSimple("search")
	supervisor.Add(leader{c.Election("/search/indexer"), index})
	return supervisor.Serve(ctx)
}

// leader is a Service that works while it leads.
type leader struct {
	election *coordinator.Election
	work     func(ctx context.Context, token int64) error
}

// Serve campaigns once. When it returns, the supervisor calls it again.
func (l leader) Serve(ctx context.Context) error {
	return l.election.Do(ctx, func(ctx context.Context, g coordinator.Grant) error {
		return l.work(ctx, g.Token) // ctx ends with the term
	}) // a *coordinator.LostError after a loss
}

func uploads(c *coordinator.Coordinator, composer *handler.StoreComposer) {
	composer.UseLocker(uploadLocker{c, 10 * time.Second})
}

type uploadLocker struct {
	c     *coordinator.Coordinator
	grace time.Duration // a holder that has not unlocked by then loses the lock
}

func (l uploadLocker) NewLock(id string) (handler.Lock, error) {
	return &uploadLock{uploadLocker: l, path: bridge.Path("/uploads", id)}, nil
}

type uploadLock struct {
	uploadLocker
	path string
	held *coordinator.Acquisition
}

// Lock asks the holder, in whatever process it is, to unlock. It does not queue up: a
// request to the holder could reach the waiter that has just become the holder.
func (u *uploadLock) Lock(ctx context.Context, requestUnlock func()) error {
	lock := u.c.Mutex(u.path, coordinator.Revocable())
	for {
		a, err := lock.Hold(ctx, coordinator.Try())
		if err == nil {
			u.held = a
			go listen(a, requestUnlock)
			return nil
		}
		if !errors.Is(err, coordinator.ErrNotAcquired) {
			return err
		}
		if err := u.c.Revoke(ctx, u.path, u.grace); err != nil && !errors.Is(err, coordinator.ErrNotHeld) {
			return err
		}
	}
}

// listen asks the holder to unlock when another request wants the upload, and when the
// lock is lost.
func listen(a *coordinator.Acquisition, requestUnlock func()) {
	held := a.Context(context.Background())
	select {
	case <-a.Revoked():
		requestUnlock()
	case <-held.Done():
		if !errors.Is(context.Cause(held), coordinator.ErrReleased) {
			requestUnlock()
		}
	}
}

func (u *uploadLock) Unlock() error {
	ctx, cancel := context.WithTimeout(context.Background(), u.grace)
	defer cancel()
	return u.held.ReleaseAndWait(ctx) // a *coordinator.LostError if the lock was lost
}

// TestPageShowsCodeThatCompiles: each block of Go in docs/bridges.md is in this file, and
// it has all of this file's functions.
func TestPageShowsCodeThatCompiles(t *testing.T) {
	t.Parallel()
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	read := func(name string) string {
		text, err := os.ReadFile(name)
		eventstest.Must(t, err)
		return string(text)
	}
	code, page := words(read("example_test.go")), read("../../docs/bridges.md")
	blocks := regexp.MustCompile("(?ms)^```golang\n(.*?)^```$").FindAllStringSubmatch(page, -1)
	var shown strings.Builder
	for _, m := range blocks {
		compiled := strings.Contains(code, words(m[1]))
		eventstest.Expect(t, compiled, "this is on the page but is not compiled:\n%s", m[1])
		shown.WriteString(m[1])
	}
	for _, use := range []string{
		"bridge.NewMigrations", "bridge.NewElector", "gocronlock.New", "certificateStorage struct", ") Lock(", ") RenewLockLease(", ") Unlock(",
		") Serve(", "UseLocker(", "func listen(",
	} {
		eventstest.Expect(t, strings.Contains(shown.String(), use), "no block of the page has %s", use)
	}
	eventstest.Equal(t, len(blocks), strings.Count(page, "```golang"), "blocks that end, not only begin")
}
