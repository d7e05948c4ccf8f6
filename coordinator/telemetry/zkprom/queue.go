package zkprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkgrant/zkgrant/coordinator"
)

// The metrics of [Queues]. They are constant.
//
//nolint:gochecknoglobals // they are constant
var (
	queueWaiting     = describe("queue_waiting", "Contenders of any process that wait.", "lock", "kind")
	queueHeld        = describe("queue_held", "Contenders of any process that hold; permits of a semaphore.", "lock", "kind")
	queueLongestWait = describe("queue_longest_wait_seconds", "Age of the oldest waiter's node; 0 without one.", "lock")
	queueLongestHold = describe("queue_longest_hold_seconds", "For how long the oldest holder has been seen to hold; 0 without one.", "lock")
	queuePollErrors  = describe("queue_poll_errors_total", "Nodes that could not be read, and walks that came to no end.")
	queuePollSeconds = describe("queue_poll_duration_seconds", "How long the last walk took.")
)

func queueDescriptions() []*prometheus.Desc {
	return []*prometheus.Desc{queueWaiting, queueHeld, queueLongestWait, queueLongestHold, queuePollErrors, queuePollSeconds}
}

// queues are what walks have shown. They have no clock, and no lock of their own.
type queues struct {
	choose func(path string) string
	labels *labels

	locks  map[string]*present  // by label, as the last walk has shown them
	known  map[string]time.Time // since when each contender holds, by its node; the zero time if it waits
	errors uint64
	took   time.Duration
}

func newQueues(cfg config) *queues {
	return &queues{choose: cfg.choose, labels: newLabels(cfg.most)}
}

// look is a walk that is under way.
type look struct {
	q      *queues
	locks  map[string]*present
	known  map[string]time.Time
	failed bool
}

func (q *queues) begin() *look {
	return &look{q: q, locks: map[string]*present{}, known: map[string]time.Time{}}
}

// at returns what is seen of the locks that share the label of a path.
func (k *look) at(path string) *present {
	if k.q.choose != nil {
		return k.labelled(k.q.labels.given(k.q.choose(path)))
	}
	label, replaced := k.q.labels.of(path)
	p := k.labelled(label)
	for _, old := range replaced {
		if o := k.locks[old]; o != nil && o != p {
			p.absorb(o)
			delete(k.locks, old)
		}
	}
	return p
}

func (k *look) labelled(label string) *present {
	p := k.locks[label]
	if p == nil {
		p = newPresent()
		k.locks[label] = p
	}
	return p
}

// see takes in a lock. A holder that is new holds since its node was created. A holder that waited before holds
// since now.
func (k *look) see(now time.Time, lock coordinator.LockInfo) {
	p, kind := k.at(lock.Path), lock.Kind.String()
	p.seen(kind)
	for _, c := range lock.Contenders {
		if !c.Holding {
			k.known[c.Node] = time.Time{}
			p.waits(kind, c.Since, 0)
			continue
		}
		since, before := k.q.known[c.Node]
		switch {
		case !before:
			since = c.Since
		case since.IsZero():
			since = now
		}
		k.known[c.Node] = since
		p.holds(kind, max(1, c.Permits), since)
	}
}

// fail takes in an error. The walk has failed if the root could not be read.
func (k *look) fail(root bool) {
	k.q.errors++
	k.failed = k.failed || root
}

// end takes in how long the walk took. What an incomplete walk has seen is not exported.
func (k *look) end(took time.Duration) {
	k.q.took = took
	if k.failed {
		k.q.locks = nil
		return
	}
	k.q.locks, k.q.known = k.locks, k.known
}

// snapshot returns what is exported at a moment.
func (q *queues) snapshot(now time.Time) samples {
	var all samples
	for label, p := range q.locks {
		for kind, n := range p.waiting {
			all.gauge(queueWaiting, float64(n), label, kind)
			all.gauge(queueHeld, float64(p.held[kind]), label, kind)
		}
		all.gauge(queueLongestWait, since(now, p.firstWait), label)
		all.gauge(queueLongestHold, since(now, p.firstHold), label)
	}
	all.counter(queuePollErrors, q.errors)
	all.gauge(queuePollSeconds, q.took.Seconds())
	return all
}
