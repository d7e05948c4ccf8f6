package zkprom

import (
	"maps"
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
	queueAge         = describe("queue_age_seconds", "Age of what is exported: the time since the lock that was looked at longest ago was read.")
	queueSearched    = describe("queue_searched", "1 when the whole tree was searched once; until then there may be locks that are not exported.")
	queuePollErrors  = describe("queue_poll_errors_total", "Nodes that could not be read, and looks that came to no end.")
	queuePollSeconds = describe("queue_poll_duration_seconds", "How long the last look took.")
)

func queueDescriptions() []*prometheus.Desc {
	return []*prometheus.Desc{queueWaiting, queueHeld, queueLongestWait, queueLongestHold, queueAge, queueSearched, queuePollErrors, queuePollSeconds}
}

// queues are what looks have shown. They have no clock, and no lock of their own.
type queues struct {
	choose func(path string) string
	labels *labels

	locks    map[spot]*queue // as each was seen last
	searched bool            // the whole tree, once
	looks    int
	errors   uint64
	took     time.Duration
}

// spot tells locks apart: locks of several kinds may share a path.
type spot struct {
	path string
	kind coordinator.LockKind
}

// queue is what was seen of a lock.
type queue struct {
	*present

	look  int
	seen  time.Time
	known map[string]time.Time // since when each contender holds, by its node; the zero time if it waits
}

func newQueues(cfg config) *queues {
	return &queues{choose: cfg.choose, labels: newLabels(cfg.most), locks: map[spot]*queue{}}
}

// look is a look that is under way.
type look struct {
	q      *queues
	failed bool
}

func (q *queues) begin() *look {
	q.looks++
	return &look{q: q}
}

// label returns the label of a path, which may be another one later.
func (q *queues) label(path string) string {
	if q.choose != nil {
		return q.labels.given(q.choose(path))
	}
	label, _ := q.labels.of(path)
	return label
}

// see takes in a lock. A holder that is new holds since its node was created. A holder that waited before holds since now.
func (k *look) see(now time.Time, lock coordinator.LockInfo) {
	at, kind := spot{lock.Path, lock.Kind}, lock.Kind.String()
	k.q.label(lock.Path) // locks have labels in the order in which they were found
	found := &queue{present: newPresent(), look: k.q.looks, seen: lock.Seen, known: map[string]time.Time{}}
	before := k.q.locks[at]
	found.present.seen(kind)
	for _, c := range lock.Contenders {
		if !c.Holding {
			found.known[c.Node] = time.Time{}
			found.waits(kind, c.Since, 0)
			continue
		}
		since := c.Since
		if before != nil {
			switch held, there := before.known[c.Node]; {
			case !there:
			case held.IsZero():
				since = now
			default:
				since = held
			}
		}
		found.known[c.Node] = since
		found.holds(kind, max(1, c.Permits), since)
	}
	k.q.locks[at] = found
}

// fail takes in an error. The look has failed if the root could not be read.
func (k *look) fail(root bool) {
	k.q.errors++
	k.failed = k.failed || root
}

// end takes in how long the look took. What it has not shown is gone. A look that has failed shows nothing.
func (k *look) end(took time.Duration) {
	k.q.took = took
	maps.DeleteFunc(k.q.locks, func(_ spot, q *queue) bool { return k.failed || q.look != k.q.looks })
}

// snapshot returns what is exported at a moment.
func (q *queues) snapshot(now time.Time) samples {
	var all samples
	shown, oldest := map[string]*present{}, now
	for at, lock := range q.locks {
		label := q.label(at.path)
		if shown[label] == nil {
			shown[label] = newPresent()
		}
		shown[label].absorb(lock.present)
		if !lock.seen.IsZero() && lock.seen.Before(oldest) {
			oldest = lock.seen
		}
	}
	for label, p := range shown {
		for kind, n := range p.waiting {
			all.gauge(queueWaiting, float64(n), label, kind)
			all.gauge(queueHeld, float64(p.held[kind]), label, kind)
		}
		all.gauge(queueLongestWait, since(now, p.firstWait), label)
		all.gauge(queueLongestHold, since(now, p.firstHold), label)
	}
	all.gauge(queueAge, now.Sub(oldest).Seconds())
	all.gauge(queueSearched, one(q.searched))
	all.counter(queuePollErrors, q.errors)
	all.gauge(queuePollSeconds, q.took.Seconds())
	return all
}
