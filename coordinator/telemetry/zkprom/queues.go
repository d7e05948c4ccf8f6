package zkprom

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// Queues are the metrics of the locks below a path, as the nodes of all processes show
// them, of any library. It is a [prometheus.Collector] that looks at the tree when it is
// collected. Its methods may be called from any goroutine.
type Queues struct {
	walk     func(context.Context) iter.Seq2[events.LockInfo, error]
	root     string
	interval time.Duration
	patience time.Duration

	mu     sync.Mutex
	began  time.Time     // the latest look
	ended  time.Time     // the last look that has ended
	over   chan struct{} // closed by the look that is under way; nil without one
	queues *queues
}

var _ prometheus.Collector = (*Queues)(nil)

// NewQueues returns the metrics of the locks below root, which
// [coordinator.Coordinator.Poll] reads. A bad root shows as errors of each look. Looks
// use the coordinator's connection: a program with tight leases gives them a coordinator
// of its own.
func NewQueues(c *coordinator.Coordinator, root string, options ...QueueOption) *Queues {
	cfg := queueConfigOf(options)
	return &Queues{walk: c.Poll(root), root: root, interval: cfg.interval, patience: cfg.patience, queues: newQueues(cfg)}
}

// Describe implements [prometheus.Collector].
func (q *Queues) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range queueDescriptions {
		to <- desc.Desc
	}
}

// silence is how long a look waits for answers.
const silence = 8 * time.Second

// Collect implements [prometheus.Collector]. It begins a look unless the last one ended
// less than [WithPollInterval] ago, waits for a look that is under way no longer than
// [WithPollTimeout] says, and exports what is known by then, with its age. The look goes
// on by itself, and takes a few seconds at most. If it gets no answer, no locks are
// exported, but the error is.
func (q *Queues) Collect(to chan<- prometheus.Metric) {
	q.mu.Lock()
	if now := time.Now(); q.over == nil && now.Sub(q.ended) >= q.interval {
		q.began, q.over = now, make(chan struct{})
		go q.poll()
	}
	over, patience := q.over, time.Until(q.began.Add(q.patience))
	q.mu.Unlock()
	if over != nil && patience > 0 {
		timer := time.NewTimer(patience)
		select {
		case <-over:
		case <-timer.C:
		}
		timer.Stop()
	}
	q.mu.Lock()
	all := q.queues.snapshot(time.Now())
	q.mu.Unlock()
	for _, s := range all {
		to <- s.metric()
	}
}

// poll looks once. Each lock is exported from the moment at which it is seen.
func (q *Queues) poll() {
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	q.mu.Lock()
	began := q.began
	look := q.queues.begin()
	q.mu.Unlock()
	ctx = session.WithProgress(ctx, func(p session.Progress) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.queues.searched = q.queues.searched || p.Whole
	})
	for lock, err := range q.walk(ctx) {
		q.mu.Lock()
		switch {
		case err == nil:
			look.see(time.Now(), lock)
		case lock.Seen.IsZero() || !lock.Seen.Before(began): // else it was counted when it was seen
			look.fail(lock.Path == q.root)
		}
		q.mu.Unlock()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = time.Now()
	look.end(q.ended.Sub(began))
	close(q.over)
	q.over = nil
}
