package zkotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
)

// scope names the package to the providers.
const scope = "github.com/zkgrant/zkgrant/coordinator/telemetry/zkotel"

// The attributes of metrics. With an exporter for Prometheus, metrics and attributes have the names that package zkprom gives them.
const (
	keyLock     = attribute.Key("lock")
	keyKind     = attribute.Key("kind")
	keyOutcome  = attribute.Key("outcome")
	keyEnd      = attribute.Key("end")
	keyReason   = attribute.Key("reason")
	keyElection = attribute.Key("election")
	keyState    = attribute.Key("state")
	keyEvent    = attribute.Key("event")
	keyOp       = attribute.Key("op")
	keyResult   = attribute.Key("result")
)

// The bounds of buckets, in seconds. They are constant.
//
//nolint:gochecknoglobals // they are constant
var (
	waits    = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 3600}
	requests = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
)

// instruments are what is measured.
type instruments struct {
	acquire, hold, request                            metric.Float64Histogram
	lost, requeued, revoked, abandoned, sessionEvents metric.Int64Counter

	// These describe what is live, and are observed at each collection. Sums add up over several coordinators.
	waiting, held, leader, state       metric.Int64ObservableUpDownCounter
	nodes, nodeBytes, nodeBudget       metric.Int64ObservableUpDownCounter
	ahead                              metric.Int64ObservableGauge
	longestWait, longestHold, leaseEnd metric.Float64ObservableGauge
}

// newInstruments returns the instruments, and joins the errors. A meter returns an instrument also with an error.
func newInstruments(m metric.Meter) (in instruments, _ error) {
	var errs []error
	histogram := func(name, text string, bounds []float64) metric.Float64Histogram {
		made, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return made
	}
	counter := func(name, unit, text string) metric.Int64Counter {
		made, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		errs = append(errs, err)
		return made
	}
	number := func(name, unit, text string) metric.Int64ObservableUpDownCounter {
		made, err := m.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(text))
		errs = append(errs, err)
		return made
	}
	seconds := func(name, text string) metric.Float64ObservableGauge {
		made, err := m.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(text))
		errs = append(errs, err)
		return made
	}
	in.acquire = histogram("zkgrant.acquire.duration", "From Acquire to the Grant, or to the end without one.", waits)
	in.hold = histogram("zkgrant.hold.duration", "From the Grant to the loss or the end.", waits)
	in.request = histogram("zkgrant.request.duration", "Requests to the servers.", requests)
	in.lost = counter("zkgrant.lost", "{loss}", "Losses of held locks.")
	in.requeued = counter("zkgrant.requeued", "{event}", "Waiters that lost their place in the queue.")
	in.revoked = counter("zkgrant.revoked", "{event}", "Holders that were asked to give the lock back.")
	in.abandoned = counter("zkgrant.abandoned", "{event}", "Grants that tell of a holder that crashed.")
	in.sessionEvents = counter("zkgrant.session.events", "{event}", "What happened to the session.")
	in.waiting = number("zkgrant.waiting", "{acquisition}", "Acquisitions of this process without a Grant.")
	in.held = number("zkgrant.held", "{acquisition}", "Locks that this process holds; permits of a semaphore.")
	in.leader = number("zkgrant.leader", "{leader}", "1 if this process leads the election, 0 if it is a candidate.")
	in.state = number("zkgrant.session.state", "{session}", "1 for the state of the session, 0 for the others.")
	in.nodes = number("zkgrant.session.nodes", "{node}", "Nodes that the session has, or may have.")
	in.nodeBytes = number("zkgrant.session.node_bytes", "By", "What these nodes take of the session's budget.")
	in.nodeBudget = number("zkgrant.session.node_budget", "By", "The budget: beyond it a lock is refused.")
	in.longestWait = seconds("zkgrant.longest_wait", "The longest wait that still goes on.")
	in.longestHold = seconds("zkgrant.longest_hold", "The longest hold that still goes on.")
	in.leaseEnd = seconds("zkgrant.lease.remaining", "How long the held locks are safe without contact.")
	ahead, err := m.Int64ObservableGauge("zkgrant.queue.ahead", metric.WithUnit("{contender}"),
		metric.WithDescription("Contenders ahead of the oldest waiter of this process, at its latest listing."))
	in.ahead = ahead
	return in, errors.Join(append(errs, err)...)
}

func (in *instruments) observables() []metric.Observable {
	return []metric.Observable{
		in.waiting, in.held, in.leader, in.state, in.nodes, in.nodeBytes, in.nodeBudget, in.ahead, in.longestWait, in.longestHold, in.leaseEnd,
	}
}

// live is an acquisition between Acquire and its end, for metrics.
type live struct {
	lock, kind string
	permits    int       // 1 if the lock is no semaphore
	since      time.Time // of the wait, or of the hold
	ahead      int       // of a waiter; 0: not known
	holds      bool
	node       string  // of a holder
	members    []place // of a multi-lock's holder
}

// places returns what is held or waited for: each member of a multi-lock that is held, or else the acquisition itself.
func (l live) places() []live {
	if len(l.members) == 0 {
		return []live{l}
	}
	all := make([]live, len(l.members))
	for i, m := range l.members {
		all[i] = l
		all[i].lock, all[i].node = m.lock, m.node
	}
	return all
}

// place is a member of a multi-lock.
type place struct{ lock, node string }

// series tells acquisitions apart in metrics.
type series struct{ lock, kind string }

// tally is what gauges show for the live acquisitions of one series.
type tally struct {
	waiting, held int
	ahead         int // of the oldest waiter
	wait, hold    time.Duration
}

// tallyOf adds up what is live now: for each lock and kind, and for each lock with all of its kinds, as the kind "". Acquisitions
// that entered a lock again share its node, which counts once.
func tallyOf(all []live, now time.Time) map[series]tally {
	sums, nodes := map[series]tally{}, map[[2]string]bool{}
	for _, l := range all {
		tenure := [2]string{l.kind, l.node} // a writer may read in its own place
		again := nodes[tenure]
		nodes[tenure] = l.holds
		for _, at := range []series{{l.lock, l.kind}, {l.lock, ""}} {
			sum := sums[at]
			age := now.Sub(l.since)
			switch {
			case l.holds:
				if !again {
					sum.held += l.permits
				}
				sum.hold = max(sum.hold, age)
			case sum.waiting == 0 || age > sum.wait:
				sum.wait, sum.ahead = age, l.ahead
				sum.waiting++
			default:
				sum.waiting++
			}
			sums[at] = sum
		}
	}
	return sums
}

// observe is called at each collection.
func (h *Hook) observe(_ context.Context, o metric.Observer) error {
	h.mu.Lock()
	all := make([]live, 0, len(h.acquisitions))
	for _, a := range h.acquisitions {
		all = append(all, a.live.places()...)
	}
	session := h.session
	h.mu.Unlock()
	now := time.Now()
	held := 0
	for at, sum := range tallyOf(all, now) {
		held += sum.held
		lock, kind := keyLock.String(at.lock), keyKind.String(at.kind)
		if at.kind != "" {
			o.ObserveInt64(h.in.waiting, int64(sum.waiting), with(lock, kind))
			o.ObserveInt64(h.in.held, int64(sum.held), with(lock, kind))
		} else {
			h.observeLongest(o, sum, with(lock))
		}
		if at.kind == election {
			o.ObserveInt64(h.in.leader, int64(sum.held), with(keyElection.String(at.lock)))
		}
	}
	for _, state := range words.SessionStates() {
		is := int64(0)
		if state == session.state {
			is = 1
		}
		o.ObserveInt64(h.in.state, is, with(keyState.String(state)))
	}
	o.ObserveInt64(h.in.nodes, int64(session.nodes.Nodes))
	o.ObserveInt64(h.in.nodeBytes, int64(session.nodes.Bytes))
	o.ObserveInt64(h.in.nodeBudget, int64(session.nodes.Budget))
	if held > 0 {
		o.ObserveFloat64(h.in.leaseEnd, max(0, session.lease.Sub(now).Seconds()))
	}
	return nil
}

func (h *Hook) observeLongest(o metric.Observer, sum tally, lock metric.MeasurementOption) {
	if sum.waiting > 0 {
		o.ObserveFloat64(h.in.longestWait, sum.wait.Seconds(), lock)
		o.ObserveInt64(h.in.ahead, int64(sum.ahead), lock)
	}
	if sum.held > 0 {
		o.ObserveFloat64(h.in.longestHold, sum.hold.Seconds(), lock)
	}
}

func with(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}

// count adds 1 to a counter of the lock.
func (a *acquisition) count(counter metric.Int64Counter, more ...attribute.KeyValue) {
	counter.Add(a.measured(), 1, with(append(more, keyLock.String(a.lock))...))
}

// measured returns the context of a measurement, from which an exemplar gets the span.
func (a *acquisition) measured() context.Context {
	return trace.ContextWithSpan(context.Background(), a.span)
}
