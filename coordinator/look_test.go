package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
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
		holder, grant := coordtest.Hold(t, a.Mutex(lockPath), named("first"))
		time.Sleep(time.Minute)
		second := coordtest.Queue(b.Mutex(lockPath), named("second"))
		coordtest.Queue(a.Mutex(lockPath), named("third"))
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
		coordtest.End(holder)
		coordtest.Soon(t, second)
		if got := summary(look(t, seen)); got != "second+ third" {
			t.Errorf("after a handoff the queue is %q, want %q", got, "second+ third")
		}
	})
}

// TestTheQueueOfAReadWriteLockShowsTheHolders, whichever side is asked: readers wait for writers only, and a writer that becomes a
// reader holds with two nodes.
func TestTheQueueOfAReadWriteLockShowsTheHolders(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		rw := coordtest.Connect(t, srv).ReadWrite(lockPath)
		want := func(want string) {
			t.Helper()
			synctest.Wait()
			for _, side := range []func(context.Context) ([]events.Contender, error){rw.Queue, rw.Read().Queue, rw.Write().Queue} {
				if queue, err := side(t.Context()); err != nil || summary(queue) != want {
					t.Errorf("the queue is %q, %v, want %q", summary(queue), err, want)
				}
			}
		}
		first, _ := coordtest.Hold(t, rw.Read(), named("r1"))
		writer := coordtest.Queue(rw.Write(), named("w2"))
		coordtest.Queue(rw.Read(), named("r3"))
		coordtest.Queue(rw.Write(), named("w4"))
		want("r1+ w2 r3 w4")
		first.Release()
		want("w2+ r3 w4")
		coordtest.Soon(t, rw.Read().Acquire(writer.Context(t.Context()), named("w2")))
		want("w2+ w2+ r3 w4")
		writer.Release()
		want("w2+ r3+ w4")
	})
}

func TestQueueIsInTheCallersNameSpace(t *testing.T) {
	type row struct{ chroot, dir string }
	forEach(t, map[string]row{
		"below a chroot": {"/app/one", "/locks/a"}, "the chroot": {"/app/two", "/"}, "no chroot": {"", "/top"},
	}, func(t *testing.T, srv *zktest.Server, x row) {
		c := connectBelow(t, srv, x.chroot)
		_, grant := coordtest.Hold(t, c.Mutex(x.dir))
		if queue := look(t, c.Mutex(x.dir)); len(queue) != 1 || queue[0].Node != grant.Node || path.Dir(grant.Node) != x.dir {
			t.Errorf("the queue is %+v, want what was granted: %+v", queue, grant)
		}
		if children := srv.Children(path.Join("/", x.chroot, x.dir)); !slices.Equal(children, []string{path.Base(grant.Node)}) {
			t.Errorf("the directory has the nodes %v, want that of the grant, %s", children, grant.Node)
		}
	})
}

// TestQueueChangesNothing counts what a look costs the server, and checks that nothing else comes of it:
// a look has no part in what the session knows of the directory, so a free lock still takes one request.
func TestQueueChangesNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		coordtest.Warm(t, c)
		look(t, c.Mutex(lockPath))
		sent := coordtest.Traffic(srv)
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		if n := sent.Load(); n != 1 {
			t.Errorf("a free lock took %d requests after a look, want 1", n)
		}
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

// How a look ends when the connection, the session, the caller's context or the coordinator ends, and
// what many looks cost.

// looked is what Queue returned.
type looked struct {
	queue []events.Contender
	err   error
}

// looking calls Queue in a goroutine. It works in bubbles only.
func looking(ctx context.Context, l *coordinator.Lock) <-chan looked {
	result := make(chan looked, 1)
	go func() {
		queue, err := l.Queue(ctx)
		result <- looked{queue, err}
	}()
	synctest.Wait()
	return result
}

// crowd makes n contenders of no session.
func crowd(t *testing.T, srv *zktest.Server, n int) {
	t.Helper()
	for i := range n {
		eventstest.Must(t, srv.Create(fmt.Sprintf("%s/lock-%010d", lockPath, i), fmt.Appendf(nil, "%d", i)))
	}
}

// TestQueueBeginsAgainWhenItIsInterrupted has one fault strike at each request of a look.
func TestQueueBeginsAgainWhenItIsInterrupted(t *testing.T) {
	happens := mishaps()
	happens["silence"] = func(srv *zktest.Server, _ int64) zktest.Action {
		srv.MuteAll(true)
		time.AfterFunc(8*time.Second, func() { srv.MuteAll(false) }) // the client has hung up by then
		return zktest.Swallow()
	}
	happens["said to be expired"] = func(srv *zktest.Server, session int64) zktest.Action {
		if err := srv.Expire(session); err != nil {
			panic(err)
		}
		return zktest.Fail(zktest.SessionExpired)
	}
	for nth := range 4 { // the listing, and three readings
		forEach(t, happens, func(t *testing.T, srv *zktest.Server, act func(*zktest.Server, int64) zktest.Action) {
			crowd(t, srv, 3)
			c, seen := coordtest.Connect(t, srv), 0
			srv.Intercept(func(r zktest.Request) zktest.Action {
				if !isA(zktest.OpGetChildren2, zktest.OpGetData)(r) {
					return zktest.Pass()
				}
				if seen++; seen == nth+1 {
					return act(srv, r.Session)
				}
				return zktest.Pass()
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got, err := c.Mutex(lockPath).Queue(ctx)
			if err != nil || summary(got) != "0+ 1 2" || seen < nth+5 {
				t.Errorf("struck at request %d, Queue = %+v, %v after %d requests; want %q, with all four requests made again",
					nth, got, err, seen, "0+ 1 2")
			}
		})
	}
}

// obstacles keep a look from its end.
var obstacles = map[string]func(srv *zktest.Server){
	"there is no connection":         func(srv *zktest.Server) { srv.Down(true); synctest.Wait() },
	"the listing is answered late":   late(zktest.OpGetChildren2, zktest.Delay(2*time.Second)),
	"the readings are answered late": late(zktest.OpGetData, zktest.Delay(2*time.Second)),
	"the readings are turned away":   late(zktest.OpGetData, zktest.Fail(zktest.Throttled)),
}

func late(op zktest.Op, action zktest.Action) func(srv *zktest.Server) {
	return func(srv *zktest.Server) { strike(srv, action, isA(op)) }
}

// TestQueueEndsWithItsContext at once, and nothing is sent for a caller that has given up.
func TestQueueEndsWithItsContext(t *testing.T) {
	impatient := errors.New("impatient")
	forEach(t, obstacles, func(t *testing.T, srv *zktest.Server, arrange func(*zktest.Server)) {
		crowd(t, srv, 200)
		c := coordtest.Connect(t, srv)
		arrange(srv)
		start := time.Now()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		for _, before := range []bool{false, true} {
			result := looking(ctx, c.Mutex(lockPath))
			cancel(impatient)
			if got := <-result; !errors.Is(got.err, impatient) || got.queue != nil || !time.Now().Equal(start) {
				t.Errorf("begun after the end of its context: %v; Queue = %v, %v %v after it; want the cause, at once",
					before, got.queue, got.err, time.Since(start))
			}
		}
		sent := coordtest.Traffic(srv) // the interception ends
		srv.Down(false)
		time.Sleep(10 * time.Second)
		if n := sent.Load(); n != 0 {
			t.Errorf("%d requests for a caller that has given up, want none", n)
		}
		if got := look(t, c.Mutex(lockPath)); len(got) != 200 {
			t.Errorf("the next look shows %d contenders, want 200", len(got))
		}
	})
}

func TestQueueEndsWithTheCoordinator(t *testing.T) {
	forEach(t, obstacles, func(t *testing.T, srv *zktest.Server, arrange func(*zktest.Server)) {
		crowd(t, srv, 100)
		c := coordtest.Connect(t, srv)
		arrange(srv)
		var results []<-chan looked
		for range 20 { // more than are made at a time
			results = append(results, looking(context.Background(), c.Mutex(lockPath)))
		}
		start := time.Now()
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		for _, result := range results {
			if got := <-result; !errors.Is(got.err, coordinator.ErrClosed) || got.queue != nil {
				t.Errorf("Queue = %v, %v; want ErrClosed", got.queue, got.err)
			}
		}
		if !time.Now().Equal(start) {
			t.Errorf("they were told %v after Close began, want at once", time.Since(start))
		}
		err := <-closed
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("Close = %v after %v, want at most the session timeout, 10 s", err, took)
		}
		if _, err := c.Mutex(lockPath).Queue(t.Context()); !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("Queue after Close: %v, want ErrClosed", err)
		}
	})
}

// TestQueueOfAThousandLeavesRoomForLocks looks at a long queue on a slow line, alone and with many
// others, and asks for another lock meanwhile. A server answers in order, so the lock waits for what was
// sent before.
func TestQueueOfAThousandLeavesRoomForLocks(t *testing.T) {
	const (
		contenders = 1000
		window     = 64
		rtt        = 100 * time.Millisecond
	)
	for _, lookers := range []int{1, eventstest.Amount(20, 100)} {
		t.Run(fmt.Sprintf("%d lookers", lookers), func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				crowd(t, srv, contenders)
				c := coordtest.Connect(t, srv)
				coordtest.Hold(t, c.Mutex("/locks/warm")) // it makes /locks known, and is no part of what is counted
				var now time.Time
				burst, most, listings, readings := 0, 0, 0, 0
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if !strings.HasPrefix(r.Path, lockPath) {
						return zktest.Delay(rtt)
					}
					if r.Op == zktest.OpGetChildren2 {
						listings++
					} else {
						readings++
					}
					if !time.Now().Equal(now) {
						now, burst = time.Now(), 0
					}
					burst++
					most = max(most, burst)
					return zktest.Delay(rtt)
				})
				start := time.Now()
				var all sync.WaitGroup
				for range lookers {
					all.Go(func() {
						if got := look(t, c.Mutex(lockPath)); len(got) != contenders || !got[0].Holding {
							t.Errorf("%d contenders are shown, want %d with the first holding",
								len(got), contenders)
						}
					})
				}
				time.Sleep(rtt / 2)
				a, _ := coordtest.Hold(t, c.Mutex("/locks/urgent"))
				if took := time.Since(start); took > 20*rtt {
					t.Errorf("a lock took %v meanwhile, want at most %v", took, 20*rtt)
				}
				a.Release()
				all.Wait()
				if most != window || listings != lookers || readings != lookers*contenders {
					t.Errorf("%d requests at a time, %d listings, %d readings; want %d, %d and %d",
						most, listings, readings, window, lookers, lookers*contenders)
				}
				if took, want := time.Since(start), rtt*time.Duration(lookers*contenders/window+lookers); lookers == 1 && took > want+2*rtt {
					t.Errorf("it took %v, want some %v", took, want)
				}
			})
		})
	}
}

// TestLookersThatGiveUpDoNotPileUp has thousands look at a queue, one after the other, and each give up
// soon. A server does not show the queue's contenders. What the looks leave under way stays bounded, and
// is gone with the connection.
func TestLookersThatGiveUpDoNotPileUp(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crowd(t, srv, 100)
		c := coordtest.Connect(t, srv)
		readings := 0
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if !strings.HasPrefix(r.Path, lockPath+"/") {
				return zktest.Pass()
			}
			readings++
			return zktest.Swallow()
		})
		for range 3000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := c.Mutex(lockPath).Queue(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		if readings != 4 {
			t.Errorf("%d readings are under way, want the 4 that a look begins with", readings)
		}
		before := time.Now()
		coordtest.Hold(t, c.Mutex("/locks/another"))
		if took := time.Since(before); took > time.Second {
			t.Errorf("another lock is held after %v, want it to have room beside the looks", took)
		}
		srv.Intercept(nil)
		srv.Cut(c.SessionID())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, err := c.Mutex(lockPath).Queue(ctx); err != nil || len(got) != 100 {
			t.Errorf("on a new connection %d contenders are shown, %v; want 100", len(got), err)
		}
	})
}
