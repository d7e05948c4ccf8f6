package zkprom

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkgrant/zkgrant/events"
)

// walks are queues that are looked at, at times of their own.
type walks struct {
	*queues
	now time.Time
}

func newWalks(options ...QueueOption) *walks {
	return &walks{newQueues(queueConfigOf(options)), time.Unix(1_000_000, 0)}
}

func (w *walks) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range queueDescriptions {
		to <- desc.Desc
	}
}

func (w *walks) Collect(to chan<- prometheus.Metric) {
	for _, s := range w.snapshot(w.now) {
		to <- s.metric()
	}
}

func (w *walks) sees(all ...events.LockInfo) {
	look := w.begin()
	for _, lock := range all {
		lock.Seen = w.now
		look.see(w.now, lock)
	}
	look.end(time.Second)
}

// fails has a walk see the locks, and then fail.
func (w *walks) fails(root bool, all ...events.LockInfo) {
	look := w.begin()
	for _, lock := range all {
		lock.Seen = w.now
		look.see(w.now, lock)
	}
	look.fail(root)
	look.end(time.Second)
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

// TestWhatQueuesShow: for each story the metrics that it leads to.
func TestWhatQueuesShow(t *testing.T) {
	t.Parallel()
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
			t.Parallel()
			w := newWalks(test.options...)
			test.story(w)
			compare(t, w, test.want)
		})
	}
}

// TestQueuesKeepOnlyWhatIsThere: contenders that have left are forgotten.
func TestQueuesKeepOnlyWhatIsThere(t *testing.T) {
	t.Parallel()
	w := newWalks(WithMaxLocks(5))
	for i := range 1000 {
		w.sees(w.mutex(fmt.Sprintf("/t/%d", i), w.holds(fmt.Sprintf("/t/%d/1", i), 0)))
	}
	if len(w.locks) > 1 || w.labels.Parents() > 100 {
		t.Errorf("of 1,000 locks one after the other are kept %d locks and %d parents; want 1 and few", len(w.locks), w.labels.Parents())
	}
}

// newQueuesOf returns queues with a walk that the test sets.
func newQueuesOf(root string, interval, patience time.Duration) *Queues {
	return &Queues{interval: interval, patience: patience, queues: newQueues(queueConfigOf(nil)), root: root}
}

// hanging is a walk without an end.
func hanging(ctx context.Context) iter.Seq2[events.LockInfo, error] {
	return func(yield func(events.LockInfo, error) bool) {
		<-ctx.Done()
		yield(events.LockInfo{Path: "/"}, context.Cause(ctx))
	}
}

// TestScrapesDuringAWalkThatHangsShareIt: none of them begins another walk, and the
// interval counts from the end.
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
					if took := time.Since(begun); took != patience {
						t.Errorf("with the interval %v scrape %d has its answer after %v, want %v", interval, i, took, patience)
					}
				})
			}
			scrapes.Wait()
			for _, each := range []struct {
				after time.Duration
				want  int
			}{{max(0, interval-1), 1}, {1, 2}} {
				if each.want == 2 || interval > 0 {
					time.Sleep(each.after)
					q.Collect(make(chan prometheus.Metric, 100))
				}
				if walks != each.want {
					t.Errorf("with the interval %v there are %d walks %v after the end of the first, want %d", interval, walks, time.Since(begun)-patience, each.want)
				}
			}
		})
	}
}

// TestAWalkThatHangsEnds when its time is over.
func TestAWalkThatHangsEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueuesOf("/", time.Second, 9*time.Second)
		q.walk = func(ctx context.Context) iter.Seq2[events.LockInfo, error] { return hanging(ctx) }
		begun := time.Now()
		to := make(chan prometheus.Metric, 100)
		q.Collect(to)
		defer func() {
			time.Sleep(time.Second)
			begun, q.patience = time.Now(), time.Second
			q.Collect(make(chan prometheus.Metric, 100))
			if took := time.Since(begun); took != time.Second {
				t.Errorf("a scrape that may wait for a second took %v", took)
			}
			time.Sleep(silence)
		}()
		if took := time.Since(begun); took != 8*time.Second || len(to) != 4 || q.queues.errors != 1 {
			t.Errorf("after %v the scrape has %d metrics and %d errors, want 8s, 4 and 1", took, len(to), q.queues.errors)
		}
	})
}
