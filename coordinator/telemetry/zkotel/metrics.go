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

// The attributes of metrics.
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

// instruments are the instruments by their names in [words.Metrics].
type instruments struct {
	histograms map[string]metric.Float64Histogram
	counters   map[string]metric.Int64Counter

	// These describe the live acquisitions, and are observed at each collection.
	numbers map[string]metric.Int64Observable
	seconds map[string]metric.Float64Observable
}

// newInstruments returns the instruments, and joins the errors. A meter returns an
// instrument even with an error.
func newInstruments(m metric.Meter) (in instruments, err error) {
	in = instruments{
		map[string]metric.Float64Histogram{}, map[string]metric.Int64Counter{},
		map[string]metric.Int64Observable{}, map[string]metric.Float64Observable{},
	}
	for _, each := range words.Metrics() {
		name, unit, text := "zkgrant."+each.Name, metric.WithUnit(each.Unit), metric.WithDescription(each.Text)
		var failed error
		switch each.Kind {
		case words.Histogram:
			in.histograms[each.Name], failed = m.Float64Histogram(name, unit, text, metric.WithExplicitBucketBoundaries(each.Bounds()...))
		case words.Counter:
			in.counters[each.Name], failed = m.Int64Counter(name, unit, text)
		case words.Number:
			in.numbers[each.Name], failed = m.Int64ObservableUpDownCounter(name, unit, text)
		case words.Gauge:
			in.numbers[each.Name], failed = m.Int64ObservableGauge(name, unit, text)
		case words.Seconds:
			in.seconds[each.Name], failed = m.Float64ObservableGauge(name, unit, text)
		}
		err = errors.Join(err, failed)
	}
	return in, err
}

func (in *instruments) observables() (all []metric.Observable) {
	for _, each := range in.numbers {
		all = append(all, each)
	}
	for _, each := range in.seconds {
		all = append(all, each)
	}
	return all
}

// live is an acquisition between Acquire and its end, for metrics.
type live struct {
	lock, kind string
	permits    int       // 1 if the lock is not a semaphore
	since      time.Time // start of the wait, or of the hold
	ahead      int       // contenders ahead of a waiter; 0: unknown
	holds      bool
	node       string  // the holder's node
	members    []place // the members of a held multi-lock
}

// places returns an entry for each member if this is a held multi-lock, and otherwise for
// the acquisition itself.
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

// presentOf adds up the live acquisitions by lock. Acquisitions that reentered a lock
// share its node, which counts once.
func presentOf(all []live) map[string]*words.Present {
	sums, nodes := map[string]*words.Present{}, map[[2]string]bool{}
	for _, l := range all {
		if sums[l.lock] == nil {
			sums[l.lock] = words.NewPresent()
		}
		if !l.holds {
			sums[l.lock].Waits(l.kind, l.since, l.ahead)
			continue
		}
		tenure := [2]string{l.kind, l.node} // a writer may read in its own place
		if nodes[tenure] {
			l.permits = 0
		}
		nodes[tenure] = true
		sums[l.lock].Holds(l.kind, l.permits, l.since)
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
	holds := false
	for name, sum := range presentOf(all) {
		lock := keyLock.String(name)
		for kind, n := range sum.Waiting {
			o.ObserveInt64(h.in.numbers["waiting"], int64(n), with(lock, keyKind.String(kind)))
			o.ObserveInt64(h.in.numbers["held"], int64(sum.Held[kind]), with(lock, keyKind.String(kind)))
			if kind == election {
				o.ObserveInt64(h.in.numbers["leader"], int64(sum.Held[kind]), with(keyElection.String(name)))
			}
		}
		if !sum.FirstWait.IsZero() {
			o.ObserveFloat64(h.in.seconds["longest_wait"], now.Sub(sum.FirstWait).Seconds(), with(lock))
			o.ObserveInt64(h.in.numbers["queue.ahead"], int64(sum.Ahead), with(lock))
		}
		if !sum.FirstHold.IsZero() {
			holds = true
			o.ObserveFloat64(h.in.seconds["longest_hold"], now.Sub(sum.FirstHold).Seconds(), with(lock))
		}
	}
	for _, state := range words.SessionStates() {
		is := int64(0)
		if state == session.state {
			is = 1
		}
		o.ObserveInt64(h.in.numbers["session.state"], is, with(keyState.String(state)))
	}
	o.ObserveInt64(h.in.numbers["session.nodes"], int64(session.nodes.Nodes))
	o.ObserveInt64(h.in.numbers["session.node_bytes"], int64(session.nodes.Bytes))
	o.ObserveInt64(h.in.numbers["session.node_budget"], int64(session.nodes.Budget))
	if holds {
		o.ObserveFloat64(h.in.seconds["lease.remaining"], max(0, session.lease.Sub(now).Seconds()))
	}
	return nil
}

func with(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}

// count adds 1 to a counter of the lock.
func (h *Hook) count(a *acquisition, counter string, more ...attribute.KeyValue) {
	h.in.counters[counter].Add(a.measured(), 1, with(append(more, keyLock.String(a.lock))...))
}

// measured returns the context of a measurement, from which an exemplar takes its span.
func (a *acquisition) measured() context.Context {
	return trace.ContextWithSpan(context.Background(), a.span)
}
