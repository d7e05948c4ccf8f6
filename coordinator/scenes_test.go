package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// What callers of each kind of lock see of each other, and of faults, is in testdata/scenes.

func TestAcquireScenes(t *testing.T)   { coordtest.Scenes(t, "testdata/scenes/acquire") }
func TestLossScenes(t *testing.T)      { coordtest.Scenes(t, "testdata/scenes/loss") }
func TestCloseScenes(t *testing.T)     { coordtest.Scenes(t, "testdata/scenes/close") }
func TestReentryScenes(t *testing.T)   { coordtest.Scenes(t, "testdata/scenes/reentry") }
func TestCrashScenes(t *testing.T)     { coordtest.Scenes(t, "testdata/scenes/crash") }
func TestRevokeScenes(t *testing.T)    { coordtest.Scenes(t, "testdata/scenes/revoke") }
func TestSemaphoreScenes(t *testing.T) { coordtest.Scenes(t, "testdata/scenes/semaphore.txt") }
func TestReadWriteScenes(t *testing.T) { coordtest.Scenes(t, "testdata/scenes/readwrite.txt") }
func TestMultiScenes(t *testing.T)     { coordtest.Scenes(t, "testdata/scenes/multi.txt") }
func TestUnfairScenes(t *testing.T)    { coordtest.Scenes(t, "testdata/scenes/unfair") }
func TestElectionScenes(t *testing.T)  { coordtest.Scenes(t, "testdata/scenes/election.txt") }
func TestObserverScenes(t *testing.T)  { coordtest.Scenes(t, "testdata/scenes/observe.txt") }
func TestKazooScenes(t *testing.T)     { coordtest.Scenes(t, "testdata/scenes/kazoo.txt") }

// TestRealScenes plays the same on a real server, as far as a real server can do it.
func TestRealScenes(t *testing.T) {
	eventstest.NeedsServers(t)
	coordtest.RealScenes(t, ensemble.Start(t, 1), "testdata/scenes")
}

// eachKind are the kinds of lock that exclude each other, as the scenes name them.
var eachKind = []string{
	"mutex", "mutex kazoo", "write", "write kazoo", "election", "unfair", "sem:3 permits=2", "multi /accounts/a /accounts/b:w /accounts/c",
}

// TestEachKindKeepsItsPromises: the promises of every kind of lock.
func TestEachKindKeepsItsPromises(t *testing.T) { coordtest.Scenes(t, "testdata/scenes/kinds") }

// TestNoNodeIsLeftWhateverRequestOfAnyKindIsLost: each request of a scene is lost once, and its reply once. The result is the same
// as without a loss: one holds after the other with a greater token, and no node is left.
func TestNoNodeIsLeftWhateverRequestOfAnyKindIsLost(t *testing.T) {
	for _, kind := range eachKind {
		want, requests := handedOver(t, kind, 0, zktest.Pass()) // what is left out by -run is not needed for the rest
		for name, action := range map[string]zktest.Action{"request": zktest.CutBefore(), "reply": zktest.CutAfter()} {
			every := int64(eventstest.Amount(2, 1))
			for nth := every; nth <= requests; nth += every {
				t.Run(fmt.Sprintf("%s, %s %d", kind, name, nth), func(t *testing.T) {
					got, seen := handedOver(t, kind, nth, action)
					if got != want {
						t.Errorf("got\n%swant\n%s", got, want)
					}
					// Two listings are one or two, as they come. So the last few requests do not come each time.
					if seen < nth && nth <= requests*9/10 {
						t.Errorf("only %d requests came, want %d at least as in a scene where nothing is lost", seen, nth)
					}
				})
			}
		}
	}
}

// handedOver plays a handoff between two callers, in which the action strikes the nth request. It returns what was told, and how
// many requests came.
func handedOver(t *testing.T, kind string, nth int64, action zktest.Action) (told string, requests int64) {
	t.Helper()
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var count atomic.Int64
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op != zktest.OpPing && r.Op != zktest.OpConnect && count.Add(1) == nth {
				return action
			}
			return zktest.Pass()
		})
		told = coordtest.Scene(t, srv, "acquire first a "+kind+" ; wait 3s", "acquire second a "+kind, "wait 3s",
			"release first ; wait 5s", "release second ; wait 3s")
		requests = count.Load()
	})
	return told, requests
}

// brokenScene is set in the process that plays a scene with a mistake.
const brokenScene = "ZKGRANT_TEST_BROKEN_SCENE"

// TestBrokenScenesSayWhatIsWrong: a scene that hangs or has a mistake ends, and names the step and the mistake.
func TestBrokenScenesSayWhatIsWrong(t *testing.T) {
	if scene := os.Getenv(brokenScene); scene != "" {
		coordtest.Scenes(t, scene)
		return
	}
	for lines, wants := range map[string][]string{
		"resize s1 4 sem:3\ndown\nresize s1 5 sem:4": {"is not over after", "scene:1: resize s1 5 sem:4", "coordtest/steps.go:"},
		"acquire A":                                 {`"acquire" has 1 words after it, want 2 at least`},
		"cancel C":                                  {`no context is named "C"`},
		"acquire A s1 unfair ; finish A":            {"A is no function"},
		"do A s1 ; finish A ; finish A":             {"the function of A has ended already"},
		"acquire A s1 ; do B s1 ; finish B":         {"the function of B has not begun"},
		"resume pass":                               {"no step `hold`"},
		"connect s1 ; hold s1 create ; resume pass": {"no request is held"},
		"connect s1 ; next s1 creat pass":           {`no operation "creat"`},
		"next s1 create pass":                       {`no session is named "s1" yet`},
		"connect s1 ; next s1 create pass":          {`a fault was arranged for "create" of "s1", and no such request came`},
		"connect s1 ; always s1 any pass ; pass":    {`a fault was arranged for "any" of "s1", and no such request came`},
		"connect s1 ; next s1 any fail=throtled":    {`no failure "throtled"`},
	} {
		scene := filepath.Join(t.TempDir(), "scene")
		eventstest.Must(t, os.WriteFile(scene, []byte("scene nocost\n"+lines+"\n----\n"), 0o600))
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), brokenScene+"="+scene)
		out, err := command.CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			t.Errorf("%q ended with %v:\n%s", lines, err, out)
		}
		for _, want := range wants {
			if got := string(out); !strings.Contains(got, want) {
				t.Errorf("%q: got\n%.3000s\nwant a line with %q", lines, got, want)
			}
		}
	}
}

// TestAsKazoo: the names are kazoo's, and so is the life of the directory; all else is the same.
func TestAsKazoo(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		for form, locks := range map[string][2]*coordinator.Lock{
			`[0-9a-f]{32}__lock__\d{10}()$`: {a.Mutex("/as/kazoo/mutex", coordinator.AsKazoo()), b.Mutex("/as/kazoo/mutex", coordinator.AsKazoo())},
			`[0-9a-f]{32}__lock__\d{10}$`:   {a.ReadWrite("/as/kazoo/rw", coordinator.AsKazoo()).Write(), b.ReadWrite("/as/kazoo/rw", coordinator.AsKazoo()).Write()},
			`[0-9a-f]{32}__rlock__\d{10}$`:  {a.ReadWrite("/as/kazoo/r", coordinator.AsKazoo()).Read(), b.ReadWrite("/as/kazoo/r", coordinator.AsKazoo()).Write()},
		} {
			first, grant := coordtest.Hold(t, locks[0])
			second := coordtest.Queue(locks[1])
			if name := path.Base(grant.Node); !regexp.MustCompile("^" + form).MatchString(name) {
				t.Errorf("the name is %s, want %s", name, form)
			}
			if second.Valid() {
				t.Errorf("%s: the second holds beside the first", form)
			}
			if data, ok := srv.Data(grant.Node); !ok || data == nil {
				t.Errorf("%s has no data, and kazoo does not show it then", grant.Node)
			}
			first.Release()
			if g := coordtest.Soon(t, second); g.Token <= grant.Token {
				t.Errorf("%s: the token %d is granted after %d, want a greater one", form, g.Token, grant.Token)
			}
			coordtest.End(second)
			synctest.Wait()
			if srv.Reap(); !srv.Exists(locks[0].Path()) {
				t.Errorf("%s was removed when it was empty", locks[0].Path())
			}
		}
	})
}

// A lock that its holder enters again.

// nested takes a lock so many deep, each time with the context of the acquisition before.
func nested(t *testing.T, l *coordinator.Lock, deep int) []*coordinator.Acquisition {
	t.Helper()
	var all []*coordinator.Acquisition
	ctx := context.Background()
	for range deep {
		a := l.Acquire(ctx)
		coordtest.Soon(t, a)
		all, ctx = append(all, a), a.Context(ctx)
	}
	return all
}

// How a lock ends that was entered several times when a fault strikes.

// TestAnInnerOneIsGuardedForAsLongAsItHolds: its transactions are guarded by the node of the outer one.
func TestAnInnerOneIsGuardedForAsLongAsItHolds(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		eventstest.Must(t, srv.Create("/ledger", nil))
		write := func(a *coordinator.Acquisition) error {
			_, err := a.Txn(t.Context(), &zk.SetDataRequest{Path: "/ledger", Data: []byte("x"), Version: -1})
			return err
		}
		all := nested(t, c.Mutex(lockPath, coordinator.Reentrant()), 2)
		if outer, inner := all[0].Grant().Node, all[1].Grant().Node; outer != inner {
			t.Errorf("the outer one is guarded by %v, the inner one by %v; want one node", outer, inner)
		}
		all[0].Release()
		if err := write(all[0]); !errors.Is(err, coordinator.ErrReleased) {
			t.Errorf("a transaction of the released acquisition: %v, want ErrReleased", err)
		}
		if err := write(all[1]); err != nil {
			t.Errorf("a transaction of the acquisition that holds: %v, want nil", err)
		}
	})
}

// TestOneSessionHoldsHoweverJoinsAndReleasesMeet: no other session holds meanwhile, no token is smaller than one before, and
// nothing is left.
func TestOneSessionHoldsHoweverJoinsAndReleasesMeet(t *testing.T) {
	const rounds, many = 30, 8
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		lock := c.Mutex(lockPath, coordinator.Reentrant())
		var ours, theirs atomic.Int32 // how many hold
		var top atomic.Int64          // the largest token
		enter := func(mine, others *atomic.Int32, a *coordinator.Acquisition) {
			grant := <-a.Granted()
			mine.Add(1)
			if others.Load() != 0 {
				t.Error("two sessions hold, want one at a time")
			}
			for {
				last := top.Load()
				if grant.Token < last {
					t.Errorf("the token %d is granted after %d, want none smaller", grant.Token, last)
				}
				if top.CompareAndSwap(last, grant.Token) || grant.Token < last {
					return
				}
			}
		}
		leave := func(mine *atomic.Int32, a *coordinator.Acquisition) {
			mine.Add(-1)
			a.Release()
		}
		for range rounds {
			outer := lock.Acquire(t.Context())
			enter(&ours, &theirs, outer)
			next := other.Mutex(lockPath).Acquire(t.Context())
			ctx := context.WithoutCancel(outer.Context(t.Context()))
			var wait sync.WaitGroup
			for range many {
				wait.Go(func() {
					inner := lock.Acquire(ctx)
					if rand.IntN(4) == 0 {
						inner.Release() // perhaps before it is granted
						<-inner.Done()
						return
					}
					enter(&ours, &theirs, inner)
					innermost := lock.Acquire(inner.Context(context.WithoutCancel(outer.Context(context.Background()))))
					if rand.IntN(2) == 0 {
						innermost.Release()
					}
					leave(&ours, inner)
					coordtest.End(innermost)
					<-inner.Done()
				})
			}
			wait.Go(func() { leave(&ours, outer) })
			wait.Go(func() {
				enter(&theirs, &ours, next)
				leave(&theirs, next)
			})
			wait.Wait()
			<-outer.Done()
			<-next.Done()
			synctest.Wait()
			if left := srv.Children(lockPath); len(left) != 0 {
				t.Fatalf("when all have released the nodes %v are left, want none", left)
			}
		}
	})
}

// realReentry enters a lock again on a real server: of a thousand acquisitions the server hears of one. Another session is granted
// the lock after the last release, and each acquisition hears of a loss.
func realReentry(t *testing.T, e *ensemble.Ensemble) {
	const many, hands, stray = 1000, 8, 10 // stray: pings, probes, and the watch on a node that is held for long
	raw := coordtest.RawClient(t, e.Addr(0))
	c, other := coordtest.ConnectReal(t, e.Connect()), coordtest.ConnectReal(t, e.Connect())
	lock := c.Mutex("/locks/again", coordinator.Reentrant())
	outer := lock.Acquire(t.Context())
	grant := coordtest.GrantOf(t, outer)
	next := other.Mutex("/locks/again").Acquire(t.Context())
	coordtest.Queued(t, raw, "/locks/again", 2)

	ctx := outer.Context(t.Context())
	var all [hands][]*coordinator.Acquisition
	cost := coordtest.RealToll(t, e, func() {
		var wait sync.WaitGroup
		for hand := range all {
			wait.Go(func() {
				for range many / hands {
					a := lock.Acquire(ctx)
					select {
					case again := <-a.Granted():
						if again.Node != grant.Node || again.Token != grant.Token {
							t.Errorf("entered again, it is granted %+v, want the node and the token of %+v", again, grant)
						}
					case <-a.Done():
						t.Errorf("entered again, it ends with %v, want a grant", a.Err())
					}
					all[hand] = append(all[hand], a)
				}
			})
		}
		wait.Wait()
		outer.Release()
		if err := coordtest.EndOf(t, outer); err != nil {
			t.Errorf("released, the outer one ends with %v, want nil", err)
		}
		for _, acquired := range all {
			for _, a := range acquired[1:] {
				a.Release()
				if err := coordtest.EndOf(t, a); err != nil {
					t.Errorf("released, an inner one ends with %v, want nil", err)
				}
			}
		}
	})
	if cost.Packets > stray || cost.Woken != 0 {
		t.Errorf("entered %d times, the server counts %+v; want at most %d requests, and nothing woken", many, cost, stray)
	}
	for i, acquired := range all {
		if names := coordtest.QueueOf(t, raw, "/locks/again"); len(names) != 2 || !acquired[0].Valid() || next.Valid() {
			t.Fatalf("with %d left: nodes %v, it holds %v, the next one %v; want two nodes, and it to hold alone",
				hands-i, names, acquired[0].Valid(), next.Valid())
		}
		acquired[0].Release()
	}
	last := coordtest.GrantOf(t, next)
	if last.Token <= grant.Token {
		t.Errorf("after the last release %+v is granted, want a token above that of %+v", last, grant)
	}
	next.Release()

	outer = lock.Acquire(t.Context())
	grant = coordtest.GrantOf(t, outer)
	inner := lock.Acquire(outer.Context(t.Context()))
	coordtest.GrantOf(t, inner)
	next = other.Mutex("/locks/again").Acquire(t.Context())
	coordtest.Queued(t, raw, "/locks/again", 2)
	eventstest.Must(t, raw.Delete(grant.Node, -1))
	for _, a := range []*coordinator.Acquisition{outer, inner} {
		lost, end := coordtest.LossOf(t, a), coordtest.EndOf(t, a)
		if lost.Reason != events.ReasonNodeRemoved || lost.ID != a.ID() || !errors.Is(end, coordinator.ErrNodeRemoved) {
			t.Errorf("after the removal %d is told %+v and ends with %v, want that its node was removed", a.ID(), lost, end)
		}
	}
	coordtest.GrantOf(t, next)
	next.Release()
	coordtest.Queued(t, raw, "/locks/again", 0)
}
