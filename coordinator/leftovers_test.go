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

// littered is a server that does not look for empty containers itself during a test, and
// notes the requests to delete nodes that are no contender's.
type littered struct {
	*testing.T
	srv *zktest.Server

	mu      sync.Mutex
	deletes map[string]int
	at      []time.Time
	fault   func(zktest.Request) (zktest.Action, bool)
}

// onLittered plays the test in virtual time.
func onLittered(t *testing.T, test func(t *testing.T, l *littered), settings ...zktest.Setting) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		l := &littered{T: t, srv: zktest.Start(t, append(settings, zktest.CheckInterval(1000*time.Hour))...), deletes: map[string]int{}}
		l.srv.Intercept(func(q zktest.Request) zktest.Action {
			l.mu.Lock()
			defer l.mu.Unlock()
			if q.Op == zktest.OpDelete && l.srv.Owner(q.Path) == 0 {
				l.deletes[q.Path]++
				l.at = append(l.at, time.Now())
			}
			if l.fault != nil {
				if action, meant := l.fault(q); meant {
					return action
				}
			}
			return zktest.Pass()
		})
		test(t, l)
	})
}

// faulty has the requests for which the function says so meet with the action.
func (l *littered) faulty(f func(zktest.Request) (zktest.Action, bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
}

// hold takes the lock, and gives it back.
func (l *littered) hold(lock handle) {
	l.Helper()
	a := lock.Acquire(context.Background())
	coordtest.Soon(l.T, a)
	coordtest.End(a)
}

// wantDeleted checks which nodes were to be deleted since the last look.
func (l *littered) wantDeleted(when string, want ...string) {
	l.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	var got []string
	for dir, n := range l.deletes {
		got = append(got, slices.Repeat([]string{dir}, n)...)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		l.Errorf("%s: to be deleted were %v, want %v", when, got, want)
	}
	clear(l.deletes)
}

// wantStands checks whether the nodes are there.
func (l *littered) wantStands(want bool, paths ...string) {
	l.Helper()
	for _, p := range paths {
		if got := l.srv.Exists(p); got != want {
			l.Errorf("%s stands: %v, want %v", p, got, want)
		}
	}
}

// A moment later than a directory is due, if it is not used.
const idleTime = recipes.LeftoverAfter + time.Second

// TestADirectoryThatIsNotUsedGoes, of each kind of lock, and then the directory above it
// if nothing is left there. Not the chroot, where other programs live, nor a plain node,
// which the servers keep, too.
func TestADirectoryThatIsNotUsedGoes(t *testing.T) {
	for name, x := range map[string]struct {
		lock     func(*coordinator.Coordinator) handle
		gone     []string
		last     []string // a while later
		stay     []string
		settings []zktest.Setting
	}{
		"a mutex": {
			lock: func(c *coordinator.Coordinator) handle { return c.Mutex("/locks/a") },
			gone: []string{"/locks/a"}, last: []string{"/locks"}, stay: []string{"/app/x"},
		},
		"a writer": {
			lock: func(c *coordinator.Coordinator) handle { return c.ReadWrite("/locks/a").Write() },
			gone: []string{"/locks/a"}, last: []string{"/locks"},
		},
		"an unfair lock": {
			lock: func(c *coordinator.Coordinator) handle { return c.Unfair("/locks/a") }, gone: []string{"/locks"},
		},
		"a semaphore": {
			lock: func(c *coordinator.Coordinator) handle { return c.Semaphore("/locks/a", 2) },
			gone: []string{"/locks/a/leases", "/locks/a/locks"}, stay: []string{"/locks/a/size"},
		},
		"a multi-lock": {
			lock: func(c *coordinator.Coordinator) handle { return c.Multi(c.Mutex("/locks/a"), c.Mutex("/locks/b")) },
			gone: []string{"/locks/a", "/locks/b"}, last: []string{"/locks"},
		},
		"kazoo's": {
			lock: func(c *coordinator.Coordinator) handle { return c.Mutex("/locks/a", coordinator.AsKazoo()) },
			stay: []string{"/locks/a"},
		},
		"without containers": {
			lock: func(c *coordinator.Coordinator) handle { return c.Mutex("/locks/a") },
			stay: []string{"/locks/a"}, settings: []zktest.Setting{zktest.ZooKeeper34()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onLittered(t, func(t *testing.T, l *littered) {
				lock := x.lock(connectBelow(t, l.srv, "/app/x"))
				below := func(dirs []string) (all []string) {
					for _, dir := range dirs {
						all = append(all, "/app/x"+strings.TrimPrefix(dir, "/app/x"))
					}
					return all
				}
				l.hold(lock)
				time.Sleep(recipes.LeftoverAfter - time.Millisecond)
				l.wantDeleted("before it is due")
				time.Sleep(time.Second)
				l.wantDeleted("when it is due", below(x.gone)...)
				time.Sleep(time.Minute)
				l.wantDeleted("after that", below(x.last)...)
				l.wantStands(false, below(append(x.gone, x.last...))...)
				l.wantStands(true, below(x.stay)...)
				l.hold(lock)
				time.Sleep(time.Minute)
				l.wantDeleted("when the path has come back")
			}, x.settings...)
		})
	}
}

// TestOnlyTheOwnEmptyDirectoryGoes: not one that another client uses, or has made at the
// path meanwhile, before the session looks at it or just after that.
func TestOnlyTheOwnEmptyDirectoryGoes(t *testing.T) {
	const dir, theirs = "/locks/a", "/locks/a/lock-0000000007"
	for name, x := range map[string]struct {
		meanwhile func(srv *zktest.Server) error
		gone      bool
		afterLook bool
	}{
		"another client has a node there": {meanwhile: func(srv *zktest.Server) error { return srv.Create(theirs, nil) }},
		"another client has made the directory anew": {meanwhile: func(srv *zktest.Server) error {
			return errors.Join(srv.Delete(dir), srv.Create(dir, nil))
		}},
		"it is gone": {meanwhile: func(srv *zktest.Server) error { return srv.Delete(dir) }, gone: true},
		"the server has removed it, and another client has made it": {meanwhile: func(srv *zktest.Server) error {
			srv.Reap()
			return srv.Create(dir, nil)
		}},
		"a contender comes after the look":   {meanwhile: func(srv *zktest.Server) error { return srv.Create(theirs, nil) }, afterLook: true},
		"data are written after the look":    {meanwhile: func(srv *zktest.Server) error { return srv.SetData(dir, []byte("zkgrant\n")) }, afterLook: true},
		"it is gone when it has been looked": {meanwhile: func(srv *zktest.Server) error { return srv.Delete(dir) }, gone: true, afterLook: true},
	} {
		t.Run(name, func(t *testing.T) {
			onLittered(t, func(t *testing.T, l *littered) {
				l.hold(coordtest.Connect(t, l.srv).Mutex(dir))
				if !x.afterLook {
					eventstest.Must(t, x.meanwhile(l.srv))
					time.Sleep(idleTime)
					l.wantDeleted("when it is due")
				} else {
					l.faulty(func(q zktest.Request) (zktest.Action, bool) {
						if q.Op == zktest.OpDelete && q.Path == dir {
							eventstest.Check(t, x.meanwhile(l.srv))
						}
						return zktest.Action{}, false
					})
					if time.Sleep(time.Minute); !x.gone {
						l.wantDeleted("a minute later", dir)
					}
				}
				l.wantStands(!x.gone, dir)
			})
		})
	}
	onLittered(t, func(t *testing.T, l *littered) { // the directory was there before
		eventstest.Must(t, l.srv.Create(dir, []byte("zkgrant\n")))
		l.hold(coordtest.Connect(t, l.srv).Mutex(dir))
		time.Sleep(time.Minute)
		l.wantDeleted("a minute later")
		l.wantStands(true, dir)
	})
}

// TestADirectoryThatStayedBareGoes: the session made it, and its contender never came.
// Servers keep such a directory for ever. Close does not leave it either.
func TestADirectoryThatStayedBareGoes(t *testing.T) {
	for i := range 4 {
		closes, fresh := i&1 != 0, i&2 != 0 // fresh: it is made together with the node
		onLittered(t, func(t *testing.T, l *littered) {
			c := coordtest.Connect(t, l.srv)
			l.hold(c.Mutex("/others/b"))
			parents := []string{"/locks", "/others"}
			if fresh {
				eventstest.Must(t, l.srv.Create("/locks", nil))
				parents = parents[1:]
			}
			l.faulty(func(q zktest.Request) (zktest.Action, bool) {
				return zktest.Fail(zktest.NoAuth), q.Op == zktest.OpCreate && l.srv.Exists("/locks/a")
			})
			if err := coordtest.EndOf(t, c.Mutex("/locks/a").Acquire(context.Background())); err == nil {
				t.Fatal("the lock is acquired, want a refusal")
			}
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

// TestALostAnswerToARemoval is looked up: the directory is removed later if it still
// stands. The next session does so, too.
func TestALostAnswerToARemoval(t *testing.T) {
	for name, lost := range map[string]zktest.Action{"not executed": zktest.CutBefore(), "executed": zktest.CutAfter()} {
		t.Run(name, func(t *testing.T) {
			onLittered(t, func(t *testing.T, l *littered) {
				c := coordtest.Connect(t, l.srv)
				l.hold(c.Mutex("/locks/a"))
				once := false
				l.faulty(func(q zktest.Request) (zktest.Action, bool) {
					meant := !once && q.Op == zktest.OpDelete && q.Path == "/locks/a"
					once = once || meant
					return lost, meant
				})
				time.Sleep(idleTime)
				expire(t, l.srv, c)
				time.Sleep(time.Minute)
				l.wantStands(false, "/locks/a", "/locks")
			})
		})
	}
}

// TestRemovalsKeepToTheirRate: 3,000 directories are due at once.
func TestRemovalsKeepToTheirRate(t *testing.T) {
	const directories, most = 3000, 1000
	onLittered(t, func(t *testing.T, l *littered) {
		c := coordtest.Connect(t, l.srv)
		for i := range directories {
			l.hold(c.Mutex(fmt.Sprintf("/locks/order-%d", i)))
		}
		time.Sleep(time.Minute)
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.at) != directories+1 {
			t.Fatalf("%d deletes, want one for each of %d directories and one for the parent",
				len(l.at), directories)
		}
		for i := most; i < directories; i++ {
			if took := l.at[i].Sub(l.at[i-most]); took < time.Second {
				t.Fatalf("deletes %d to %d took %v, want a second at the least", i-most, i, took)
			}
		}
		if took := l.at[directories-1].Sub(l.at[0]); took > directories*time.Second/900 {
			t.Errorf("%d deletes took %v, want 900 a second at the least", directories, took)
		}
	})
}

// TestRealFreshPathsLeaveFewDirectories: one session takes a lock at an ever fresh path,
// 890 a second for 20 s, on a server that looks for empty containers once a minute and
// removes at most 10,000 of them.
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
	var took sync.Mutex
	var longest time.Duration
	begin := time.Now()
	room := make(chan struct{}, 64)
	for i := range aSecond * seconds {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / aSecond)))
		room <- struct{}{}
		callers.Go(func() {
			defer func() { <-room }()
			asked := time.Now()
			a := c.Mutex(fmt.Sprintf("/locks/order-%d", i)).Acquire(context.Background())
			if _, err := a.Wait(ctx); err != nil {
				t.Error(err)
			}
			took.Lock()
			longest = max(longest, time.Since(asked))
			took.Unlock()
			a.Release()
			<-a.Done()
		})
	}
	callers.Wait()
	ran := time.Since(begin)
	atEnd := left()
	deadline := time.Now().Add(15 * time.Second)
	for left() > 0 && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	n := left()
	t.Logf("%d locks at fresh paths in %v, the longest wait %v: %d directories at the end, %d within 15 s of it",
		aSecond*seconds, ran.Round(time.Millisecond), longest.Round(time.Millisecond), atEnd, n)
	if n > most {
		t.Errorf("%d directories are left, want at most %d", n, most)
	}
}
