package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// littered is a server that does not look for empty containers itself during a test, and notes the requests to delete nodes that are no
// contender's, and whether they came within a second of each other.
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
func (l *littered) hold(lock acquirer) {
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
		for range n {
			got = append(got, dir)
		}
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

// TestADirectoryThatIsNotUsedGoes, of each kind of lock, and then the directory above it if nothing is left there.
func TestADirectoryThatIsNotUsedGoes(t *testing.T) {
	for name, x := range map[string]struct {
		lock func(*coordinator.Coordinator) acquirer
		gone []string
		last []string // a while later
		stay []string
	}{
		"a mutex": {
			func(c *coordinator.Coordinator) acquirer { return c.Mutex("/locks/a") }, []string{"/locks/a"}, []string{"/locks"}, nil,
		},
		"a writer": {
			func(c *coordinator.Coordinator) acquirer { return c.ReadWrite("/locks/a").Write() }, []string{"/locks/a"}, []string{"/locks"}, nil,
		},
		"an unfair lock": {
			func(c *coordinator.Coordinator) acquirer { return c.Unfair("/locks/a") }, []string{"/locks"}, nil, nil,
		},
		"a semaphore": {
			func(c *coordinator.Coordinator) acquirer { return c.Semaphore("/locks/a", 2) },
			[]string{"/locks/a/leases", "/locks/a/locks"}, nil, []string{"/locks/a/size"},
		},
		"a multi-lock": {
			func(c *coordinator.Coordinator) acquirer { return c.Multi(c.Mutex("/locks/a"), c.Mutex("/locks/b")) },
			[]string{"/locks/a", "/locks/b"}, []string{"/locks"}, nil,
		},
		"kazoo's": {
			func(c *coordinator.Coordinator) acquirer { return c.Mutex("/locks/a", coordinator.AsKazoo()) }, nil, nil, []string{"/locks/a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onLittered(t, func(t *testing.T, l *littered) {
				lock := x.lock(coordtest.Connect(t, l.srv))
				l.hold(lock)
				time.Sleep(recipes.LeftoverAfter - time.Millisecond)
				l.wantDeleted("before it is due")
				time.Sleep(time.Second)
				l.wantDeleted("when it is due", x.gone...)
				time.Sleep(time.Minute)
				l.wantDeleted("after that", x.last...)
				l.wantStands(false, append(x.gone, x.last...)...)
				l.wantStands(true, x.stay...)
				l.hold(lock)
				time.Sleep(time.Minute)
				l.wantDeleted("when the path has come back")
			})
		})
	}
}

// TestADirectoryInUseCostsNoRequest: it is held or waited for, or the lock is taken again and again.
func TestADirectoryInUseCostsNoRequest(t *testing.T) {
	onLittered(t, func(t *testing.T, l *littered) {
		c := coordtest.Connect(t, l.srv)
		l.hold(c.Mutex("/locks/loop"))
		holder, _ := coordtest.Hold(t, c.Mutex("/locks/held"))
		waiter := coordtest.Queue(c.Mutex("/locks/held"))
		looks := 0
		l.faulty(func(q zktest.Request) (zktest.Action, bool) {
			if q.Op == zktest.OpExists && l.srv.Owner(q.Path) == 0 {
				looks++
			}
			return zktest.Action{}, false
		})
		if err := coordtest.EndOf(t, c.Mutex("/locks/held").Acquire(t.Context(), coordinator.Try())); !errors.Is(err, coordinator.ErrNotAcquired) {
			t.Errorf("a Try beside the holder ended with %v", err)
		}
		for range 20 {
			time.Sleep(recipes.LeftoverAfter - time.Millisecond)
			l.hold(c.Mutex("/locks/loop"))
		}
		coordtest.End(holder)
		coordtest.Soon(t, waiter)
		time.Sleep(recipes.LeftoverAfter / 2)
		l.wantDeleted("while they are used")
		if looks > 0 {
			t.Errorf("%d looks while they are used, want none", looks)
		}
		coordtest.End(waiter)
		time.Sleep(idleTime)
		l.wantDeleted("after that", "/locks/held", "/locks/loop")
	})
}

// TestOnlyTheOwnEmptyDirectoryGoes: not one that another client uses, or has made at the path meanwhile.
func TestOnlyTheOwnEmptyDirectoryGoes(t *testing.T) {
	for name, x := range map[string]struct {
		meanwhile func(l *littered)
		stands    bool
	}{
		"another client has a node there": {func(l *littered) {
			eventstest.Must(l, l.srv.Create("/locks/a/lock-0000000007", nil))
		}, true},
		"another client has made the directory anew": {func(l *littered) {
			eventstest.Must(l, l.srv.Delete("/locks/a"))
			eventstest.Must(l, l.srv.Create("/locks/a", nil))
		}, true},
		"it is gone": {func(l *littered) { eventstest.Must(l, l.srv.Delete("/locks/a")) }, false},
		"the server has removed it, and another client has made it": {func(l *littered) {
			l.srv.Reap()
			eventstest.Must(l, l.srv.Create("/locks/a", nil))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			onLittered(t, func(t *testing.T, l *littered) {
				l.hold(coordtest.Connect(t, l.srv).Mutex("/locks/a"))
				x.meanwhile(l)
				time.Sleep(idleTime)
				l.wantDeleted("when it is due")
				l.wantStands(x.stands, "/locks/a")
			})
		})
	}
	onLittered(t, func(t *testing.T, l *littered) { // the directory was there before
		eventstest.Must(l, l.srv.Create("/locks/a", []byte("zkgrant\n")))
		l.hold(coordtest.Connect(t, l.srv).Mutex("/locks/a"))
		time.Sleep(time.Minute)
		l.wantDeleted("a minute later")
		l.wantStands(true, "/locks/a")
	})
}

// TestWhatHappensAfterTheLook decides: the delete finds a node, new data, or no directory.
func TestWhatHappensAfterTheLook(t *testing.T) {
	for name, x := range map[string]struct {
		meanwhile func(l *littered)
		stands    bool
	}{
		"a contender comes": {func(l *littered) { eventstest.Must(l, l.srv.Create("/locks/a/lock-0000000007", nil)) }, true},
		"data are written":  {func(l *littered) { eventstest.Must(l, l.srv.SetData("/locks/a", []byte("zkgrant\n"))) }, true},
		"it is gone":        {func(l *littered) { eventstest.Must(l, l.srv.Delete("/locks/a")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			onLittered(t, func(t *testing.T, l *littered) {
				c := coordtest.Connect(t, l.srv)
				l.hold(c.Mutex("/locks/a"))
				l.faulty(func(q zktest.Request) (zktest.Action, bool) {
					if q.Op == zktest.OpDelete && q.Path == "/locks/a" {
						x.meanwhile(l)
					}
					return zktest.Action{}, false
				})
				time.Sleep(time.Minute)
				if l.wantStands(x.stands, "/locks/a"); x.stands {
					l.wantDeleted("a minute later", "/locks/a")
				}
			})
		})
	}
}

// TestADirectoryThatStayedBareGoes: the session made it, and its contender never came. Servers keep such a directory for ever.
func TestADirectoryThatStayedBareGoes(t *testing.T) {
	refuse := func(q zktest.Request) (zktest.Action, bool) {
		return zktest.Fail(zktest.NoAuth), q.Op == zktest.OpCreate && q.Path != "/locks/a" && q.Path != "/locks"
	}
	onLittered(t, func(t *testing.T, l *littered) {
		made := false
		l.faulty(func(q zktest.Request) (zktest.Action, bool) {
			made = made || q.Op == zktest.OpCreateContainer && q.Path == "/locks/a"
			if !made {
				return zktest.Action{}, false
			}
			return refuse(q)
		})
		c := coordtest.Connect(t, l.srv)
		if err := coordtest.EndOf(t, c.Mutex("/locks/a").Acquire(context.Background())); err == nil {
			t.Fatal("the lock is acquired, want a refusal")
		}
		l.wantStands(true, "/locks/a")
		time.Sleep(idleTime)
		l.wantDeleted("when it is due", "/locks/a")
		time.Sleep(idleTime)
		l.wantDeleted("after that", "/locks")
	})
	onLittered(t, func(t *testing.T, l *littered) { // Close does not leave it
		made := false
		l.faulty(func(q zktest.Request) (zktest.Action, bool) {
			made = made || q.Op == zktest.OpCreateContainer && q.Path == "/locks/a"
			if !made {
				return zktest.Action{}, false
			}
			return refuse(q)
		})
		c := coordtest.Connect(t, l.srv)
		l.hold(c.Mutex("/others/b"))
		_ = coordtest.EndOf(t, c.Mutex("/locks/a").Acquire(context.Background()))
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		l.wantDeleted("at the end", "/locks/a")
	})
}

// TestALostAnswerToARemoval is looked up: the directory is removed later if it still stands. The next session does so, too.
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
				if err := l.srv.Expire(c.SessionID()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				l.wantStands(false, "/locks/a", "/locks")
			})
		})
	}
}

// TestRemovalsKeepToTheirRate: 3,000 directories are due at once. A lock is granted meanwhile as fast as ever.
func TestRemovalsKeepToTheirRate(t *testing.T) {
	const directories, most = 3000, 1000
	onLittered(t, func(t *testing.T, l *littered) {
		c := coordtest.Connect(t, l.srv)
		for i := range directories {
			l.hold(c.Mutex(fmt.Sprintf("/locks/order-%d", i)))
		}
		time.Sleep(time.Minute)
		l.mu.Lock()
		at := slices.Clone(l.at)
		l.mu.Unlock()
		if len(at) != directories+1 {
			t.Fatalf("%d deletes, want one for each of %d directories and one for the parent", len(at), directories)
		}
		for i := most; i < directories; i++ {
			if took := at[i].Sub(at[i-most]); took < time.Second {
				t.Fatalf("deletes %d to %d took %v, want a second at the least", i-most, i, took)
			}
		}
		if took := at[directories-1].Sub(at[0]); took > directories*time.Second/900 {
			t.Errorf("%d deletes took %v, want 900 a second at the least", directories, took)
		}
	})
}

// TestTheChrootStays: the session may have made it, and other programs live there.
func TestTheChrootStays(t *testing.T) {
	onLittered(t, func(t *testing.T, l *littered) {
		c, err := coordinator.Connect(t.Context(), l.srv.Addr()+"/app/x", l.srv.Option())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		l.hold(c.Mutex("/locks/a"))
		time.Sleep(time.Minute)
		l.wantDeleted("a minute later", "/app/x/locks", "/app/x/locks/a")
		l.wantStands(true, "/app/x")
	})
}

// TestNothingIsRemovedWithoutContainers: the directories are plain nodes, which the servers keep, too.
func TestNothingIsRemovedWithoutContainers(t *testing.T) {
	onLittered(t, func(t *testing.T, l *littered) {
		l.hold(coordtest.Connect(t, l.srv).Mutex("/locks/a"))
		time.Sleep(time.Minute)
		l.wantDeleted("a minute later")
		l.wantStands(true, "/locks/a")
	}, zktest.ZooKeeper34())
}

// TestALockIsTakenWhileItsDirectoryGoes: each of its requests meets with the removal by another session. Tokens grow, also beyond that.
func TestALockIsTakenWhileItsDirectoryGoes(t *testing.T) {
	onLittered(t, func(t *testing.T, l *littered) {
		c, other := coordtest.Connect(t, l.srv), coordtest.Connect(t, l.srv)
		var token int64
		for i := range 200 {
			lock := fmt.Sprintf("/locks/%d", i)
			l.hold(c.Mutex(lock))
			time.Sleep(recipes.LeftoverAfter + time.Duration(i-100)*10*time.Microsecond)
			a := other.Mutex(lock).Acquire(context.Background())
			g := coordtest.Soon(t, a)
			if g.Token <= token {
				t.Errorf("token 0x%x after 0x%x, want a greater one", g.Token, token)
			}
			token = g.Token
			coordtest.End(a)
		}
	})
}

// TestRealFreshPathsLeaveFewDirectories: one session takes a lock at an ever fresh path, 890 a second for 20 s, on a server that looks
// for empty containers once a minute and removes at most 10,000 of them.
func TestRealFreshPathsLeaveFewDirectories(t *testing.T) {
	eventstest.NeedsServers(t)
	const aSecond, most = 890, 2000
	seconds := eventstest.Amount(3, 20)
	e := ensemble.Start(t, 1, ensemble.Property("znode.container.checkIntervalMs", "60000"))
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
