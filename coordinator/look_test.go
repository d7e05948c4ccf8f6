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
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What Queue says of a lock, and that looking leaves nothing behind. What becomes of a
// look when things go wrong is in lookfault_test.go.

// look returns what Queue does, which has to work.
func look(t *testing.T, l *coordinator.Lock) []events.Contender {
	t.Helper()
	queue, err := l.Queue(t.Context())
	if err != nil {
		t.Fatalf("Queue: %v", err)
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
			t.Errorf("before anybody came: %v, nodes %v", queue, srv.Tree())
		}
		start := time.Now()
		holder, grant := coordtest.Hold(t, a.Mutex(lockPath), coordinator.WithData([]byte("first")))
		time.Sleep(time.Minute)
		second := coordtest.Queue(b.Mutex(lockPath), coordinator.WithData([]byte("second")))
		coordtest.Queue(a.Mutex(lockPath), coordinator.WithData([]byte("third")))
		for _, c := range []*coordinator.Coordinator{onlooker, a, b} {
			if got := summary(look(t, c.Mutex(lockPath))); got != "first+ second third" {
				t.Errorf("the queue is %q", got)
			}
		}
		got := look(t, seen)
		if first := got[0]; first.Node != grant.Node || first.Session != a.SessionID() || first.Kind != events.KindLock ||
			!first.Since.Truncate(time.Second).Equal(start.Truncate(time.Second)) {
			t.Errorf("%+v of %+v", first, grant)
		}
		if second := got[1]; second.Session != b.SessionID() || second.Since.Sub(got[0].Since).Truncate(time.Second) != time.Minute {
			t.Errorf("%+v behind %+v", second, got[0])
		}
		copy(got[0].Data, "WRONG")
		holder.Release()
		if _, err := second.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-holder.Done()
		if got := summary(look(t, seen)); got != "second+ third" {
			t.Errorf("after a handoff the queue is %q", got)
		}
	})
}

// TestQueueTakesForeignContendersForWhatTheyAre has every form of contender's name in
// the queue, and things that are none.
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
			if err := srv.Create(lockPath+"/"+name, []byte(name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := srv.SetSequence(lockPath, 9); err != nil {
			t.Fatal(err)
		}
		c := coordtest.Connect(t, srv)
		coordtest.Queue(c.Mutex(lockPath), coordinator.WithData([]byte("ours")))
		gets := srv.Requests(zktest.OpGetData)
		got := look(t, c.Mutex(lockPath))
		if len(got) != len(want)+1 {
			t.Fatalf("%d contenders: %+v", len(got), got)
		}
		for i, w := range want {
			g := got[i]
			if g.Node != lockPath+"/"+w.name || g.Kind != w.kind || string(g.Data) != w.name || g.Session != 0 || g.Holding != (i == 0) {
				t.Errorf("%d is %+v, want %v", i, g, w)
			}
		}
		if last := got[len(want)]; string(last.Data) != "ours" || last.Session != c.SessionID() || last.Holding {
			t.Errorf("%+v", last)
		}
		if n := srv.Requests(zktest.OpGetData) - gets; n != len(got) {
			t.Errorf("%d nodes read of %d contenders", n, len(got))
		}
	})
}

// TestQueueOfAReadWriteLock shows a writer behind readers, and one that becomes a reader
// in its own place. Whichever side is asked, readers wait for writers only.
func TestQueueOfAReadWriteLock(t *testing.T) {
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
			t.Errorf("halfway: %q", summary(queue))
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
				t.Errorf("%s: %+v in a directory that does not exist", tt.outside, queue)
			}
			a, grant := coordtest.Hold(t, c.Mutex(tt.dir))
			if queue := look(t, c.Mutex(tt.dir)); len(queue) != 1 || queue[0].Node != grant.Node || path.Dir(grant.Node) != tt.dir {
				t.Errorf("%s: %+v, granted %+v", tt.outside, queue, grant)
			}
			if children := srv.Children(tt.outside); len(children) != 1 || children[0] != path.Base(grant.Node) {
				t.Errorf("%s has %v", tt.outside, children)
			}
			a.Release()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestQueueLeavesOutWhoIsGoneByThen deletes the holder's node, or everybody's, between
// the listing and the reading.
func TestQueueLeavesOutWhoIsGoneByThen(t *testing.T) {
	for want, gone := range map[string][]int{"1+ 2": {0}, "0+ 2": {1}, "2+": {0, 1}, "": {0, 1, 2}} {
		t.Run(want, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				for i := range 3 {
					if err := srv.Create(fmt.Sprintf("%s/lock-%010d", lockPath, i), fmt.Appendf(nil, "%d", i)); err != nil {
						t.Fatal(err)
					}
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

// TestQueueChangesNothing counts what a look costs the server, and that nothing else
// comes of it: a look has no part in what the session knows of the directory.
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
				t.Errorf("%+v", got)
			}
		}
		synctest.Wait()
		if len(seen) != 2 || seen[zktest.OpGetChildren2] != 2 || seen[zktest.OpGetData] != 4 {
			t.Errorf("requests: %v", seen)
		}
		if srv.Watches() != watches || !slices.Equal(srv.Tree(), tree) || !a.Deadline().Equal(deadline) {
			t.Errorf("%d watches after %d, nodes %v, deadline %v after %v", srv.Watches(), watches, srv.Tree(), a.Deadline(), deadline)
		}
	})
}

// TestALoopWithLooksCostsTheSame: the directory stays known for one of ours where
// nobody else is, so that a free lock takes one request.
func TestALoopWithLooksCostsTheSame(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		coordtest.Warm(t, c)
		for round := range 3 {
			sent := coordtest.Traffic(srv)
			a, _ := coordtest.Hold(t, c.Mutex(lockPath))
			a.Release()
			<-a.Done()
			if n := sent.Load(); n != 2 {
				t.Errorf("round %d took %d requests", round, n)
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
				t.Errorf("%.20q: Queue says %.100v, Acquire %.100v", p, err, a.Err())
			}
		}
		if n := sent.Load(); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestQueueNeedsToReadTheDirectoryAndItsContenders(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		makeDir(t, coordtest.Admin(t, srv.Addr(), srv.DialContext), "", zk.PermAll&^zk.PermRead)
		sent := coordtest.Traffic(srv)
		if queue, err := c.Mutex(lockPath).Queue(t.Context()); !errors.Is(err, coordinator.ErrNoAuth) || queue != nil {
			t.Errorf("the directory: %v, %v", queue, err)
		}
		if n := sent.Load(); n != 1 {
			t.Errorf("%d requests", n)
		}
		const other = "/locks/other"
		ann := coordtest.Connect(t, srv, coordinator.WithAuth("digest", []byte("somebody:else")))
		coordtest.Hold(t, ann.Mutex(other))
		coordtest.Queue(ann.Mutex(other, somebodyElse()))
		if queue, err := c.Mutex(other).Queue(t.Context()); !errors.Is(err, coordinator.ErrNoAuth) || queue != nil {
			t.Errorf("a contender: %v, %v", queue, err)
		}
		if queue := look(t, ann.Mutex(other)); len(queue) != 2 {
			t.Errorf("%+v", queue)
		}
	})
}

// TestQueuedComesWithEachListing compares the events with the listings that a waiter
// makes: behind its create, and again on each new connection.
func TestQueuedComesWithEachListing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		for i := range 3 {
			if err := srv.Create(fmt.Sprintf("%s/lock-%010d", lockPath, i), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := srv.SetSequence(lockPath, 3); err != nil {
			t.Fatal(err)
		}
		c := coordtest.Connect(t, srv)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream := c.Events(ctx)
		var ahead []int
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ev := range stream {
				if q, ok := ev.(events.Queued); ok {
					ahead = append(ahead, q.Ahead)
				}
			}
		}()
		a := coordtest.Queue(c.Mutex(lockPath))
		for i := range 3 {
			srv.Cut(c.SessionID())
			time.Sleep(time.Second) // until it is connected, and has listed
			if err := srv.Delete(fmt.Sprintf("%s/lock-%010d", lockPath, i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-ended
		if want := []int{3, 3, 2, 1}; !slices.Equal(ahead, want) {
			t.Errorf("ahead were %v, want %v", ahead, want)
		}
		if n := srv.Requests(zktest.OpGetChildren2); n != len(ahead) {
			t.Errorf("%d listings", n)
		}
	})
}
