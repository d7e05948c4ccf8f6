package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// What Queue returns, and that it leaves nothing behind.

// look returns the result of Queue, which must succeed.
func look(t *testing.T, l *coordinator.Lock) []events.Contender {
	t.Helper()
	queue, err := l.Queue(t.Context())
	eventstest.Must(t, err)
	return queue
}

// summary lists the contenders: "data+" for a holder, "data" for a waiter, and for a
// semaphore the permits before the sign.
func summary(queue []events.Contender) string {
	var words []string
	for _, c := range queue {
		word := string(c.Data)
		if c.Permits != 0 {
			word += fmt.Sprint("*", c.Permits)
		}
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
		expectEqual(t, len(look(t, seen))+len(srv.Tree()), 0, "contenders and nodes before the first one")
		start := time.Now()
		holder, grant := coordtest.Hold(t, a.Mutex(lockPath), named("first"))
		time.Sleep(time.Minute)
		second := coordtest.Queue(b.Mutex(lockPath), named("second"))
		coordtest.Queue(a.Mutex(lockPath), named("third"))
		for _, c := range []*coordinator.Coordinator{onlooker, a, b} {
			expectEqual(t, summary(look(t, c.Mutex(lockPath))), "first+ second third", "the queue")
		}
		got := look(t, seen)
		expect(t, got[0].Node == grant.Node && got[0].Session == a.SessionID() && got[0].Kind == events.KindLock &&
			got[0].Since.Truncate(time.Second).Equal(start.Truncate(time.Second)),
			"the first is %+v, want what was granted as %+v, since %v", got[0], grant, start)
		younger := got[1].Since.Sub(got[0].Since).Truncate(time.Second)
		expect(t, got[1].Session == b.SessionID() && younger == time.Minute,
			"the second is %+v after %+v, want that of %#x, a minute younger", got[1], got[0], b.SessionID())
		copy(got[0].Data, "WRONG")
		coordtest.End(holder)
		coordtest.Soon(t, second)
		expectEqual(t, summary(look(t, seen)), "second+ third", "the queue after a handoff")
	})
}

// TestTheQueueOfAReadWriteLockShowsTheHolders, whichever side calls Queue: readers wait
// for writers only, and a writer that becomes a reader holds with two nodes.
func TestTheQueueOfAReadWriteLockShowsTheHolders(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		rw := coordtest.Connect(t, srv).ReadWrite(lockPath)
		want := func(want string) {
			t.Helper()
			synctest.Wait()
			for _, side := range []func(context.Context) ([]events.Contender, error){rw.Queue, rw.Read().Queue, rw.Write().Queue} {
				queue, err := side(t.Context())
				eventstest.Check(t, err)
				expectEqual(t, summary(queue), want, "the queue")
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
		queue, nodes := look(t, c.Mutex(x.dir)), srv.Children(path.Join("/", x.chroot, x.dir))
		expect(t, len(queue) == 1 && queue[0].Node == grant.Node && path.Dir(grant.Node) == x.dir &&
			slices.Equal(nodes, []string{path.Base(grant.Node)}),
			"the queue is %+v, the directory has %v; want what was granted: %+v", queue, nodes, grant)
	})
}

// TestQueueChangesNothing counts what Queue costs the server, and checks that it has no
// side effects: it does not change what the session knows of the directory, so a free
// lock still takes one request.
func TestQueueChangesNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		coordtest.Warm(t, c)
		look(t, c.Mutex(lockPath))
		sent := coordtest.Traffic(srv)
		a, _ := coordtest.Hold(t, c.Mutex(lockPath))
		expectEqual(t, sent.Load(), 1, "requests for a free lock after a look")
		coordtest.Queue(coordtest.Connect(t, srv).Mutex(lockPath))
		onlooker := coordtest.Connect(t, srv)
		deadline, watches, tree := a.Deadline(), srv.Watches(), srv.Tree()
		seen := map[zktest.Op]int{}
		srv.Intercept(func(r zktest.Request) zktest.Action {
			seen[r.Op]++
			return zktest.Pass()
		})
		for _, c := range []*coordinator.Coordinator{c, onlooker} {
			expectEqual(t, len(look(t, c.Mutex(lockPath))), 2, "contenders in the queue")
		}
		synctest.Wait()
		expect(t, len(seen) == 2 && seen[zktest.OpGetChildren2] == 2 && seen[zktest.OpGetData] == 4,
			"two looks made the requests %v, want a listing and two readings each", seen)
		expect(t, srv.Watches() == watches && slices.Equal(srv.Tree(), tree) && a.Deadline().Equal(deadline),
			"after two looks: %d watches after %d, nodes %v after %v, deadline %v after %v; want no change",
			srv.Watches(), watches, srv.Tree(), tree, a.Deadline(), deadline)
	})
}

func TestQueueNeedsToReadTheDirectoryAndItsContenders(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		makeDir(t, onTheDouble(t, srv), zk.PermAll&^zk.PermRead)
		sent := coordtest.Traffic(srv)
		refused := func(path string) {
			t.Helper()
			queue, err := c.Mutex(path).Queue(t.Context())
			expect(t, errors.Is(err, coordinator.ErrNoAuth) && queue == nil, "Queue = %v, %v", queue, err)
		}
		refused(lockPath)
		expectEqual(t, sent.Load(), 1, "requests that a refusal takes")
		const other = "/locks/other"
		ann := coordtest.Connect(t, srv, coordinator.WithAuth("digest", []byte("somebody:else")))
		coordtest.Hold(t, ann.Mutex(other))
		coordtest.Queue(ann.Mutex(other, somebodyElse()))
		refused(other)
		expectEqual(t, len(look(t, ann.Mutex(other))), 2, "contenders that their owner sees")
	})
}

// looked is the result of Queue.
type looked struct {
	queue []events.Contender
	err   error
}

// looking calls Queue in a goroutine. It works only in bubbles.
func looking(ctx context.Context, l *coordinator.Lock) <-chan looked {
	result := make(chan looked, 1)
	go func() {
		queue, err := l.Queue(ctx)
		result <- looked{queue, err}
	}()
	synctest.Wait()
	return result
}

// crowd creates n contenders that belong to no session.
func crowd(t *testing.T, srv *zktest.Server, n int) {
	t.Helper()
	for i := range n {
		eventstest.Must(t, srv.Create(fmt.Sprintf("%s/lock-%010d", lockPath, i), fmt.Appendf(nil, "%d", i)))
	}
}

// TestQueueBeginsAgainWhenItIsInterrupted injects one fault at each request of a Queue.
func TestQueueBeginsAgainWhenItIsInterrupted(t *testing.T) {
	happens := mishaps()
	happens["silence"] = func(srv *zktest.Server, _ int64) zktest.Action {
		srv.MuteAll(true)
		time.AfterFunc(8*time.Second, func() { srv.MuteAll(false) }) // by then the client has hung up
		return zktest.Swallow()
	}
	happens["said to be expired"] = func(srv *zktest.Server, session int64) zktest.Action {
		happens["expired"](srv, session)
		return zktest.Fail(zktest.SessionExpired)
	}
	for nth := range int32(4) { // the listing, and three reads
		forEach(t, happens, func(t *testing.T, srv *zktest.Server, act func(*zktest.Server, int64) zktest.Action) {
			crowd(t, srv, 3)
			c := coordtest.Connect(t, srv)
			seen := strikeNth(srv, nth+1, act, isA(zktest.OpGetChildren2, zktest.OpGetData))
			got, err := c.Mutex(lockPath).Queue(within(t, time.Minute))
			expect(t, err == nil && summary(got) == "0+ 1 2" && seen.Load() >= nth+5,
				"struck at request %d, Queue = %+v, %v after %d requests; want 0+ 1 2, and all four made again",
				nth, got, err, seen.Load())
		})
	}
}

// obstacles keep Queue from finishing.
var obstacles = map[string]func(srv *zktest.Server){
	"there is no connection":         func(srv *zktest.Server) { srv.Down(true); synctest.Wait() },
	"the listing is answered late":   late(zktest.OpGetChildren2, zktest.Delay(2*time.Second)),
	"the readings are answered late": late(zktest.OpGetData, zktest.Delay(2*time.Second)),
	"the readings are turned away":   late(zktest.OpGetData, zktest.Fail(zktest.Throttled)),
}

func late(op zktest.Op, action zktest.Action) func(srv *zktest.Server) {
	return func(srv *zktest.Server) { onEach(srv, action, op) }
}

// TestQueueEndsWithItsContextAndItsCoordinator at once, and no request is sent for a
// caller that has given up.
func TestQueueEndsWithItsContextAndItsCoordinator(t *testing.T) {
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
			got := <-result
			expect(t, errors.Is(got.err, impatient) && got.queue == nil && time.Now().Equal(start),
				"begun after the end of its context: %v; Queue = %v, %v %v after it; want the cause, at once",
				before, got.queue, got.err, time.Since(start))
		}
		sent := coordtest.Traffic(srv) // this ends the interception
		srv.Down(false)
		time.Sleep(10 * time.Second)
		expectEqual(t, sent.Load(), 0, "requests for a caller that has given up")
		expectEqual(t, len(look(t, c.Mutex(lockPath))), 200, "contenders that the next look shows")

		arrange(srv)
		var results []<-chan looked
		for range 20 { // more than may be under way at a time
			results = append(results, looking(context.Background(), c.Mutex(lockPath)))
		}
		start = time.Now()
		closed := inBackground(c.Close)
		for _, result := range results {
			got := <-result
			expect(t, errors.Is(got.err, coordinator.ErrClosed) && got.queue == nil && time.Now().Equal(start),
				"Queue = %v, %v, %v after Close began; want ErrClosed at once", got.queue, got.err, time.Since(start))
		}
		err := <-closed
		took := time.Since(start)
		expect(t, took <= 10*time.Second, "Close = %v after %v, want at most the session timeout, 10 s", err, took)
		_, err = c.Mutex(lockPath).Queue(t.Context())
		expectError(t, err, coordinator.ErrClosed, "Queue after Close")
	})
}

// TestQueueOfAThousandLeavesRoomForLocks lists a long queue over a slow line, alone and
// with many others, and acquires another lock meanwhile. A server answers in order, so
// the lock waits for the requests sent before.
func TestQueueOfAThousandLeavesRoomForLocks(t *testing.T) {
	const (
		contenders = 1000
		window     = 64
		rtt        = 100 * time.Millisecond
	)
	for _, lookers := range []int{1, eventstest.Amount(20, 100)} {
		coordtest.Case(t, fmt.Sprintf("%d lookers", lookers), func(t *testing.T, srv *zktest.Server) {
			crowd(t, srv, contenders)
			c := coordtest.Connect(t, srv)
			coordtest.Hold(t, c.Mutex("/locks/warm")) // so that /locks is known; not counted
			var now time.Time
			burst, most, asked := 0, 0, map[zktest.Op]int{}
			srv.Intercept(func(r zktest.Request) zktest.Action {
				if !strings.HasPrefix(r.Path, lockPath) {
					return zktest.Delay(rtt)
				}
				asked[r.Op]++
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
					got := look(t, c.Mutex(lockPath))
					expect(t, len(got) == contenders && got[0].Holding,
						"%d contenders are shown, want %d with the first holding", len(got), contenders)
				})
			}
			time.Sleep(rtt / 2)
			a, _ := coordtest.Hold(t, c.Mutex("/locks/urgent"))
			took := time.Since(start)
			expect(t, took <= 20*rtt, "a lock took %v meanwhile, want at most %v", took, 20*rtt)
			a.Release()
			all.Wait()
			want := map[zktest.Op]int{zktest.OpGetChildren2: lookers, zktest.OpGetData: lookers * contenders}
			expect(t, most == window && maps.Equal(asked, want),
				"%d requests at a time, %v; want %d, %v", most, asked, window, want)
			took, least := time.Since(start), rtt*time.Duration(lookers*contenders/window+lookers)
			expect(t, lookers > 1 || took <= least+2*rtt, "it took %v, want some %v", took, least)
		})
	}
}

// TestLookersThatGiveUpDoNotPileUp: thousands of callers list a queue one after the
// other, and each gives up soon, because a server does not answer reads of the
// contenders. The requests that they leave under way stay bounded, and end with the
// connection.
func TestLookersThatGiveUpDoNotPileUp(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		crowd(t, srv, 100)
		c := coordtest.Connect(t, srv)
		readings := striking(srv, zktest.Swallow(), func(r zktest.Request) bool {
			return strings.HasPrefix(r.Path, lockPath+"/")
		})
		for range 3000 {
			_, err := c.Mutex(lockPath).Queue(within(t, time.Millisecond))
			expectError(t, err, context.DeadlineExceeded, "a look that is given up")
		}
		expectEqual(t, readings.Load(), 4, "readings under way, with which a look begins")
		before := time.Now()
		coordtest.Hold(t, c.Mutex("/locks/another"))
		took := time.Since(before)
		expect(t, took <= time.Second, "another lock is held after %v, want it to have room beside the looks", took)
		srv.Intercept(nil)
		srv.Cut(c.SessionID())
		got, err := c.Mutex(lockPath).Queue(within(t, time.Minute))
		eventstest.Check(t, err)
		expectEqual(t, len(got), 100, "contenders that are shown on a new connection")
	})
}
