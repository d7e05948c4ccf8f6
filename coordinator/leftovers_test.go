package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// littered is a server that does not remove empty containers itself during a test. It
// records the requests to delete nodes that are not a contender's.
type littered struct {
	*testing.T
	srv *zktest.Server

	mu      sync.Mutex
	deletes []string
	at      []time.Time
}

// onLittered runs a test in virtual time.
func onLittered(t *testing.T, name string, test func(t *testing.T, l *littered), settings ...zktest.Setting) {
	t.Helper()
	eventstest.Case(t, name, func(t *testing.T) {
		l := &littered{T: t, srv: zktest.Start(t, append(settings, zktest.CheckInterval(1000*time.Hour))...)}
		l.faulty(func(zktest.Request) zktest.Action { return zktest.Pass() })
		test(t, l)
	})
}

// faulty sets the function that decides the fate of requests from now on.
func (l *littered) faulty(fault func(zktest.Request) zktest.Action) {
	l.srv.Intercept(func(q zktest.Request) zktest.Action {
		l.mu.Lock()
		defer l.mu.Unlock()
		if q.Op == zktest.OpDelete && l.srv.Owner(q.Path) == 0 {
			l.deletes, l.at = append(l.deletes, q.Path), append(l.at, time.Now())
		}
		return fault(q)
	})
}

// wantDeleted checks which deletes were requested since its last call.
func (l *littered) wantDeleted(when string, want ...string) {
	l.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.deletes)
	expect(l.T, slices.Equal(l.deletes, want), "%s: to be deleted were %v, want %v", when, l.deletes, want)
	l.deletes = nil
}

// wantStands checks whether the nodes exist.
func (l *littered) wantStands(want bool, paths ...string) {
	l.Helper()
	for _, p := range paths {
		expectEqual(l.T, l.srv.Exists(p), want, "%s stands", p)
	}
}

// idleTime is a moment longer than an unused directory stays.
const idleTime = recipes.LeftoverAfter + time.Second

// TestADirectoryThatIsNotUsedGoes: an unused directory of any kind of lock is removed,
// and then the directory above it if it is empty. The chroot stays, because other
// programs may live there, and so do plain nodes, which servers keep, too.
func TestADirectoryThatIsNotUsedGoes(t *testing.T) {
	for name, x := range map[string]struct{ gone, last, stay string }{ // last: removed a while later
		"a mutex":            {"/locks/a", "/locks", ""},
		"a writer":           {"/locks/a", "/locks", ""},
		"an unfair lock":     {"/locks", "", ""},
		"a semaphore":        {"/locks/a/leases /locks/a/locks", "", "/locks/a/size"},
		"a multi-lock":       {"/locks/a /locks/b", "/locks", ""},
		"kazoo's":            {"", "", "/locks/a"},
		"without containers": {"", "", "/locks/a"},
	} {
		settings := map[string][]zktest.Setting{"without containers": {zktest.ZooKeeper34()}}[name]
		onLittered(t, name, func(t *testing.T, l *littered) {
			c := connectBelow(t, l.srv, "/app/x")
			mutex := c.Mutex("/locks/a")
			lock := map[string]handle{
				"a mutex": mutex, "a writer": c.ReadWrite("/locks/a").Write(), "an unfair lock": c.Unfair("/locks/a"),
				"a semaphore": c.Semaphore("/locks/a", 2), "a multi-lock": c.Multi(mutex, c.Mutex("/locks/b")),
				"kazoo's": c.Mutex("/locks/a", coordinator.AsKazoo()), "without containers": mutex,
			}[name]
			below := func(dirs string) (all []string) {
				for dir := range strings.FieldsSeq(dirs) {
					all = append(all, "/app/x"+dir)
				}
				return all
			}
			holdAgainAndAgain(t, lock, 1)
			time.Sleep(recipes.LeftoverAfter - time.Millisecond)
			l.wantDeleted("before it is due")
			time.Sleep(time.Second)
			l.wantDeleted("when it is due", below(x.gone)...)
			time.Sleep(time.Minute)
			l.wantDeleted("after that", below(x.last)...)
			l.wantStands(false, below(x.gone+" "+x.last)...)
			l.wantStands(true, append(below(x.stay), "/app/x")...)
			holdAgainAndAgain(t, lock, 1)
			time.Sleep(time.Minute)
			l.wantDeleted("when the path has come back")
		}, settings...)
	}
}

// TestOnlyTheOwnEmptyDirectoryGoes: not one that another client uses or has made again at
// the path, before the session looks at it or just after that.
func TestOnlyTheOwnEmptyDirectoryGoes(t *testing.T) {
	const dir, theirs = "/locks/a", "/locks/a/lock-0000000007"
	comes := func(srv *zktest.Server) error { return srv.Create(theirs, nil) }
	goes := func(srv *zktest.Server) error { return srv.Delete(dir) }
	for name, x := range map[string]struct {
		meanwhile       func(srv *zktest.Server) error
		gone, afterLook bool
	}{
		"another client has a node there": {comes, false, false},
		"another client has made the directory anew": {func(srv *zktest.Server) error {
			return errors.Join(goes(srv), srv.Create(dir, nil))
		}, false, false},
		"it is gone": {goes, true, false},
		"the server has removed it, and another client has made it": {func(srv *zktest.Server) error {
			srv.Reap()
			return srv.Create(dir, nil)
		}, false, false},
		"a contender comes after the look": {comes, false, true},
		"data are written after the look": {func(srv *zktest.Server) error {
			return srv.SetData(dir, []byte("zkgrant\n"))
		}, false, true},
		"it is gone when it has been looked": {goes, true, true},
		"it was there before":                {func(*zktest.Server) error { return nil }, false, false},
	} {
		onLittered(t, name, func(t *testing.T, l *littered) {
			if name == "it was there before" {
				eventstest.Must(t, l.srv.Create(dir, []byte("zkgrant\n")))
			}
			holdAgainAndAgain(t, coordtest.Connect(t, l.srv).Mutex(dir), 1)
			if !x.afterLook {
				eventstest.Must(t, x.meanwhile(l.srv))
				time.Sleep(idleTime)
				l.wantDeleted("when it is due")
			} else {
				l.faulty(func(q zktest.Request) zktest.Action {
					if q.Op == zktest.OpDelete && q.Path == dir {
						eventstest.Check(t, x.meanwhile(l.srv))
					}
					return zktest.Pass()
				})
				if time.Sleep(time.Minute); !x.gone {
					l.wantDeleted("a minute later", dir)
				}
			}
			l.wantStands(!x.gone, dir)
		})
	}
}

// TestADirectoryThatStayedBareGoes: the session made the directory, but its contender's
// node was never created. Servers keep such a directory forever. Close removes it, too.
func TestADirectoryThatStayedBareGoes(t *testing.T) {
	for i := range 4 {
		closes, fresh := i&1 != 0, i&2 != 0 // fresh: it is made together with the node
		onLittered(t, fmt.Sprintf("closed %v, fresh %v", closes, fresh), func(t *testing.T, l *littered) {
			c := coordtest.Connect(t, l.srv)
			holdAgainAndAgain(t, c.Mutex("/others/b"), 1)
			parents := []string{"/locks", "/others"}
			if fresh {
				eventstest.Must(t, l.srv.Create("/locks", nil))
				parents = parents[1:]
			}
			l.faulty(func(q zktest.Request) zktest.Action {
				if q.Op == zktest.OpCreate && l.srv.Exists("/locks/a") {
					return zktest.Fail(zktest.NoAuth)
				}
				return zktest.Pass()
			})
			err := coordtest.EndOf(t, c.Mutex("/locks/a").Acquire(context.Background()))
			expectError(t, err, coordinator.ErrNoAuth, "the acquisition")
			l.wantStands(true, "/locks/a")
			if closes {
				eventstest.Check(t, c.Close())
				l.wantDeleted("at the end", "/locks/a")
				return
			}
			time.Sleep(idleTime)
			l.wantDeleted("when it is due", "/locks/a", "/others/b")
			time.Sleep(idleTime)
			l.wantDeleted("after that", parents...)
		})
	}
}

// TestALostAnswerToARemoval: the directory is looked up again, and removed later if it
// still exists. The next session does so, too.
func TestALostAnswerToARemoval(t *testing.T) {
	for name, lost := range map[string]zktest.Action{"not executed": zktest.CutBefore(), "executed": zktest.CutAfter()} {
		onLittered(t, name, func(t *testing.T, l *littered) {
			c := coordtest.Connect(t, l.srv)
			holdAgainAndAgain(t, c.Mutex("/locks/a"), 1)
			once(l.srv, lost, func(q zktest.Request) bool { return q.Op == zktest.OpDelete && q.Path == "/locks/a" })
			time.Sleep(idleTime)
			expire(t, l.srv, c)
			time.Sleep(time.Minute)
			l.wantStands(false, "/locks/a", "/locks")
		})
	}
}

// TestRemovalsKeepToTheirRate, even if 3,000 directories are due at once.
func TestRemovalsKeepToTheirRate(t *testing.T) {
	const directories, most = 3000, 1000
	onLittered(t, "at once", func(t *testing.T, l *littered) {
		c := coordtest.Connect(t, l.srv)
		for i := range directories {
			holdAgainAndAgain(t, c.Mutex(fmt.Sprintf("/locks/order-%d", i)), 1)
		}
		time.Sleep(time.Minute)
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.at) != directories+1 { // one for each directory, and one for the parent
			t.Fatalf("%d deletes of %d directories", len(l.at), directories)
		}
		for i := most; i < directories; i++ {
			took := l.at[i].Sub(l.at[i-most])
			expect(t, took >= time.Second, "deletes %d to %d took %v, want a second at the least", i-most, i, took)
		}
		took := l.at[directories-1].Sub(l.at[0])
		expect(t, took <= directories*time.Second/900, "%d deletes took %v, want 900 a second", directories, took)
	})
}

// TestRealFreshPathsLeaveFewDirectories: one session takes locks at ever new paths, 890 a
// second for 20 s, on a server that looks for empty containers once a minute and removes
// at most 10,000 of them.
func TestRealFreshPathsLeaveFewDirectories(t *testing.T) {
	eventstest.NeedsServers(t)
	const aSecond, most = 890, 2000
	seconds := eventstest.Amount(3, 20)
	e := ensemble.Start(t, 1, ensemble.Property("znode.container.checkIntervalMs", "60000"))
	e.Needs(t, ensemble.Containers)
	c := coordtest.ConnectReal(t, e.Connect())
	raw := coordtest.RawClient(t, e.Connect())
	left := func() int {
		names, _, err := raw.Children("/locks")
		if err != nil {
			t.Logf("/locks: %v", err)
		}
		return len(names)
	}
	ctx := coordtest.RealContext(t)
	var callers sync.WaitGroup
	begin := time.Now()
	room := make(chan struct{}, 64)
	for i := range aSecond * seconds {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / aSecond)))
		room <- struct{}{}
		callers.Go(func() {
			defer func() { <-room }()
			a := c.Mutex(fmt.Sprintf("/locks/order-%d", i)).Acquire(context.Background())
			_, err := a.Wait(ctx)
			eventstest.Check(t, err)
			coordtest.End(a)
		})
	}
	callers.Wait()
	ran := time.Since(begin)
	atEnd := left()
	for deadline := time.Now().Add(15 * time.Second); left() > 0 && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	n := left()
	t.Logf("%d locks at fresh paths in %v: %d directories at the end, %d within 15 s of it",
		aSecond*seconds, ran.Round(time.Millisecond), atEnd, n)
	expect(t, n <= most, "%d directories are left, want at most %d", n, most)
}
