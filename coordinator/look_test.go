package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
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

// What Queue returns, and that looking leaves nothing behind.

// look returns the result of Queue, which must not fail.
func look(t *testing.T, l *coordinator.Lock) []events.Contender {
	t.Helper()
	queue, err := l.Queue(t.Context())
	if err != nil {
		t.Fatalf("Queue: %v, want nil", err)
	}
	return queue
}

// summary has a contender as "data+" if it holds, and as "data" if it waits.
func summary(queue []events.Contender) string {
	var words []string
	for _, c := range queue {
		word := string(c.Data)
		if c.Holding {
			word += "+"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestQueueShowsHolderAndWaitersInOrder(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b, onlooker := coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		seen := onlooker.Mutex(lockPath)
		if queue := look(t, seen); len(queue) != 0 || len(srv.Tree()) != 0 {
			t.Errorf("before the first contender the queue is %v, the nodes are %v; want neither", queue, srv.Tree())
		}
		start := time.Now()
		holder, grant := coordtest.Hold(t, a.Mutex(lockPath), coordinator.WithData([]byte("first")))
		time.Sleep(time.Minute)
		second := coordtest.Queue(b.Mutex(lockPath), coordinator.WithData([]byte("second")))
		coordtest.Queue(a.Mutex(lockPath), coordinator.WithData([]byte("third")))
		for _, c := range []*coordinator.Coordinator{onlooker, a, b} {
			if got := summary(look(t, c.Mutex(lockPath))); got != "first+ second third" {
				t.Errorf("the queue is %q, want %q", got, "first+ second third")
			}
		}
		got := look(t, seen)
		if first := got[0]; first.Node != grant.Node || first.Session != a.SessionID() || first.Kind != events.KindLock ||
			!first.Since.Truncate(time.Second).Equal(start.Truncate(time.Second)) {
			t.Errorf("the first in the queue is %+v, want what was granted as %+v, since %v", first, grant, start)
		}
		if second := got[1]; second.Session != b.SessionID() || second.Since.Sub(got[0].Since).Truncate(time.Second) != time.Minute {
			t.Errorf("the second in the queue is %+v after %+v, want that of %#x, a minute younger", second, got[0], b.SessionID())
		}
		copy(got[0].Data, "WRONG")
		holder.Release()
		if _, err := second.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-holder.Done()
		if got := summary(look(t, seen)); got != "second+ third" {
			t.Errorf("after a handoff the queue is %q, want %q", got, "second+ third")
		}
	})
}

// TestQueueTakesForeignContendersForWhatTheyAre has every form of contender's name in the queue, and
// nodes that are no contenders.
func TestQueueTakesForeignContendersForWhatTheyAre(t *testing.T) {
	const uuid = "4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0"
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		want := []struct {
			name string
			kind events.Kind
		}{
			{"zz__lock__0000000000", events.KindKazooLock},
			{"_c_" + uuid + "-lock-0000000001", events.KindLock},
			{"aa__rlock__0000000002", events.KindKazooRead},
			{"_c_" + uuid + "-__READ__0000000003", events.KindRead},
			{"_c_" + uuid + "-__WRIT__0000000004", events.KindWrite},
			{"g-read-0000000005", events.KindRecipeRead},
			{"g-write-0000000006", events.KindRecipeWrite},
			{"x-72057594037927936-0000000007", events.KindWriteLock},
		}
		names := []string{"!note", "config", "_c_" + uuid, "_c_" + uuid + "-lease-0000000000", "lock-7", "lock-0000000008.bak"}
		for _, w := range want {
			names = append(names, w.name)
		}
		for _, name := range names {
			eventstest.Must(t, srv.Create(lockPath+"/"+name, []byte(name)))
		}
		eventstest.Must(t, srv.SetSequence(lockPath, 9))
		c := coordtest.Connect(t, srv)
		coordtest.Queue(c.Mutex(lockPath), coordinator.WithData([]byte("ours")))
		gets := srv.Requests(zktest.OpGetData)
		got := look(t, c.Mutex(lockPath))
		if len(got) != len(want)+1 {
			t.Fatalf("%d contenders, want %d: %+v", len(got), len(want)+1, got)
		}
		for i, w := range want {
			g := got[i]
			if g.Node != lockPath+"/"+w.name || g.Kind != w.kind || string(g.Data) != w.name || g.Session != 0 || g.Holding != (i == 0) {
				t.Errorf("%d is %+v, want %v", i, g, w)
			}
		}
		if last := got[len(want)]; string(last.Data) != "ours" || last.Session != c.SessionID() || last.Holding {
			t.Errorf("the last in the queue is %+v, want ours, waiting", last)
		}
		if n := srv.Requests(zktest.OpGetData) - gets; n != len(got) {
			t.Errorf("%d nodes read, want the %d contenders", n, len(got))
		}
	})
}

// TestTheQueueOfAReadWriteLockShowsTheHolders shows a writer behind readers, and one that becomes a reader
// in its own place. Whichever side is asked, readers wait for writers only.
func TestTheQueueOfAReadWriteLockShowsTheHolders(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		rw := coordtest.Connect(t, srv).ReadWrite(lockPath)
		sides := []interface {
			Queue(context.Context) ([]events.Contender, error)
		}{rw, rw.Read(), rw.Write()}
		want := func(want string) {
			t.Helper()
			synctest.Wait()
			for _, side := range sides {
				if queue, err := side.Queue(t.Context()); err != nil || summary(queue) != want {
					t.Errorf("%T: %q, %v, want %q", side, summary(queue), err, want)
				}
			}
		}
		named := func(name string) coordinator.AcquireOption { return coordinator.WithData([]byte(name)) }
		first, _ := coordtest.Hold(t, rw.Read(), named("r1"))
		second, _ := coordtest.Hold(t, rw.Read(), named("r2"))
		writer := coordtest.Queue(rw.Write(), named("w3"))
		coordtest.Queue(rw.Read(), named("r4"))
		coordtest.Queue(rw.Write(), named("w5"))
		want("r1+ r2+ w3 r4 w5")
		first.Release()
		want("r2+ w3 r4 w5")
		second.Release()
		want("w3+ r4 w5")
		if _, err := writer.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		reader := rw.Read().Acquire(writer.Context(t.Context()), named("w3 reads"))
		if _, err := reader.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if queue := look(t, rw.Read()); len(queue) != 4 || !queue[0].Holding || !queue[1].Holding || queue[2].Holding {
			t.Errorf("while a writer becomes a reader the queue is %q, want its two nodes to hold, and two to wait", summary(queue))
		}
		writer.Release()
		want("w3 reads+ r4+ w5")
	})
}

func TestQueueIsInTheCallersNameSpace(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		for _, tt := range []struct{ servers, dir, outside string }{
			{srv.Addr() + "/app/one", "/locks/a", "/app/one/locks/a"},
			{srv.Addr() + "/app/two", "/", "/app/two"},
			{srv.Addr(), "/top", "/top"},
		} {
			c, err := coordinator.Connect(t.Context(), tt.servers, srv.Option())
			if err != nil {
				t.Fatal(err)
			}
			if queue := look(t, c.Mutex(tt.dir)); len(queue) != 0 {
				t.Errorf("%s: the queue of a directory that does not exist is %+v, want none", tt.outside, queue)
			}
			a, grant := coordtest.Hold(t, c.Mutex(tt.dir))
			if queue := look(t, c.Mutex(tt.dir)); len(queue) != 1 || queue[0].Node != grant.Node || path.Dir(grant.Node) != tt.dir {
				t.Errorf("%s: the queue is %+v, want what was granted: %+v", tt.outside, queue, grant)
			}
			if children := srv.Children(tt.outside); len(children) != 1 || children[0] != path.Base(grant.Node) {
				t.Errorf("%s has the nodes %v, want that of the grant, %s", tt.outside, children, grant.Node)
			}
			a.Release()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestQueueLeavesOutContendersThatAreGone deletes the holder's node, or every node, between the listing and
// the reading.
func TestQueueLeavesOutContendersThatAreGone(t *testing.T) {
	for want, gone := range map[string][]int{"1+ 2": {0}, "0+ 2": {1}, "2+": {0, 1}, "": {0, 1, 2}} {
		t.Run(want, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				for i := range 3 {
					eventstest.Must(t, srv.Create(fmt.Sprintf("%s/lock-%010d", lockPath, i), fmt.Appendf(nil, "%d", i)))
				}
				c := coordtest.Connect(t, srv)
				srv.Intercept(func(r zktest.Request) zktest.Action {
					for r.Op == zktest.OpGetData && len(gone) > 0 {
						if err := srv.Delete(fmt.Sprintf("%s/lock-%010d", lockPath, gone[0])); err != nil {
							t.Error(err)
						}
						gone = gone[1:]
					}
					return zktest.Pass()
				})
				if got := summary(look(t, c.Mutex(lockPath))); got != want {
					t.Errorf("the queue is %q, want %q", got, want)
				}
			})
		})
	}
}

// TestQueueChangesNothing counts what a look costs the server, and checks that nothing else comes of it:
// a look has no part in what the session knows of the directory.
func TestQueueChangesNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		coordtest.Warm(t, c)
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		onlooker := coordtest.Connect(t, srv)
		deadline, watches, tree := a.Deadline(), srv.Watches(), srv.Tree()
		seen := map[zktest.Op]int{}
		srv.Intercept(func(r zktest.Request) zktest.Action {
			seen[r.Op]++
			return zktest.Pass()
		})
		for _, c := range []*coordinator.Coordinator{c, onlooker} {
			if got := look(t, c.Mutex(lockPath)); len(got) != 2 {
				t.Errorf("the queue is %+v, want two contenders", got)
			}
		}
		synctest.Wait()
		if len(seen) != 2 || seen[zktest.OpGetChildren2] != 2 || seen[zktest.OpGetData] != 4 {
			t.Errorf("two looks made the requests %v, want a listing and two readings each", seen)
		}
		if srv.Watches() != watches || !slices.Equal(srv.Tree(), tree) || !a.Deadline().Equal(deadline) {
			t.Errorf("after two looks: %d watches after %d, nodes %v after %v, deadline %v after %v; want no change",
				srv.Watches(), watches, srv.Tree(), tree, a.Deadline(), deadline)
		}
	})
}

// TestALoopWithLooksCostsTheSame: without other contenders the directory stays known for one of ours, so
// that a free lock takes one request.
func TestALoopWithLooksCostsTheSame(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		coordtest.Warm(t, c)
		for round := range 3 {
			sent := coordtest.Traffic(srv)
			a, _ := coordtest.Hold(t, c.Mutex(lockPath))
			coordtest.End(a)
			if n := sent.Load(); n != 2 {
				t.Errorf("round %d took %d requests, want 2", round, n)
			}
			look(t, c.Mutex(lockPath))
		}
	})
}

func TestQueueOfABadPathIsRefusedLikeAcquire(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		sent := coordtest.Traffic(srv)
		for _, p := range []string{"", "locks", "/locks/", "/a//b", "/a/../b", "/a\x00", "/zookeeper", "/zookeeper/quota/x", "/" + strings.Repeat("x", 1<<20)} {
			_, err := c.Mutex(p).Queue(t.Context())
			a := c.Mutex(p).Acquire(t.Context())
			<-a.Done()
			if !errors.Is(err, coordinator.ErrPath) || a.Err() == nil || err.Error() != a.Err().Error() {
				t.Errorf("%.20q: Queue says %.100v, Acquire %.100v; want ErrPath from both, in the same words", p, err, a.Err())
			}
		}
		if n := sent.Load(); n != 0 {
			t.Errorf("%d requests for bad paths, want none", n)
		}
	})
}

func TestQueueNeedsToReadTheDirectoryAndItsContenders(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		makeDir(t, onTheDouble(t, srv), zk.PermAll&^zk.PermRead)
		sent := coordtest.Traffic(srv)
		if queue, err := c.Mutex(lockPath).Queue(t.Context()); !errors.Is(err, coordinator.ErrNoAuth) || queue != nil {
			t.Errorf("Queue of a directory that may not be read = %v, %v; want ErrNoAuth", queue, err)
		}
		if n := sent.Load(); n != 1 {
			t.Errorf("a refusal took %d requests, want 1", n)
		}
		const other = "/locks/other"
		ann := coordtest.Connect(t, srv, coordinator.WithAuth("digest", []byte("somebody:else")))
		coordtest.Hold(t, ann.Mutex(other))
		coordtest.Queue(ann.Mutex(other, somebodyElse()))
		if queue, err := c.Mutex(other).Queue(t.Context()); !errors.Is(err, coordinator.ErrNoAuth) || queue != nil {
			t.Errorf("Queue with a contender that may not be read = %v, %v; want ErrNoAuth", queue, err)
		}
		if queue := look(t, ann.Mutex(other)); len(queue) != 2 {
			t.Errorf("its owner sees the queue %+v, want two contenders", queue)
		}
	})
}

// TestRealQueue looks at queues through each of three servers. The servers' counters show no change.
func TestRealQueue(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	const dir, foreigners = "/locks/looked", 500
	e := coordtest.Servers(t, 3)
	raw := coordtest.RawClient(t, e.Addr(0))
	holder, waiter := coordtest.ConnectReal(t, e.Connect()+"/app"), coordtest.ConnectReal(t, e.Connect()+"/app")
	held := holder.Mutex(dir).Acquire(t.Context(), coordinator.WithData([]byte("holder")))
	grant := coordtest.GrantOf(t, held)
	coordtest.Queued(t, raw, "/app"+dir, 1)
	waiter.Mutex(dir).Acquire(t.Context(), coordinator.WithData([]byte("waiter")))
	coordtest.Queued(t, raw, "/app"+dir, 2)
	made := make(chan error, foreigners)
	for i := range foreigners {
		go func() {
			_, err := raw.CreateProtectedEphemeralSequential("/app"+dir+"/lock-", fmt.Appendf(nil, "%d", i), zk.WorldACL(zk.PermAll))
			made <- err
		}()
	}
	for range foreigners {
		eventstest.Must(t, <-made)
	}
	if _, err := raw.Create("/app"+dir+"/notes", nil, 0, zk.WorldACL(0)); err != nil { // no client may read it
		t.Fatal(err)
	}
	for i := range 3 {
		onlooker := coordtest.ConnectReal(t, e.Addr(i)+"/app")
		var queue []events.Contender
		eventstest.Eventually(t, "the server has caught up", func() bool {
			var err error
			if queue, err = onlooker.Mutex(dir).Queue(coordtest.RealContext(t)); err != nil {
				t.Fatal(err)
			}
			return len(queue) == 2+foreigners
		})
		for j, want := range []struct {
			data    string
			session int64
		}{{"holder", holder.SessionID()}, {"waiter", waiter.SessionID()}, {"", raw.SessionID()}} {
			got := queue[j]
			if want.data != "" && string(got.Data) != want.data || got.Session != want.session || got.Holding != (j == 0) ||
				got.Kind != events.KindLock || time.Since(got.Since).Abs() > coordtest.RealMax {
				t.Errorf("server %d: %d is %+v, want %+v", i, j, got, want)
			}
		}
		if queue[0].Node != grant.Node {
			t.Errorf("server %d: %+v holds, want what was granted: %+v", i, queue[0], grant)
		}
		if none, err := onlooker.Mutex("/locks/none").Queue(coordtest.RealContext(t)); err != nil || len(none) != 0 {
			t.Errorf("server %d: the queue of nothing is %v, %v; want none", i, none, err)
		}
	}
	if exists, _, err := raw.Exists("/app/locks/none"); err != nil || exists {
		t.Errorf("after a look the directory exists: %v, %v; want none", exists, err)
	}
	if _, err := raw.Create("/app"+dir+"/lock-0000009999", nil, 0, zk.WorldACL(0)); err != nil {
		t.Fatal(err)
	}
	defer func() { // what is left would stand in the way of the next time
		eventstest.Check(t, raw.Delete("/app"+dir+"/lock-0000009999", -1))
		eventstest.Check(t, raw.Delete("/app"+dir+"/notes", -1))
	}()
	eventstest.Eventually(t, "a refusal because of an unreadable contender", func() bool { // the holder's server may not know of it yet
		queue, err := holder.Mutex(dir).Queue(coordtest.RealContext(t))
		if err != nil && queue != nil {
			t.Errorf("Queue = %d contenders with %v, want none beside an error", len(queue), err)
		}
		return errors.Is(err, coordinator.ErrNoAuth)
	})
	coordtest.NotLost(t, held)
	held.Release()
}
