package zkprom

import (
	"context"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkgrant/zkgrant/coordinator"
)

// Queues are the metrics of the locks below a path, as the nodes of all processes show them, of any library. It is a
// [prometheus.Collector] that walks through the tree when it is collected. Its methods may be called from any goroutine.
type Queues struct {
	walk     func(context.Context) iter.Seq2[coordinator.LockInfo, error]
	root     string
	interval time.Duration
	patience time.Duration

	turn   chan struct{} // size 1; full while a scrape walks, or reads the fields below
	ended  time.Time     // the last walk
	queues *queues
}

var _ prometheus.Collector = (*Queues)(nil)

// NewQueues returns the metrics of the locks below root, which [coordinator.Coordinator.Poll] reads. A bad root shows as errors of each
// walk. Walks use the coordinator's connection: a program with tight leases gives them a coordinator of its own.
func NewQueues(c *coordinator.Coordinator, root string, options ...QueueOption) *Queues {
	cfg := queueConfigOf(options)
	return &Queues{
		walk: c.Poll(root), root: root, interval: cfg.interval, patience: cfg.patience, queues: newQueues(cfg),
		turn: make(chan struct{}, 1),
	}
}

// Describe implements [prometheus.Collector].
func (q *Queues) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range queueDescriptions() {
		to <- desc
	}
}

// Collect implements [prometheus.Collector]. It walks unless the last walk ended less than [WithPollInterval] ago, and takes no longer than
// [WithPollTimeout] says. A scrape that comes during a walk waits for that one. If a walk comes to no end, no locks are exported, but the error is.
func (q *Queues) Collect(to chan<- prometheus.Metric) {
	came := time.Now()
	q.turn <- struct{}{}
	// If the walk for which a scrape has waited has ended, the scrape uses its result.
	if now := time.Now(); !q.ended.After(came) && now.Sub(q.ended) >= q.interval {
		q.poll(now)
		q.ended = time.Now()
	}
	all := q.queues.snapshot(time.Now())
	<-q.turn
	for _, s := range all {
		to <- s.metric()
	}
}

func (q *Queues) poll(begun time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), q.patience)
	defer cancel()
	look := q.queues.begin()
	for lock, err := range q.walk(ctx) {
		if err != nil {
			look.fail(lock.Path == q.root)
			continue
		}
		look.see(time.Now(), lock)
	}
	look.end(time.Since(begun))
}
