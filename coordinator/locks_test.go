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

// Tests of what a walk through a tree finds, and that it leaves nothing under way.

// seenAs returns a lock as "path kind", with "/size" for a semaphore, and its summary.
func seenAs(info events.LockInfo) string {
	text := fmt.Sprintf("%s %v", info.Path, info.Kind)
	if info.Size != 0 {
		text += fmt.Sprint("/", info.Size)
	}
	return strings.TrimSuffix(text+" "+summary(info.Contenders), " ")
}

// walked returns the results of a walk, one per line. An error is "path kind: no
// permission", or its text.
func walked(ctx context.Context, c *coordinator.Coordinator, root string) (lines []string) {
	for info, err := range c.Locks(ctx, root) {
		line := seenAs(info)
		if errors.Is(err, coordinator.ErrNoAuth) {
			line += ": no permission"
		} else if err != nil {
			line += ": " + err.Error()
		}
		lines = append(lines, line)
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

// named is the option to store a name as the contender's data.
func named(name string) coordinator.AcquireOption { return coordinator.Data([]byte(name)) }

// made creates nodes, and their missing parents. The data is the name of the node's
// directory. A trailing plus makes the node ephemeral.
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

// forest creates locks of every kind and library, and nodes that are not locks. It
// returns what a walk should find.
func forest(t *testing.T, s *site) (sound []string) {
	t.Helper()
	c, bg := s.connect(), context.Background()
	const uuid = "4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0"
	made(t, s, "/c/curator/leases/_c_"+uuid+"-lease-0000000000+", "/c/curator/locks/_c_"+uuid+"-lock-0000000001+",
		"/c/stray/lock-0000000000", "/c/zk/_c_4f1c0a527c394a0e9a3cd2b1c5a7e9f0-lock-0000000000+", "/c/writelock/x-72057594037927936-0000000007+",
		"/c/recipe/read-0000000000+", "/d/a-lock-0000000001", "/d/a-lock-0000000001/x/lock-0000000002+", "/d/config", "/d/size",
		"/g/thread-0000000001")

	coordtest.HoldReal(t, c.Mutex("/a/mutex"), named("m1"))
	c.Mutex("/a/mutex").Acquire(bg, named("m2"))
	nested := c.ReadWrite("/a/mutex/nested")
	coordtest.HoldReal(t, nested.Read(), named("r1"))
	coordtest.HoldReal(t, nested.Read(), named("r2"))
	nested.Write().Acquire(bg, named("w3"))
	sem := c.Semaphore("/a/sem", 5)
	coordtest.HoldReal(t, sem, named("s1"), coordinator.Permits(2))
	sem.Acquire(bg, named("s2"), coordinator.Permits(4))
	idle, _ := coordtest.HoldReal(t, c.Semaphore("/a/idle", 3))
	coordtest.End(idle)
	coordtest.HoldReal(t, c.Unfair("/b/alone/size"), named("7"))
	coordtest.HoldReal(t, c.Unfair("/b/task"), named("u"))
	coordtest.HoldReal(t, c.Election("/b/lead"), named("e"))
	coordtest.HoldReal(t, c.Mutex("/c/kazoo", coordinator.AsKazoo()), named("k"))
	coordtest.HoldReal(t, c.Multi(c.Mutex("/e/one"), c.ReadWrite("/e/two").Write()), named("m"))
	coordtest.HoldReal(t, c.Mutex("/f", coordinator.DetectCrash()), named("f"))
	return []string{
		"/a/idle semaphore/3",
		"/a/mutex mutex m1+ m2",
		"/a/mutex/nested readwrite r1+ r2+ w3",
		"/a/sem semaphore/5 s1*2+ s2*4",
		"/b/alone/size unfair 7+",
		"/b/lead mutex e+",
		"/b/task unfair u+",
		"/c/curator semaphore leases*1+", // it holds, and is still in the queue
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

// testLocks walks through the forest, from its root and from places inside.
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

func TestRealLocks(t *testing.T) {
	testLocks(t, onARealServer(t))
	t.Run("not readable", func(t *testing.T) { testLocksDenied(t, onARealServer(t)) })
}

// testLocksDenied walks over a directory that may not be listed, a contender that may not
// be read, and a semaphore whose leases may not be read.
func testLocksDenied(t *testing.T, s *site) {
	made(t, s, "/a/lock-0000000000+", "/b/hidden/lock-0000000000+", "/b/shown/lock-0000000000+", "/c/lock-0000000000+", "/c/x/lock-0000000000+",
		"/d/size", "/d/leases/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lease-0000000000+", "/e/lock-0000000000+")
	_, err := s.raw.Set(s.root+"/d/size", []byte("2"), -1)
	eventstest.Must(t, err)
	permit := func(perms int32, nodes ...string) {
		for _, node := range nodes {
			_, err := s.raw.SetACL(s.root+node, zk.WorldACL(perms), -1)
			eventstest.Must(t, err)
		}
	}
	permit(zk.PermAll&^zk.PermRead, "/b/hidden", "/c/lock-0000000000", "/d/leases")
	defer permit(zk.PermAll, "/b/hidden", "/d/leases") // a listing of what is left must not fail
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

// grove creates n locks whose contenders belong to no session, and returns their paths in
// order.
func grove(t *testing.T, srv *zktest.Server, n int) (paths []string) {
	t.Helper()
	for i := range n {
		paths = append(paths, fmt.Sprintf("/grove/%04d", i))
		eventstest.Must(t, srv.Create(paths[i]+"/lock-0000000000", nil))
	}
	return paths
}

// pathsOfWalk returns the paths that a walk yields, and checks that there is no error.
func pathsOfWalk(t *testing.T, c *coordinator.Coordinator, root string) (paths []string) {
	t.Helper()
	for info, err := range c.Locks(t.Context(), root) {
		expect(t, err == nil, "at %s: %v, want no error", info.Path, err)
		paths = append(paths, info.Path)
	}
	return paths
}

// TestLocksFindsEachOnceInOrder in trees of any shape.
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
			got := pathsOfWalk(t, coordtest.Connect(t, srv), "/top")
			expect(t, slices.Equal(got, want), "seed %d: a walk finds\n%v\nwant\n%v", seed, got, want)
		})
	}
}

// TestAWalkThatEndsLeavesNothingUnderWay: after the loop no request is sent, and during
// the walk only a bounded number at a time.
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
			expectEqual(t, underWay.Load(), 0, "requests under way in the loop")
			if len(seen) == 3 {
				break
			}
		}
		before := all.Load()
		time.Sleep(time.Hour)
		expect(t, slices.Equal(seen, paths[:3]) && all.Load() == before && before <= 1+2*64,
			"a loop that was left has seen %v with %d requests, and %d later; want three, at most 129, and none",
			seen, before, all.Load()-before)
		all.Store(0)
		start := time.Now()
		got := pathsOfWalk(t, c, "/grove")
		took := time.Since(start)
		expect(t, slices.Equal(got, paths) && most.Load() == 64 && all.Load() == 2001,
			"a walk finds %d locks of %d, with %d requests, %d at a time; want all, 2001 and 64",
			len(got), len(paths), all.Load(), most.Load())
		// One round trip for the listings of 64 locks, and one for their contenders.
		expect(t, took <= 40*rtt, "the walk took %v, want at most %v", took, 40*rtt)
	})
}

// TestAWalkEndsWithItsContextAndItsCoordinator: it yields one error, and nothing after
// that.
func TestAWalkEndsWithItsContextAndItsCoordinator(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		grove(t, srv, 1000)
		impatient := errors.New("impatient")
		for what, want := range map[string]error{"context": impatient, "coordinator": coordinator.ErrClosed} {
			for _, at := range []int{0, 1, 100} {
				c := coordtest.Connect(t, srv)
				ctx, cancel := context.WithCancelCause(t.Context())
				end := func() { eventstest.Check(t, c.Close()) }
				more := 64 // results read already are still yielded if the coordinator ends
				if what == "context" {
					end, more = func() { cancel(impatient) }, 0
				}
				if at == 0 {
					end()
				}
				found, errs := 0, []error{}
				for info, err := range c.Locks(ctx, "/grove") {
					if err != nil {
						errs = append(errs, err)
						expect(t, info.Path == "/grove" && info.Kind == events.LockUnknown,
							"%s: the error comes with %+v, want the root", what, info)
					} else if found++; found == at {
						end()
					}
				}
				cancel(nil)
				expect(t, len(errs) == 1 && errors.Is(errs[0], want) && found >= at && found <= at+more,
					"%s ends at lock %d: the walk finds %d, and ends with %v; want %v, once", what, at, found, errs, want)
			}
		}
		c := coordtest.Connect(t, srv)
		for _, root := range []string{"", "grove", "/grove/", "/zookeeper"} {
			got := walked(t.Context(), c, root)
			expect(t, len(got) == 1 && strings.Contains(got[0], "malformed path"),
				"a walk from %q yields %q, want ErrPath", root, got)
		}
	})
}

// TestAWalkLeavesOutWhatIsGone, and lists a contender that enters a semaphore meanwhile
// only once.
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
				held[0].Release() // the second enters between the reads of the queue and the leases
				return zktest.Delay(time.Second)
			}
			return zktest.Pass()
		})
		got := strings.Join(walked(t.Context(), c, "/"), "; ")
		expectEqual(t, got, "/grove/0000 unknown +; /other mutex +; /sem semaphore/1 *1+", "a walk meanwhile")
		expect(t, entered, "no contender has entered meanwhile, want the second in the queue")
	})
}

// TestPollReadsHoldersAndNewcomersOnly: a second walk lists the locks, and does not read
// waiters again. Nodes in a directory that was deleted and made again are read, whatever
// their names.
func TestPollReadsHoldersAndNewcomersOnly(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		var all []*coordinator.Acquisition
		for i := range 10 {
			all = append(all, coordtest.Queue(c.Mutex("/locks/poll"), named(fmt.Sprint("contender ", i))))
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
				eventstest.Must(t, err)
				seen = append(seen, seenAs(info))
			}
			expectEqual(t, srv.Requests(zktest.OpGetData)-before, want, "%s: reads", when)
			return seen
		}
		first := polled(10+1+3, "the first walk") // including the semaphore's size
		second := polled(1+1+1, "the second walk")
		expect(t, slices.Equal(first, second), "a second walk yields\n%q\nwant\n%q", second, first)
		all[0].Release()
		<-all[1].Granted()
		coordtest.Queue(c.Mutex("/locks/poll"), named("newcomer"))
		seen := polled(1+1+1, "after a handoff")
		expect(t, strings.Contains(seen[0], "newcomer") && !strings.Contains(seen[0], "contender 0"),
			"after a handoff a walk yields %q", seen)
	})
}

// TestPollOfADirectoryMadeAnew: a node whose name occurs again is another node.
func TestPollOfADirectoryMadeAnew(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		walk := c.Poll("/anew")
		for _, data := range []string{"before", "after"} {
			admin := coordtest.Admin(t, srv.Addr(), srv.DialContext)
			makeNodes(t, admin, [2]string{"/anew"})
			for _, node := range []string{"/lock-0000000000", "/lock-0000000001"} {
				_, err := admin.Create("/anew"+node, []byte(data), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
				eventstest.Must(t, err)
			}
			for info, err := range walk(t.Context()) {
				expect(t, err == nil && string(info.Contenders[1].Data) == data,
					"a walk yields %s, %v; want the data %q", seenAs(info), err, data)
			}
			for _, node := range []string{"/lock-0000000000", "/lock-0000000001", ""} {
				eventstest.Must(t, srv.Delete("/anew"+node))
			}
		}
	})
}
