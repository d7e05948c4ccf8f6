package bridges

import (
	"context"
	"database/sql"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
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
	"github.com/zkgrant/zkgrant/events"
)

// The functions below are the blocks of docs/bridges.md, in its order.

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
		_ = scheduler.Shutdown() // waits for the jobs
	})
	return elector.Run(campaign)
}

func jobs(ctx context.Context, c *coordinator.Coordinator, logger *zap.Logger) (gocron.Scheduler, error) {
	locker := gocronlock.New(c, "/cron/jobs", 10*time.Second, gocronlock.OnLost(func(err error) {
		logger.Warn("a job runs without its lock", zap.Error(err))
	}))
	return gocron.NewScheduler(gocron.WithDistributedLocker(locker))
}

func certificates(c *coordinator.Coordinator, logger *zap.Logger) {
	locks := bridge.NewNames(c, "/certificates", bridge.OnLost(func(err error) {
		logger.Warn("a certificate is obtained without its lock", zap.Error(err))
	}))
	certmagic.Default.Storage = certificateStorage{plainStorage{&certmagic.FileStorage{Path: "/shared/certificates"}}, locks}
}

type plainStorage struct{ certmagic.Storage } // one level down, so that its locks give way

type certificateStorage struct {
	plainStorage
	*bridge.Names
}

func serve(ctx context.Context, c *coordinator.Coordinator, index func(context.Context, int64) error) error {
	supervisor := suture.NewSimple("search")
	supervisor.Add(bridge.NewService(c.Election("/search/indexer"), func(ctx context.Context, g events.Grant) error {
		return index(ctx, g.Token) // the context ends with the term
	}))
	return supervisor.Serve(ctx)
}

func uploads(c *coordinator.Coordinator, composer *handler.StoreComposer) {
	composer.UseLocker(uploadLocker{bridge.NewUploads(c, "/uploads", 10*time.Second)})
}

type uploadLocker struct{ *bridge.Uploads }

func (l uploadLocker) NewLock(id string) (handler.Lock, error) { return l.Uploads.NewLock(id) }

// TestPageShowsCodeThatCompiles: each block of Go in docs/bridges.md is in this file, and it has a block for each adapter.
func TestPageShowsCodeThatCompiles(t *testing.T) {
	t.Parallel()
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	code, page := words(read("example_test.go")), read("../../docs/bridges.md")
	blocks := regexp.MustCompile("(?ms)^```golang\n(.*?)^```$").FindAllStringSubmatch(page, -1)
	used := map[string]bool{}
	for _, m := range blocks {
		if !strings.Contains(code, words(m[1])) {
			t.Errorf("this is on the page but is not compiled:\n%s", m[1])
		}
		for _, name := range regexp.MustCompile(`(?:bridge|gocronlock)\.New\w*`).FindAllString(m[1], -1) {
			used[name] = true
		}
	}
	want := []string{"bridge.NewElector", "bridge.NewMigrations", "bridge.NewNames", "bridge.NewService", "bridge.NewUploads", "gocronlock.New"}
	for _, name := range want {
		if !used[name] {
			t.Errorf("no block of the page uses %s", name)
		}
	}
	if fences := strings.Count(page, "```golang"); fences != len(blocks) || len(used) != len(want) {
		t.Errorf("%d blocks begin and %d end, and they use %d adapters, want all of %q", fences, len(blocks), len(used), slices.Sorted(slices.Values(want)))
	}
}
