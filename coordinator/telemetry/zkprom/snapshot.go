package zkprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
)

const election = "election" // the kind

// described is a metric as Prometheus sees it. Only histograms have bounds.
type described struct {
	*prometheus.Desc
	bounds []float64
}

// descriptions are the metrics of [Metrics], by their names in [words.Metrics]. They are
// constant.
//
//nolint:gochecknoglobals // they are constant
var descriptions = describe(words.Metrics())

func describe(metrics []words.Metric) map[string]described {
	all := make(map[string]described, len(metrics))
	for _, m := range metrics {
		all[m.Name] = described{prometheus.NewDesc(m.Prometheus(), m.Help, m.Labels, nil), m.Bounds()}
	}
	return all
}

// sample is a value of a metric, before it becomes a metric of Prometheus.
type sample struct {
	of        described
	kind      prometheus.ValueType
	value     float64
	histogram *histogram // set instead of a value
	labels    []string
}

func (s sample) metric() prometheus.Metric {
	if h := s.histogram; h != nil {
		return prometheus.MustNewConstHistogram(s.of.Desc, h.count, h.sum, h.cumulative(), s.labels...)
	}
	return prometheus.MustNewConstMetric(s.of.Desc, s.kind, s.value, s.labels...)
}

// samples collects the exported values of the described metrics.
type samples struct {
	of  map[string]described
	all []sample
}

func (s *samples) gauge(name string, value float64, labels ...string) {
	s.all = append(s.all, sample{of: s.of[name], kind: prometheus.GaugeValue, value: value, labels: labels})
}

func (s *samples) counter(name string, n uint64, labels ...string) {
	s.all = append(s.all, sample{of: s.of[name], kind: prometheus.CounterValue, value: float64(n), labels: labels})
}

func (s *samples) durations(name string, h *histogram, labels ...string) {
	s.all = append(s.all, sample{of: s.of[name], histogram: h.clone(), labels: labels})
}

// snapshot returns the values exported at a moment.
func (s *state) snapshot(now time.Time) []sample {
	all := samples{of: descriptions}
	standing, holds := s.standing()
	for label, l := range s.locks {
		l.counted(&all)
		p := standing[l]
		for kind, n := range p.Waiting {
			all.gauge("waiting", float64(n), label, kind)
			all.gauge("held", float64(p.Held[kind]), label, kind)
		}
		if l.kinds[election] {
			all.gauge("leader", float64(p.Held[election]), label)
		}
		all.gauge("longest_wait", since(now, p.FirstWait), label)
		all.gauge("longest_hold", since(now, p.FirstHold), label)
		all.gauge("queue.ahead", float64(p.Ahead), label)
	}
	for _, each := range words.SessionStates() {
		all.gauge("session.state", one(each == s.session), each)
	}
	for event, n := range s.heard {
		all.counter("session.events", n, event)
	}
	if holds {
		all.gauge("lease.remaining", max(0, s.lease.Sub(now).Seconds()))
	}
	all.gauge("session.nodes", float64(s.nodes.Nodes))
	all.gauge("session.node_bytes", float64(s.nodes.Bytes))
	all.gauge("session.node_budget", float64(s.nodes.Budget))
	for r, h := range s.requests {
		all.durations("request.duration", h, r.op, r.result)
	}
	return all.all
}

// standing sums up all waiters and holders. Acquisitions that reentered a lock share its
// node, which counts once.
func (s *state) standing() (all map[*lock]*words.Present, holds bool) {
	all = make(map[*lock]*words.Present, len(s.locks))
	for _, l := range s.locks {
		p := words.NewPresent()
		for kind := range l.kinds {
			p.Seen(kind)
		}
		all[l] = p
	}
	nodes := map[tenure]bool{}
	for _, a := range s.live {
		if !a.holds() {
			all[a.lock.now()].Waits(a.kind, a.asked, a.ahead)
			continue
		}
		holds = true
		for _, at := range a.places {
			permits := a.permits
			if nodes[at.tenure] {
				permits = 0
			}
			nodes[at.tenure] = true
			all[at.lock.now()].Holds(a.kind, permits, a.granted)
		}
	}
	return all, holds
}

// counted appends the lock's counters.
func (l *lock) counted(all *samples) {
	for h, counted := range l.acquired {
		all.durations("acquire.duration", counted, l.label, h.kind, h.end)
	}
	for h, counted := range l.held {
		all.durations("hold.duration", counted, l.label, h.kind, h.end)
	}
	for reason, n := range l.lost {
		all.counter("lost", n, l.label, reason)
	}
	all.counter("requeued", l.requeued, l.label)
	all.counter("revoked", l.revoked, l.label)
	all.counter("abandoned", l.abandoned, l.label)
}

// since returns how many seconds ago something began, or 0 if it has not begun.
func since(now, begun time.Time) float64 {
	if begun.IsZero() {
		return 0
	}
	return max(0, now.Sub(begun).Seconds())
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
