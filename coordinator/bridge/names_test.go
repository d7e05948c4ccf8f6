package bridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestPathsOfNames: any name is one component of a valid path, and no two names share one.
func TestPathsOfNames(t *testing.T) {
	t.Parallel()
	names := map[string]string{ // by path
		"/r/plain-1.example":       "plain-1.example",
		"/r/issue_cert_a.example":  "issue_cert_a.example",
		"/r/acme%2Fv02%2Fa@b.json": "acme/v02/a@b.json",
		"/r/acme%252Fv02":          "acme%2Fv02",
		"/r/%2E":                   ".",
		"/r/%2E%2E":                "..",
		"/r/...":                   "...",
		"/r/%252E":                 "%2E",
		"/r/%00%7F":                "\x00\x7f",
		"/r/%2A.example":           "*.example",
		"/r/%F0%9F%94%92":          "🔒",
		"/r/%FF%FE":                "\xff\xfe",
		"/r/%20%0A":                " \n",
	}
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		n := bridge.NewNames(coordtest.Connect(t, srv), "/r")
		for want, name := range names {
			if got := bridge.Path("/r", name); got != want {
				t.Errorf("the path of %q is %s, want %s", name, got, want)
			}
			if err := n.Lock(t.Context(), name); err != nil {
				t.Errorf("locking %q: %v", name, err)
			} else if !srv.Exists(want) {
				t.Errorf("%q is locked and there is no %s; there are %q", name, want, srv.Tree())
			}
		}
		for _, name := range names {
			eventstest.Check(t, n.Unlock(t.Context(), name))
		}
	})
}

// TestNamesBelowTheTop: the servers have one of them for themselves.
func TestNamesBelowTheTop(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		n := bridge.NewNames(coordtest.Connect(t, srv), "/")
		if err := n.Lock(t.Context(), "zookeeper"); !errors.Is(err, coordinator.ErrPath) {
			t.Errorf("locking zookeeper below /: %v, want ErrPath", err)
		}
		eventstest.Must(t, n.Lock(t.Context(), "a"))
		if !srv.Exists("/a") {
			t.Errorf("a is locked below / and there is no /a; there are %q", srv.Tree())
		}
		eventstest.Check(t, n.Unlock(t.Context(), "a"))
	})
}

// TestWithAcquireIsForEachAcquisition: of a name, of one that is tried, and of a term.
func TestWithAcquireIsForEachAcquisition(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		data := func(path string) string {
			queue, err := c.Mutex(path).Queue(t.Context())
			eventstest.Must(t, err)
			if len(queue) != 1 {
				t.Fatalf("at %s there are %d contenders, want 1", path, len(queue))
			}
			return string(queue[0].Data)
		}
		ann := bridge.WithAcquire(coordinator.WithData([]byte("ann")))
		n := bridge.NewNames(c, "/r", ann)
		eventstest.Must(t, n.Lock(t.Context(), "a"))
		if locked, err := n.TryLock(t.Context(), "b"); !locked || err != nil {
			t.Fatalf("TryLock = %v, %v; want true", locked, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		e := bridge.NewElector(c.Election("/leader"), ann)
		go func() { ran <- e.Run(ctx) }()
		synctest.Wait()
		for _, path := range []string{"/r/a", "/r/b", "/leader"} {
			if got := data(path); got != "ann" {
				t.Errorf("at %s the holder's data are %q, want ann", path, got)
			}
		}
		cancel()
		if err := <-ran; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want the end of its context", err)
		}
		eventstest.Check(t, n.Unlock(t.Context(), "a"))
		eventstest.Check(t, n.Unlock(t.Context(), "b"))
	})
}

func FuzzPath(f *testing.F) {
	for _, name := range []string{".", "..", "a/b", "%2E", "\xff", "ü", ""} {
		f.Add(name, name+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if pa, pb := bridge.Path("/r", a), bridge.Path("/r", b); (pa == pb) != (a == b) {
			t.Errorf("the paths of %q and %q are %s and %s", a, b, pa, pb)
		}
		part, _ := strings.CutPrefix(bridge.Path("/r", a), "/r/")
		if part == "." || part == ".." || strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' }) {
			t.Errorf("%q becomes %q, which is no component of a path", a, part)
		}
	})
}

// TestBadNames: a name that can have no lock is refused at once.
func TestBadNames(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		n := bridge.NewNames(coordtest.Connect(t, srv), "/r")
		for name, want := range map[string]error{"": coordinator.ErrPath, strings.Repeat("n", 1<<20): coordinator.ErrTooLarge} {
			for range 2 { // and the name is not kept
				if err := n.Lock(t.Context(), name); !errors.Is(err, want) || len(err.Error()) > 1000 {
					t.Errorf("Lock of a name of %d bytes: %.2000v, want %v in a short text", len(name), err, want)
				}
			}
			if held, err := n.TryLock(t.Context(), name); held || !errors.Is(err, want) {
				t.Errorf("TryLock of a name of %d bytes: %v, %.2000v, want %v", len(name), held, err, want)
			}
			if err := n.Unlock(t.Context(), name); !errors.Is(err, bridge.ErrNotLocked) || len(err.Error()) > 1000 {
				t.Errorf("Unlock of a name of %d bytes: %.2000v, want ErrNotLocked in a short text", len(name), err)
			}
		}
		if nodes := srv.Tree(); len(nodes) > 0 {
			t.Errorf("there are %q, want no node", nodes)
		}
	})
}

// TestNamesExclude: one caller has a name, in this process and beside others. The next one gets it after the unlock.
func TestNamesExclude(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		ours := bridge.NewNames(coordtest.Connect(t, srv), "/r")
		theirs := bridge.NewNames(coordtest.Connect(t, srv), "/r")
		eventstest.Must(t, ours.Lock(t.Context(), "a"))
		eventstest.Must(t, theirs.Lock(t.Context(), "b"))
		for who, n := range map[string]*bridge.Names{"the holder's own": ours, "another": theirs} {
			if held, err := n.TryLock(t.Context(), "a"); held || err != nil {
				t.Errorf("TryLock in %s process while it is locked: %v, %v, want false", who, held, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := n.Lock(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Lock in %s process with a second to wait: %v, want its deadline", who, err)
			}
			cancel()
			entered := make(chan error, 1)
			go func() { entered <- n.Lock(t.Context(), "a") }()
			synctest.Wait()
			if len(entered) > 0 {
				t.Errorf("Lock in %s process while it is locked returns %v, want it to wait", who, <-entered)
			}
			eventstest.Must(t, ours.Unlock(t.Context(), "a"))
			eventstest.Must(t, <-entered)
			eventstest.Must(t, n.Unlock(t.Context(), "a"))
			if held, err := ours.TryLock(t.Context(), "a"); !held || err != nil {
				t.Fatalf("TryLock of a free name: %v, %v, want true", held, err)
			}
		}
		eventstest.Must(t, ours.Unlock(t.Context(), "a"))
		if err := ours.Unlock(t.Context(), "a"); !errors.Is(err, bridge.ErrNotLocked) {
			t.Errorf("a second Unlock: %v, want ErrNotLocked", err)
		}
		if err := ours.Unlock(t.Context(), "b"); !errors.Is(err, bridge.ErrNotLocked) {
			t.Errorf("Unlock of a name that another process has: %v, want ErrNotLocked", err)
		}
		if held, err := ours.TryLock(t.Context(), "b"); held || err != nil {
			t.Errorf("then the other process has the name no more: TryLock returns %v, %v", held, err)
		}
	})
}

// TestUnlockWaitsForTheRelease: and no longer than its context lasts.
func TestUnlockWaitsForTheRelease(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		n := bridge.NewNames(coordtest.Connect(t, srv), "/r")
		srv.Intercept(func(r zktest.Request) zktest.Action { // a slow server
			if r.Op == zktest.OpMulti || r.Op == zktest.OpDelete {
				return zktest.Delay(time.Second)
			}
			return zktest.Pass()
		})
		eventstest.Must(t, n.Lock(t.Context(), "a"))
		asked := time.Now()
		eventstest.Check(t, n.Unlock(t.Context(), "a"))
		if took := time.Since(asked); took < time.Second {
			t.Errorf("Unlock returned after %v, want it to wait for the answer that takes a second", took)
		}
		eventstest.Must(t, n.Lock(t.Context(), "a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := n.Unlock(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Unlock with a millisecond: %v, want its deadline", err)
		}
		eventstest.Check(t, n.Lock(t.Context(), "a")) // it was given back
		eventstest.Check(t, n.Unlock(t.Context(), "a"))
	})
}

// TestLossOfAName: OnLost and Unlock tell it, and in this process no other caller has the name before the Unlock.
func TestLossOfAName(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := coordtest.Connect(t, srv)
		n := bridge.NewNames(c, "/r", bridge.OnLost(cancel))
		eventstest.Must(t, n.Lock(t.Context(), "a"))
		second := make(chan error, 1)
		go func() { second <- n.Lock(t.Context(), "a") }()
		eventstest.Must(t, srv.Expire(c.SessionID()))
		<-ctx.Done()
		if lost := (*coordinator.LostError)(nil); !errors.As(context.Cause(ctx), &lost) || lost.Path != "/r/a" {
			t.Errorf("OnLost says %v, want the loss of /r/a", context.Cause(ctx))
		}
		time.Sleep(time.Minute)
		if len(second) > 0 {
			t.Errorf("the second caller has the lock while the first one works: %v", <-second)
		}
		if err := n.Unlock(t.Context(), "a"); !errors.Is(err, coordinator.ErrSessionExpired) {
			t.Errorf("Unlock of the lost lock: %v, want ErrSessionExpired", err)
		}
		eventstest.Must(t, <-second)
		eventstest.Check(t, n.Unlock(t.Context(), "a"))
	})
}

// TestRenewLocksAgainAfterALoss: it waits for the present holder of the name, and Unlock gives the new lock back.
func TestRenewLocksAgainAfterALoss(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		told := make(chan error, 2)
		n := bridge.NewNames(c, "/r", bridge.OnLost(func(err error) { told <- err }))
		other := bridge.NewNames(coordtest.Connect(t, srv), "/r")
		if err := n.RenewLockLease(t.Context(), "a", time.Hour); !errors.Is(err, bridge.ErrNotLocked) {
			t.Errorf("RenewLockLease of a free name: %v, want ErrNotLocked", err)
		}
		eventstest.Must(t, n.Lock(t.Context(), "a"))
		requests := coordtest.Traffic(srv)
		eventstest.Check(t, n.RenewLockLease(t.Context(), "a", time.Hour))
		if sent := requests.Load(); sent > 0 {
			t.Errorf("RenewLockLease of a held lock sent %d requests, want 0", sent)
		}
		eventstest.Must(t, srv.Expire(c.SessionID()))
		if err := <-told; !isLoss(err) {
			t.Errorf("OnLost says %v, want a loss", err)
		}
		eventstest.Must(t, other.Lock(t.Context(), "a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := n.RenewLockLease(ctx, "a", time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("RenewLockLease while another process has the name: %v, want it to wait until its deadline", err)
		}
		eventstest.Must(t, other.Unlock(t.Context(), "a"))
		eventstest.Must(t, n.RenewLockLease(t.Context(), "a", time.Hour))
		if held, err := other.TryLock(t.Context(), "a"); held || err != nil {
			t.Errorf("after it TryLock in another process: %v, %v, want false", held, err)
		}
		eventstest.Check(t, n.Unlock(t.Context(), "a"))
		if held, err := other.TryLock(t.Context(), "a"); !held || err != nil {
			t.Errorf("after Unlock TryLock in another process: %v, %v, want true", held, err)
		}

		eventstest.Must(t, other.Unlock(t.Context(), "a"))
		eventstest.Must(t, n.Lock(t.Context(), "a"))
		eventstest.Must(t, srv.Expire(c.SessionID()))
		if err := <-told; !isLoss(err) {
			t.Errorf("OnLost says %v, want a loss", err)
		}
		eventstest.Must(t, other.Lock(t.Context(), "a"))
		renewed := make(chan error, 1)
		go func() { renewed <- n.RenewLockLease(t.Context(), "a", time.Hour) }()
		time.Sleep(time.Minute)
		if err := n.Unlock(t.Context(), "a"); !isLoss(err) {
			t.Errorf("Unlock while the lock is renewed: %v, want the loss", err)
		}
		eventstest.Must(t, other.Unlock(t.Context(), "a"))
		if err := <-renewed; !errors.Is(err, bridge.ErrNotLocked) {
			t.Errorf("RenewLockLease of a name that was unlocked meanwhile: %v, want ErrNotLocked", err)
		}
		eventstest.Check(t, other.Lock(t.Context(), "a"))
	})
}

// TestCloseIsALoss: a coordinator that is closed under a holder tells it.
func TestCloseIsALoss(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, told := coordtest.Connect(t, srv), make(chan error, 1)
		n := bridge.NewNames(c, "/r", bridge.OnLost(func(err error) { told <- err }))
		eventstest.Must(t, n.Lock(t.Context(), "a"))
		eventstest.Must(t, c.Close())
		if err := <-told; !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("OnLost says %v, want ErrClosed", err)
		}
		if err := n.Unlock(t.Context(), "a"); !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("Unlock: %v, want ErrClosed", err)
		}
		if err := n.Lock(t.Context(), "a"); !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("Lock: %v, want ErrClosed", err)
		}
	})
}

// TestAReleaseIsNoLoss: OnLost is not called.
func TestAReleaseIsNoLoss(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		n := bridge.NewNames(c, "/r", bridge.OnLost(func(err error) { t.Errorf("OnLost: %v", err) }))
		for range 3 {
			eventstest.Must(t, n.Lock(t.Context(), "a"))
			eventstest.Must(t, n.Unlock(t.Context(), "a"))
		}
		eventstest.Must(t, c.Close())
		synctest.Wait()
	})
}

// TestUnlockTellsOfALossAtTheEndOfItsContext: the coordinator was closed, its node is still there, and there is no time to wait.
func TestUnlockTellsOfALossAtTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		c, lost, closed := coordtest.Connect(t, srv), make(chan error, 1), make(chan error, 1)
		n := bridge.NewNames(c, "/r", bridge.OnLost(func(err error) { lost <- err }))
		eventstest.Must(t, n.Lock(t.Context(), "a"))
		srv.MuteAll(true)
		go func() { closed <- c.Close() }()
		if err := <-lost; !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("OnLost says %v, want ErrClosed", err)
		}
		if err := n.Unlock(ended, "a"); !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("Unlock of the lost lock, with an ended context: %v, want ErrClosed", err)
		}
		srv.MuteAll(false)
		eventstest.Check(t, <-closed)
	})
}
