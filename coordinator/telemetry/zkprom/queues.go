package zkprom

import (
	"context"
	"iter"
	"sync"
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

	mu     sync.Mutex // held during a walk: there is one at a time
	next   time.Time  // no walk begins before
	queues *queues
}

var _ prometheus.Collector = (*Queues)(nil)

// NewQueues returns the metrics of the locks below root, which [coordinator.Coordinator.Poll] reads. A bad root shows as errors of each
// walk.
func NewQueues(c *coordinator.Coordinator, root string, options ...Option) *Queues {
	cfg := configOf(options)
	return &Queues{
		walk: c.Poll(root), root: root, interval: cfg.interval, patience: cfg.patience, queues: newQueues(cfg),
	}
}

// Describe implements [prometheus.Collector].
func (q *Queues) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range queueDescriptions() {
		to <- desc
	}
}

// Collect implements [prometheus.Collector]. It walks unless the last walk is younger than [WithPollInterval] says, and takes no longer
// than [WithPollTimeout] says. If a walk comes to no end, no locks are exported, but the error is.
func (q *Queues) Collect(to chan<- prometheus.Metric) {
	q.mu.Lock()
	if now := time.Now(); !now.Before(q.next) {
		q.next = now.Add(q.interval)
		q.poll(now)
	}
	all := q.queues.snapshot(time.Now())
	q.mu.Unlock()
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
