package zkprom

import (
	"maps"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
	"github.com/zkgrant/zkgrant/events"
)

// queueDescriptions are the metrics of [Queues]. They are constant.
//
//nolint:gochecknoglobals // they are constant
var queueDescriptions = describe([]words.Metric{
	{Name: "queue.waiting", Kind: words.Gauge, Labels: []string{"lock", "kind"}, Help: "Waiting contenders of any process."},
	{Name: "queue.held", Kind: words.Gauge, Labels: []string{"lock", "kind"}, Help: "Holding contenders of any process; permits of a semaphore."},
	{Name: "queue.longest_wait", Unit: "s", Kind: words.Seconds, Labels: []string{"lock"}, Help: "Age of the oldest waiter's node; 0 without one."},
	{
		Name: "queue.longest_hold", Unit: "s", Kind: words.Seconds, Labels: []string{"lock"},
		Help: "How long the oldest holder has been seen holding; 0 without one.",
	},
	{
		Name: "queue.age", Unit: "s", Kind: words.Seconds,
		Help: "Age of the oldest exported data: the time since that lock was read.",
	},
	{
		Name: "queue.searched", Kind: words.Gauge,
		Help: "1 once the whole tree has been searched; until then, locks may be missing.",
	},
	{Name: "queue.poll_errors", Kind: words.Counter, Help: "Nodes that could not be read, and reads of the tree that did not finish."},
	{Name: "queue.poll_duration", Unit: "s", Kind: words.Seconds, Help: "How long the last read of the tree took."},
})

// queues is the result of looks. It has no clock, and no mutex of its own.
type queues struct {
	choose func(path string) string
	labels *words.Labels

	locks    map[spot]*queue // each lock as last seen
	searched bool            // whether the whole tree was searched once
	looks    int
	errors   uint64
	took     time.Duration
}

// spot distinguishes locks: locks of several kinds may share a path.
type spot struct {
	path string
	kind events.LockKind
}

// queue is what was last seen of a lock.
type queue struct {
	*words.Present

	look  int
	seen  time.Time
	known map[string]time.Time // since when each contender has held, by node; the zero time for a waiter
}

func newQueues(cfg config) *queues {
	return &queues{choose: cfg.choose, labels: words.NewLabels(cfg.most, false), locks: map[spot]*queue{}}
}

// look is a look in progress.
type look struct {
	q      *queues
	failed bool
}

func (q *queues) begin() *look {
	q.looks++
	return &look{q: q}
}

// label returns the label of a path, which may change later.
func (q *queues) label(path string) string {
	if q.choose != nil {
		return q.labels.Given(q.choose(path))
	}
	label, _ := q.labels.Of(path)
	return label
}

// see takes in a lock. A new holder has held since its node was created, and a former
// waiter since now.
func (k *look) see(now time.Time, lock events.LockInfo) {
	at, kind := spot{lock.Path, lock.Kind}, lock.Kind.String()
	k.q.label(lock.Path) // locks get labels in the order in which they are found
	found := &queue{Present: words.NewPresent(), look: k.q.looks, seen: lock.Seen, known: map[string]time.Time{}}
	before := k.q.locks[at]
	found.Seen(kind)
	for _, c := range lock.Contenders {
		if !c.Holding {
			found.known[c.Node] = time.Time{}
			found.Waits(kind, c.Since, 0)
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
		found.Holds(kind, max(1, c.Permits), since)
	}
	k.q.locks[at] = found
}

// fail takes in an error. If it is not about one node, the look has failed.
func (k *look) fail(whole bool) {
	k.q.errors++
	k.failed = k.failed || whole
}

// end takes in the duration of the look, and forgets locks that it has not shown. After a
// failed look, no lock is shown.
func (k *look) end(took time.Duration) {
	k.q.took = took
	maps.DeleteFunc(k.q.locks, func(_ spot, q *queue) bool { return k.failed || q.look != k.q.looks })
}

// snapshot returns the values exported at a moment.
func (q *queues) snapshot(now time.Time) []sample {
	all := samples{of: queueDescriptions}
	shown, oldest := map[string]*words.Present{}, now
	for at, lock := range q.locks {
		label := q.label(at.path)
		if shown[label] == nil {
			shown[label] = words.NewPresent()
		}
		shown[label].Absorb(lock.Present)
		if !lock.seen.IsZero() && lock.seen.Before(oldest) {
			oldest = lock.seen
		}
	}
	for label, p := range shown {
		for kind, n := range p.Waiting {
			all.gauge("queue.waiting", float64(n), label, kind)
			all.gauge("queue.held", float64(p.Held[kind]), label, kind)
		}
		all.gauge("queue.longest_wait", since(now, p.FirstWait), label)
		all.gauge("queue.longest_hold", since(now, p.FirstHold), label)
	}
	all.gauge("queue.age", now.Sub(oldest).Seconds())
	all.gauge("queue.searched", one(q.searched))
	all.counter("queue.poll_errors", q.errors)
	all.gauge("queue.poll_duration", q.took.Seconds())
	return all.all
}
