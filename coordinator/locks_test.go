package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What a walk through a tree finds, and that nothing is left of it.

// seenAs returns a lock as "path kind", with "/size" of a semaphore, and its contenders
// as in summary, with "*permits".
func seenAs(info events.LockInfo) string {
	text := fmt.Sprintf("%s %v", info.Path, info.Kind)
	if info.Size != 0 {
		text += fmt.Sprint("/", info.Size)
	}
	for _, c := range info.Contenders {
		text += " " + string(c.Data)
		if c.Permits != 0 {
			text += fmt.Sprint("*", c.Permits)
		}
		if c.Holding {
			text += "+"
		}
	}
	return text
}

// walked returns what a walk yields, a line each. An error is "path kind: no permission",
// or its text.
func walked(ctx context.Context, c *coordinator.Coordinator, root string) (lines []string) {
	for info, err := range c.Locks(ctx, root) {
		switch {
		case errors.Is(err, coordinator.ErrNoAuth):
			lines = append(lines, seenAs(info)+": no permission")
		case err != nil:
			lines = append(lines, seenAs(info)+": "+err.Error())
		default:
			lines = append(lines, seenAs(info))
		}
	}
	return lines
}

// finds waits until a walk yields these lines.
func finds(t *testing.T, c *coordinator.Coordinator, root string, want ...string) {
	t.Helper()
	var got []string
	eventstest.Eventually(t, fmt.Sprintf("a walk from %s that finds\n%s", root, strings.Join(want, "\n")), func() bool {
		got = walked(t.Context(), c, root)
		return slices.Equal(got, want)
	}, func() string { return "\nit found\n" + strings.Join(got, "\n") })
}

// named stores the contender's name.
func named(name string) coordinator.AcquireOption { return coordinator.Data([]byte(name)) }

// made makes nodes, and the missing nodes above them, with the name of the directory for
// data. A plus at the end stands for ephemeral.
func made(t *testing.T, s *site, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		node, ephemeral := strings.CutSuffix(node, "+")
		full := s.root + node
		for i, r := range full[1:] {
			if r == '/' {
				makeNodes(t, s.raw, [2]string{full[:i+1]})
			}
		}
		flags := int32(zk.FlagPersistent)
		if ephemeral {
			flags = zk.FlagEphemeral
		}
		_, err := s.raw.Create(full, []byte(path.Base(path.Dir(node))), flags, zk.WorldACL(zk.PermAll))
		eventstest.Must(t, err)
	}
}

// forest has locks of every kind and library, and nodes that are no locks.
func forest(t *testing.T, s *site) (sound []string) {
	t.Helper()
	c, bg := s.connect(), context.Background()
	granted := func(a *coordinator.Acquisition) *coordinator.Acquisition {
		t.Helper()
		coordtest.GrantOf(t, a)
		return a
	}
	const uuid = "4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0"
	made(t, s, "/c/curator/leases/_c_"+uuid+"-lease-0000000000+", "/c/curator/locks/_c_"+uuid+"-lock-0000000001+",
		"/c/stray/lock-0000000000", "/c/zk/_c_4f1c0a527c394a0e9a3cd2b1c5a7e9f0-lock-0000000000+", "/c/writelock/x-72057594037927936-0000000007+",
		"/c/recipe/read-0000000000+", "/d/a-lock-0000000001", "/d/a-lock-0000000001/x/lock-0000000002+", "/d/config", "/d/size",
		"/g/thread-0000000001")

	granted(c.Mutex("/a/mutex").Acquire(bg, named("m1")))
	c.Mutex("/a/mutex").Acquire(bg, named("m2"))
	granted(c.ReadWrite("/a/mutex/nested").Read().Acquire(bg, named("r1")))
	granted(c.ReadWrite("/a/mutex/nested").Read().Acquire(bg, named("r2")))
	c.ReadWrite("/a/mutex/nested").Write().Acquire(bg, named("w3"))
	sem := c.Semaphore("/a/sem", 5)
	granted(sem.Acquire(bg, named("s1"), coordinator.Permits(2)))
	sem.Acquire(bg, named("s2"), coordinator.Permits(4))
	coordtest.End(granted(c.Semaphore("/a/idle", 3).Acquire(bg)))
	granted(c.Unfair("/b/alone/size").Acquire(bg, named("7")))
	granted(c.Unfair("/b/task").Acquire(bg, named("u")))
	granted(c.Election("/b/lead").Acquire(bg, named("e")))
	granted(c.Mutex("/c/kazoo", coordinator.AsKazoo()).Acquire(bg, named("k")))
	granted(c.Multi(c.Mutex("/e/one"), c.ReadWrite("/e/two").Write()).Acquire(bg, named("m")))
	granted(c.Mutex("/f", coordinator.DetectCrash()).Acquire(bg, named("f")))
	return []string{
		"/a/idle semaphore/3",
		"/a/mutex mutex m1+ m2",
		"/a/mutex/nested readwrite r1+ r2+ w3",
		"/a/sem semaphore/5 s1*2+ s2*4",
		"/b/alone/size unfair 7+",
		"/b/lead mutex e+",
		"/b/task unfair u+",
		"/c/curator semaphore leases*1+", // it has entered, and is in the queue still
		"/c/kazoo mutex k+",
		"/c/recipe readwrite recipe+",
		"/c/stray unknown stray+",
		"/c/writelock mutex writelock+",
		"/c/zk mutex zk+",
		"/d unknown d+",
		"/d/a-lock-0000000001/x mutex x+",
		"/e/one mutex m+",
		"/e/two readwrite m+",
		"/f mutex f+",
	}
}

// testLocks walks through the forest, from its top and from places in it.
func testLocks(t *testing.T, s *site) {
	sound := forest(t, s)
	c := s.connect()
	finds(t, c, "/", sound...)
	finds(t, c, "/a/mutex", sound[1], sound[2])
	finds(t, c, "/a/sem", sound[3])
	finds(t, c, "/b/task", sound[6])
	finds(t, c, "/b/none")
}

func TestLocksFindsEveryKindOfLockInOrder(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		testLocks(t, onTheDouble(t, srv))
		finds(t, connectBelow(t, srv, "/c"), "/kazoo", "/kazoo mutex k+")
	})
}

// TestRealLocks is the same on a real server.
func TestRealLocks(t *testing.T) {
	s := onARealServer(t)
	testLocks(t, s)
	t.Run("not readable", func(t *testing.T) { testLocksDenied(t, onARealServer(t)) })
}

// testLocksDenied: a directory that may not be listed, a contender that may not be read,
// and a semaphore of which the leases may not be read.
func testLocksDenied(t *testing.T, s *site) {
	made(t, s, "/a/lock-0000000000+", "/b/hidden/lock-0000000000+", "/b/shown/lock-0000000000+", "/c/lock-0000000000+", "/c/x/lock-0000000000+",
		"/d/size", "/d/leases/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lease-0000000000+", "/e/lock-0000000000+")
	_, err := s.raw.Set(s.root+"/d/size", []byte("2"), -1)
	eventstest.Must(t, err)
	for _, node := range []string{"/b/hidden", "/c/lock-0000000000", "/d/leases"} {
		_, err := s.raw.SetACL(s.root+node, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
		eventstest.Must(t, err)
	}
	defer func() { // a listing of what is left must not fail
		for _, node := range []string{"/b/hidden", "/d/leases"} {
			_, err := s.raw.SetACL(s.root+node, zk.WorldACL(zk.PermAll), -1)
			eventstest.Check(t, err)
		}
	}()
	finds(t, s.connect(), "/",
		"/a mutex a+",
		"/b/hidden unknown: no permission",
		"/b/shown mutex shown+",
		"/c unknown: no permission",
		"/c/x mutex x+",
		"/d semaphore: no permission",
		"/e mutex e+",
	)
}

func TestLocksGoesOnBehindWhatMayNotBeRead(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { testLocksDenied(t, onTheDouble(t, srv)) })
}

// grove makes n locks with contenders of no session, and returns their paths in order.
func grove(t *testing.T, srv *zktest.Server, n int) (paths []string) {
	t.Helper()
	for i := range n {
		paths = append(paths, fmt.Sprintf("/grove/%04d", i))
		eventstest.Must(t, srv.Create(paths[i]+"/lock-0000000000", nil))
	}
	return paths
}

// pathsOfWalk returns the paths that a walk yields, which has no error.
func pathsOfWalk(t *testing.T, c *coordinator.Coordinator, root string) (paths []string) {
	t.Helper()
	for info, err := range c.Locks(t.Context(), root) {
		if err != nil {
			t.Errorf("at %s: %v, want no error", info.Path, err)
		}
		paths = append(paths, info.Path)
	}
	return paths
}

// TestLocksFindsEachOnceInOrder, in trees of any shape.
func TestLocksFindsEachOnceInOrder(t *testing.T) {
	for seed := range uint64(20) {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			rng := rand.New(rand.NewPCG(seed, 0))
			locks := map[string]bool{}
			dirs := []string{"/top"}
			for range rng.IntN(400) {
				above := dirs[len(dirs)-1-rng.IntN(min(len(dirs), 1<<rng.IntN(9)))]
				dirs = append(dirs, fmt.Sprintf("%s/%d%s", above, rng.IntN(50), strings.Repeat("-", rng.IntN(2)))) // "/1/x" comes before "/1-"
			}
			for _, dir := range dirs {
				node := dir + "/empty"
				if rng.IntN(2) == 0 {
					node, locks[dir] = dir+"/lock-0000000000", true
				}
				if !srv.Exists(node) {
					eventstest.Must(t, srv.Create(node, nil))
				}
			}
			want := slices.SortedFunc(maps.Keys(locks), func(a, b string) int {
				return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
			})
			if got := pathsOfWalk(t, coordtest.Connect(t, srv), "/top"); !slices.Equal(got, want) {
				t.Errorf("seed %d: a walk finds %d locks\n%v\nwant %d\n%v", seed, len(got), got, len(want), want)
			}
		})
	}
}

// TestAWalkThatEndsLeavesNothingUnderWay: after the loop nothing is sent, and in it only
// a bounded number at a time.
func TestAWalkThatEndsLeavesNothingUnderWay(t *testing.T) {
	const rtt = 100 * time.Millisecond
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		paths := grove(t, srv, 1000)
		c := coordtest.Connect(t, srv)
		var underWay, most, all atomic.Int32
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op == zktest.OpPing {
				return zktest.Pass()
			}
			all.Add(1)
			most.Store(max(most.Load(), underWay.Add(1)))
			time.AfterFunc(rtt-1, func() { underWay.Add(-1) })
			return zktest.Delay(rtt)
		})
		var seen []string
		for info, err := range c.Locks(t.Context(), "/grove") {
			eventstest.Check(t, err)
			seen = append(seen, info.Path)
			if n := underWay.Load(); n != 0 {
				t.Fatalf("%d requests are under way in the loop, want none", n)
			}
			if len(seen) == 3 {
				break
			}
		}
		before := all.Load()
		time.Sleep(time.Hour)
		if more := all.Load() - before; !slices.Equal(seen, paths[:3]) || more != 0 || before > 1+2*64 {
			t.Errorf("a loop that was left at its third lock has seen %v with %d requests, and %d more; want %v, at most 129, and no more",
				seen, before, more, paths[:3])
		}
		all.Store(0)
		start := time.Now()
		if got := pathsOfWalk(t, c, "/grove"); !slices.Equal(got, paths) || most.Load() != 64 || all.Load() != 2001 {
			t.Errorf("a walk finds %d locks of %d, with %d requests, %d at a time; want all, 2001 and 64",
				len(got), len(paths), all.Load(), most.Load())
		}
		// A round trip for the listings of 64 locks, and one for their contenders.
		if took, limit := time.Since(start), 40*rtt; took > limit {
			t.Errorf("the walk took %v, want at most %v", took, limit)
		}
	})
}

// TestAWalkEndsWithItsContextAndItsCoordinator says so once, and yields nothing after
// that.
func TestAWalkEndsWithItsContextAndItsCoordinator(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		grove(t, srv, 1000)
		impatient := errors.New("impatient")
		for what, test := range map[string]struct {
			end  func(c *coordinator.Coordinator, cancel context.CancelCauseFunc)
			want error
		}{
			"context":     {func(_ *coordinator.Coordinator, cancel context.CancelCauseFunc) { cancel(impatient) }, impatient},
			"coordinator": {func(c *coordinator.Coordinator, _ context.CancelCauseFunc) { eventstest.Check(t, c.Close()) }, coordinator.ErrClosed},
		} {
			for _, at := range []int{0, 1, 100} {
				c := coordtest.Connect(t, srv)
				ctx, cancel := context.WithCancelCause(t.Context())
				if at == 0 {
					test.end(c, cancel)
				}
				found, errs := 0, []error{}
				for info, err := range c.Locks(ctx, "/grove") {
					if err != nil {
						errs = append(errs, err)
						if info.Path != "/grove" || info.Kind != events.LockUnknown {
							t.Errorf("%s: the error comes with %+v, want the root", what, info)
						}
						continue
					}
					if found++; found == at {
						test.end(c, cancel)
					}
				}
				cancel(nil)
				// What was seen already is yielded, if only the coordinator has ended.
				if len(errs) != 1 || !errors.Is(errs[0], test.want) || found < at || found > at+64 || what == "context" && found != at {
					t.Errorf("%s that ends at lock %d: the walk finds %d, and ends with %v; want %v, once", what, at, found, errs, test.want)
				}
			}
		}
		c := coordtest.Connect(t, srv)
		for _, root := range []string{"", "grove", "/grove/", "/zookeeper"} {
			if got := walked(t.Context(), c, root); len(got) != 1 || !strings.Contains(got[0], "malformed path") {
				t.Errorf("a walk from %q yields %q, want ErrPath", root, got)
			}
		}
	})
}

// TestAWalkLeavesOutWhatIsGone, and sees each contender once that enters a semaphore
// meanwhile.
func TestAWalkLeavesOutWhatIsGone(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		grove(t, srv, 3)
		coordtest.Hold(t, other.Mutex("/other"))
		held := take(t, other.Semaphore("/sem", 1), 1, 1)
		entered := false
		srv.Intercept(func(r zktest.Request) zktest.Action {
			switch {
			case r.Op == zktest.OpGetChildren2 && r.Path == "/grove/0001":
				eventstest.Check(t, srv.Delete("/grove/0001/lock-0000000000"))
				eventstest.Check(t, srv.Delete("/grove/0001"))
			case r.Op == zktest.OpGetData && r.Path == "/grove/0002/lock-0000000000":
				eventstest.Check(t, srv.Delete(r.Path))
			case r.Op == zktest.OpGetData && r.Session == c.SessionID() && path.Dir(r.Path) == "/sem/locks" && !entered:
				entered = true
				held[0].Release() // the second enters between the looks at the queue and at the leases
				return zktest.Delay(time.Second)
			}
			return zktest.Pass()
		})
		want := []string{"/grove/0000 unknown +", "/other mutex +", "/sem semaphore/1 *1+"}
		if got := walked(t.Context(), c, "/"); !slices.Equal(got, want) {
			t.Errorf("while locks come and go a walk finds %q, want %q", got, want)
		}
		if !entered {
			t.Error("no contender has entered meanwhile, want the second in the queue")
		}
	})
}

// TestPollReadsHoldersAndNewcomersOnly: a second walk lists, and reads no waiter again.
// The nodes in a directory that was made anew are read, whatever their names.
func TestPollReadsHoldersAndNewcomersOnly(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		var all []*coordinator.Acquisition
		for i := range 10 {
			all = append(all, c.Mutex("/locks/poll").Acquire(t.Context(), named(fmt.Sprint("contender ", i))))
			synctest.Wait()
		}
		semaphore := c.Semaphore("/locks/pool", 1)
		for i := range 3 {
			semaphore.Acquire(t.Context(), named(fmt.Sprint("worker ", i)))
			synctest.Wait()
		}
		walk := c.Poll("/locks")
		polled := func(want int, when string) (seen []string) {
			t.Helper()
			before := srv.Requests(zktest.OpGetData)
			for info, err := range walk(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				seen = append(seen, seenAs(info))
			}
			if got := srv.Requests(zktest.OpGetData) - before; got != want {
				t.Errorf("%s: %d reads, want %d", when, got, want)
			}
			return seen
		}
		first := polled(10+1+3, "the first walk") // the size of the semaphore, too
		if second := polled(1+1+1, "the second walk"); !slices.Equal(first, second) {
			t.Errorf("a second walk yields\n%q\nwant\n%q", second, first)
		}
		all[0].Release()
		<-all[1].Granted()
		c.Mutex("/locks/poll").Acquire(t.Context(), named("newcomer"))
		synctest.Wait()
		if seen := polled(1+1+1, "after a handoff"); !strings.Contains(seen[0], "newcomer") || strings.Contains(seen[0], "contender 0") {
			t.Errorf("after a handoff a walk yields %q", seen)
		}
	})
}

// TestPollOfADirectoryMadeAnew: a name that comes again is another node.
func TestPollOfADirectoryMadeAnew(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		walk := c.Poll("/anew")
		for _, data := range []string{"before", "after"} {
			admin := coordtest.Admin(t, srv.Addr(), srv.DialContext)
			for _, node := range []string{"", "/lock-0000000000", "/lock-0000000001"} {
				flags := int32(0)
				if node != "" {
					flags = zk.FlagEphemeral
				}
				_, err := admin.Create("/anew"+node, []byte(data), flags, zk.WorldACL(zk.PermAll))
				eventstest.Must(t, err)
			}
			for info, err := range walk(t.Context()) {
				if err != nil || string(info.Contenders[1].Data) != data {
					t.Errorf("a walk yields %s, %v; want the data %q", seenAs(info), err, data)
				}
			}
			for _, node := range []string{"/lock-0000000000", "/lock-0000000001", ""} {
				eventstest.Must(t, srv.Delete("/anew"+node))
			}
		}
	})
}
