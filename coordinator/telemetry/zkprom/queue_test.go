package zkprom

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// walks is a queues that the test looks at, at its own times.
type walks struct {
	*queues
	now time.Time
}

func newWalks(options ...QueueOption) *walks {
	return &walks{newQueues(queueConfigOf(options)), time.Unix(1_000_000, 0)}
}

// sees plays a walk that sees these locks, and fails one that fails after them.
func (w *walks) sees(all ...events.LockInfo) { w.walk(all).end(time.Second) }

func (w *walks) fails(whole bool, all ...events.LockInfo) {
	look := w.walk(all)
	look.fail(whole)
	look.end(time.Second)
}

func (w *walks) walk(all []events.LockInfo) *look {
	look := w.begin()
	for _, lock := range all {
		lock.Seen = w.now
		look.see(w.now, lock)
	}
	return look
}

func (w *walks) passes(d time.Duration) { w.now = w.now.Add(d) }

func (w *walks) mutex(path string, contenders ...events.Contender) events.LockInfo {
	return events.LockInfo{Path: path, Kind: events.LockMutex, Contenders: contenders}
}

func (w *walks) waits(node string, age time.Duration) events.Contender {
	return events.Contender{Node: node, Since: w.now.Add(-age)}
}

func (w *walks) holds(node string, since time.Duration) events.Contender {
	return events.Contender{Node: node, Since: w.now.Add(-since), Holding: true}
}

// TestWhatQueuesShow checks the metrics that each story leads to.
func TestWhatQueuesShow(t *testing.T) {
	for _, test := range []struct {
		name    string
		story   func(*walks)
		options []QueueOption
		want    string
	}{
		{"a holder and two waiters", func(w *walks) {
			w.sees(w.mutex("/a", w.holds("/a/1", time.Minute), w.waits("/a/2", 5*time.Second), w.waits("/a/3", time.Second)))
			w.passes(time.Second)
		}, nil, `
			queue_held{mutex,/a}=1 queue_waiting{mutex,/a}=2 queue_longest_wait_seconds{/a}=6
			queue_longest_hold_seconds{/a}=61 queue_age_seconds=1 queue_poll_errors_total=0
			queue_poll_duration_seconds=1 queue_searched=0`},
		{"a waiter that comes to hold does not hold since its node was made", func(w *walks) {
			w.sees(w.mutex("/a", w.waits("/a/2", time.Hour)))
			w.sees(w.mutex("/a", w.holds("/a/2", time.Hour)))
			w.passes(3 * time.Second)
			w.sees(w.mutex("/a", w.holds("/a/2", time.Hour)))
		}, nil, `
			queue_held{mutex,/a}=1 queue_waiting{mutex,/a}=0 queue_longest_wait_seconds{/a}=0
			queue_longest_hold_seconds{/a}=3`},
		{"the servers' clock is ahead", func(w *walks) { w.sees(w.mutex("/a", w.waits("/a/1", -time.Hour))) }, nil, `
			queue_held{mutex,/a}=0 queue_waiting{mutex,/a}=1 queue_longest_wait_seconds{/a}=0
			queue_longest_hold_seconds{/a}=0`},
		{"a semaphore counts permits, and is there without contenders", func(w *walks) {
			three, five := w.holds("/s/1", 0), w.holds("/s/2", 0)
			three.Permits, five.Permits = 3, 5
			w.sees(events.LockInfo{Path: "/s", Kind: events.LockSemaphore, Contenders: []events.Contender{three, five}},
				events.LockInfo{Path: "/t", Kind: events.LockSemaphore})
		}, nil, `
			queue_held{semaphore,/s}=8 queue_held{semaphore,/t}=0 queue_waiting{semaphore,/s}=0
			queue_waiting{semaphore,/t}=0 queue_longest_wait_seconds{/s}=0 queue_longest_wait_seconds{/t}=0
			queue_longest_hold_seconds{/s}=0 queue_longest_hold_seconds{/t}=0`},
		{"too many locks below one parent share a label, and go on doing so", func(w *walks) {
			w.sees(w.mutex("/t/1", w.waits("/t/1/1", 7*time.Second)), w.mutex("/t/2", w.holds("/t/2/1", 0)), w.mutex("/u", w.holds("/u/1", 0)))
			w.sees(w.mutex("/t/1", w.waits("/t/1/1", 7*time.Second)))
		}, []QueueOption{WithMaxLocks(1)}, `
			queue_held{mutex,/t/*}=0 queue_waiting{mutex,/t/*}=1 queue_longest_wait_seconds{/t/*}=7
			queue_longest_hold_seconds{/t/*}=0`},
		{"a label replaces others in the middle of a walk", func(w *walks) {
			w.sees(w.mutex("/t/1", w.waits("/t/1/1", 7*time.Second)), w.mutex("/t/2", w.holds("/t/2/1", 9*time.Second)))
		}, []QueueOption{WithMaxLocks(1)}, `
			queue_held{mutex,/t/*}=1 queue_waiting{mutex,/t/*}=1 queue_longest_wait_seconds{/t/*}=7
			queue_longest_hold_seconds{/t/*}=9`},
		{"a user's labels", func(w *walks) { w.sees(w.mutex("/t/1", w.holds("/t/1/1", 0)), w.mutex("/t/2", w.holds("/t/2/1", 0))) },
			[]QueueOption{WithLockLabel(func(path string) string { return path[:2] })}, `
			queue_held{mutex,/t}=2 queue_waiting{mutex,/t}=0 queue_longest_wait_seconds{/t}=0
			queue_longest_hold_seconds{/t}=0`},
		{"a node that cannot be read hides no other one", func(w *walks) { w.fails(false, w.mutex("/a")) }, nil, `
			queue_held{mutex,/a}=0 queue_waiting{mutex,/a}=0 queue_longest_wait_seconds{/a}=0
			queue_longest_hold_seconds{/a}=0 queue_poll_errors_total=1`},
		{"a walk without an end shows no old locks, and no half of the new ones", func(w *walks) {
			w.sees(w.mutex("/a", w.holds("/a/1", 0)))
			w.fails(true, w.mutex("/b"))
		}, nil, `queue_poll_errors_total=1`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWalks(test.options...)
			test.story(w)
			compare(t, collector{queueDescriptions, w.snapshot(w.now)}, test.want)
		})
	}
}

// TestQueuesKeepOnlyWhatIsThere: contenders that have left are forgotten.
func TestQueuesKeepOnlyWhatIsThere(t *testing.T) {
	w := newWalks(WithMaxLocks(5))
	for i := range 1000 {
		w.sees(w.mutex(fmt.Sprintf("/t/%d", i), w.holds(fmt.Sprintf("/t/%d/1", i), 0)))
	}
	eventstest.Expect(t, len(w.locks) <= 1 && w.labels.Parents() <= 100,
		"of 1,000 locks one after the other are kept %d, and %d parents", len(w.locks), w.labels.Parents())
}

func newQueuesOf(root string, interval, patience time.Duration) *Queues {
	return &Queues{interval: interval, patience: patience, queues: newQueues(queueConfigOf(nil)), root: root}
}

func hanging(ctx context.Context) iter.Seq2[events.LockInfo, error] {
	return func(yield func(events.LockInfo, error) bool) {
		<-ctx.Done()
		yield(events.LockInfo{Path: "/"}, context.Cause(ctx))
	}
}

// TestScrapesDuringAWalkThatHangsShareIt: none of them starts another walk, and the
// interval counts from its end.
func TestScrapesDuringAWalkThatHangsShareIt(t *testing.T) {
	t.Parallel()
	const patience = silence
	for _, interval := range []time.Duration{0, 5 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			walks := 0
			q := newQueuesOf("/", interval, patience+time.Second)
			q.walk = func(ctx context.Context) iter.Seq2[events.LockInfo, error] {
				walks++
				return hanging(ctx)
			}
			begun := time.Now()
			var scrapes sync.WaitGroup
			for i := range 4 {
				scrapes.Go(func() {
					time.Sleep(time.Duration(i) * time.Second)
					q.Collect(make(chan prometheus.Metric, 100))
					eventstest.Equal(t, time.Since(begun), patience, "with the interval %v, scrape %d", interval, i)
				})
			}
			scrapes.Wait()
			again := func(after time.Duration, want int) {
				time.Sleep(after)
				q.Collect(make(chan prometheus.Metric, 100))
				eventstest.Equal(t, walks, want, "walks with the interval %v, after %v", interval, time.Since(begun))
			}
			eventstest.Equal(t, walks, 1, "walks with the interval %v at the end of the first", interval)
			if interval > 0 {
				again(interval-1, 1)
			}
			again(1, 2)
		})
	}
}

// TestAWalkThatHangsEnds when its time is up.
func TestAWalkThatHangsEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueuesOf("/", time.Second, 9*time.Second)
		q.walk = func(ctx context.Context) iter.Seq2[events.LockInfo, error] { return hanging(ctx) }
		begun, to := time.Now(), make(chan prometheus.Metric, 100)
		q.Collect(to)
		eventstest.Equal(t, time.Since(begun), 8*time.Second, "the time of a scrape")
		eventstest.Equal(t, len(to), 4, "the metrics of a scrape")
		eventstest.Equal(t, q.queues.errors, 1, "errors")
		time.Sleep(time.Second)
		begun, q.patience = time.Now(), time.Second
		q.Collect(make(chan prometheus.Metric, 100))
		eventstest.Equal(t, time.Since(begun), time.Second, "the time of a scrape that may wait for a second")
		time.Sleep(silence)
	})
}

// TestALockThatMayNotBeReadHidesNoOther, even at the root.
func TestALockThatMayNotBeReadHidesNoOther(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		eventstest.Must(t, server.Create("/locks/a/lock-0000000000", nil))
		owner := connect(t, t.Context(), server.Addr(), server.Option(),
			coordinator.WithAuth("digest", []byte("the:owner")))
		c := connect(t, t.Context(), server.Addr(), server.Option())
		held := owner.Mutex("/locks", coordinator.ACL(zk.DigestACL(zk.PermAll, "the", "owner"))).Acquire(t.Context())
		<-held.Granted()
		shown := exposed(t, NewQueues(c, "/locks"))
		eventstest.Expect(t, shown["queue_held{unknown,/locks/a}=1"] && shown["queue_poll_errors_total=1"],
			"exported are %v, want the other lock, and an error", shown)
	})
}

// TestAScrapeExportsWhatIsKnown of a large tree within a second, however far the search
// is. The looks continue between the scrapes, and send no more reads than a process may.
func TestAScrapeExportsWhatIsKnown(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		server := zktest.Start(t)
		nodes := eventstest.Amount(8_000, 63_000)
		for i := range nodes {
			eventstest.Must(t, server.Create(fmt.Sprintf("/locks/m/%05d", i), nil))
		}
		eventstest.Must(t, server.Create("/locks/a/lock-0000000000", nil))
		eventstest.Must(t, server.Create("/locks/y/z/lock-0000000000", nil))
		c := connect(t, t.Context(), server.Addr(), server.Option())
		q := NewQueues(c, "/locks")
		count := func() int { return server.Requests(zktest.OpGetChildren2) + server.Requests(zktest.OpGetData) }
		begun := time.Now()
		both := false
		for !both {
			asked := time.Now()
			shown := exposed(t, q)
			eventstest.Expect(t, time.Since(asked) <= time.Second, "a scrape took %v", time.Since(asked))
			eventstest.Expect(t, shown["queue_held{unknown,/locks/a}=1"],
				"%v after the first scrape the lock at the beginning is not exported: %v", time.Since(begun), shown)
			both = shown["queue_held{unknown,/locks/y/z}=1"]
			eventstest.Expect(t, both || !shown["queue_searched=1"],
				"the tree counts as searched before its last lock")
			if time.Since(begun) > 6*time.Duration(nodes)*time.Millisecond {
				t.Fatalf("the lock at the end is not exported after %v", time.Since(begun))
			}
			time.Sleep(5*time.Second + 1)
		}
		n, most := count(), int(time.Since(begun).Seconds()+1)*session.DefaultReadRate
		eventstest.Expect(t, n >= nodes && n <= nodes+2000 && n <= most,
			"%d reads for %d nodes in %v, want each once, and at most %d", n, nodes, time.Since(begun), most)
		time.Sleep(5*time.Second + 1)
		eventstest.Expect(t, exposed(t, q)["queue_searched=1"], "the tree does not count as searched")
		time.Sleep(5*time.Second + 1)
		asked, before := time.Now(), count()
		q.Collect(make(chan prometheus.Metric, 100))
		n = count() - before
		eventstest.Expect(t, n <= 10 && time.Since(asked) <= 100*time.Millisecond,
			"while the search rests a scrape takes %d reads and %v, want a few, and no time", n, time.Since(asked))
	})
}
