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

// Queues are the metrics of the locks below a path, of all processes and libraries, as
// their nodes show them. It is a [prometheus.Collector] that reads the tree when it is
// collected. Its methods are safe for concurrent use.
type Queues struct {
	walk     func(context.Context) iter.Seq2[events.LockInfo, error]
	root     string
	interval time.Duration
	patience time.Duration

	mu     sync.Mutex
	began  time.Time     // when the latest look began
	ended  time.Time     // when the latest finished look ended
	over   chan struct{} // closed by the look in progress; nil without one
	queues *queues
}

var _ prometheus.Collector = (*Queues)(nil)

// NewQueues returns the metrics of the locks below root, as
// [coordinator.Coordinator.Poll] yields them. With an invalid root, every read fails.
// Reads share the coordinator's connection, so a program with short leases should give
// them their own coordinator.
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

// Collect implements [prometheus.Collector]. It starts a read, unless the last one ended
// less than [WithPollInterval] ago, waits up to [WithPollTimeout] for the read in
// progress, and exports what is known by then, with its age. The read continues in the
// background, for a few seconds at most. If it gets no answer, Collect exports the error
// and no locks.
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

// poll does one look. Each lock is exported as soon as it is seen.
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
		case lock.Seen.IsZero() || !lock.Seen.Before(began): // otherwise it was counted before
			look.fail(lock.Seen.IsZero())
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
