package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

var shared chromium

// chromium is a Chromium process, started on first use.
type chromium struct {
	mu  sync.Mutex
	ctx context.Context // of the browser; nil before the start
	end func() error    // nil before the start
}

// Main runs the tests of a package, ends Chromium, and exits. A leaked goroutine is a
// failure. TestMain calls it.
func Main(m *testing.M) {
	code := m.Run()
	var err error
	if shared.end != nil {
		err = shared.end()
	}
	if code == 0 {
		err = errors.Join(err, goleak.Find())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// program finds Chromium, or skips the test.
func program(tb testing.TB) string {
	tb.Helper()
	name := os.Getenv("CHROMIUM")
	if name == "" {
		name = "chromium"
	}
	found, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("ZKGRANT_REAL") == "1" {
			tb.Fatalf("no Chromium: %v; bench/deps installs it, or set CHROMIUM to the program", err)
		}
		tb.Skipf("needs Chromium: %v; bench/deps installs it, or set CHROMIUM to the program", err)
	}
	return found
}

// context returns the browser's context. It starts the browser if necessary.
func (c *chromium) context(tb testing.TB) context.Context {
	tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil {
		return c.ctx
	}
	path := program(tb)
	folder, err := os.MkdirTemp("", "zkgrant-chromium-") //nolint:usetesting // it outlives the first test
	eventstest.Must(tb, err)
	flags := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(folder), chromedp.Headless, chromedp.NoFirstRun}
	for _, name := range []string{
		"no-sandbox", "disable-gpu", "disable-quic", "disable-background-networking", "disable-component-update", "disable-sync",
		"no-default-browser-check", "disable-default-apps", "disable-extensions", "disable-dev-shm-usage", "disable-breakpad",
		"disable-background-timer-throttling", "disable-renderer-backgrounding", "disable-backgrounding-occluded-windows", "hide-scrollbars",
	} {
		flags = append(flags, chromedp.Flag(name, true))
	}
	flags = append(flags, chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("lang", "en-GB"))
	allocator, gone := chromedp.NewExecAllocator(context.Background(), flags...) // the kernel ends Chromium with this process
	ctx, cancel := chromedp.NewContext(allocator)
	end := func() error {
		err := chromedp.Cancel(ctx) // an orderly end
		cancel()
		gone()
		return errors.Join(err, os.RemoveAll(folder))
	}
	if err := chromedp.Do(ctx); err != nil {
		tb.Fatalf("starting %s: %v", path, errors.Join(err, end()))
	}
	c.ctx, c.end = ctx, end
	return ctx
}
