package zkprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
)

// The metrics of [Metrics]. They are constant.
//
//nolint:gochecknoglobals // they are constant
var (
	acquireDuration = describe("acquire_duration_seconds", "Time from Acquire to the Grant, or to the end of the wait.", "lock", "kind", "outcome")
	holdDuration    = describe("hold_duration_seconds", "Time from the Grant to the end of the hold.", "lock", "kind", "end")
	lostTotal       = describe("lost_total", "Grants that were taken, and lost.", "lock", "reason")
	waiting         = describe("waiting", "Acquisitions that wait.", "lock", "kind")
	held            = describe("held", "Locks that are held; permits of a semaphore.", "lock", "kind")
	longestWait     = describe("longest_wait_seconds", "How long the oldest waiter has waited; 0 without one.", "lock")
	longestHold     = describe("longest_hold_seconds", "How long the oldest holder has held; 0 without one.", "lock")
	queueAhead      = describe("queue_ahead", "Contenders before the oldest waiter, at its latest listing; 0 without one.", "lock")
	requeuedTotal   = describe("requeued_total", "Waiters that lost their place and queued again.", "lock")
	revokedTotal    = describe("revoked_total", "Holders that were asked to give the lock back.", "lock")
	abandonedTotal  = describe("abandoned_total", "Grants that told of a crashed holder.", "lock")
	leader          = describe("leader", "1 while this process leads, 0 while it does not.", "election")
	sessionState    = describe("session_state", "1 for the state of the session, 0 for the others.", "state")
	sessionTotal    = describe("session_events_total", "What has happened to the session.", "event")
	leaseRemaining  = describe("lease_remaining_seconds", "For how long held locks can be relied on; absent while none is held.")
	sessionNodes    = describe("session_nodes", "Nodes that the session has, or may have.")
	nodeBytes       = describe("session_node_bytes", "What these nodes take of the session's budget.")
	nodeBudget      = describe("session_node_budget_bytes", "The budget: beyond it a lock is refused.")
	requestDuration = describe("request_duration_seconds", "Time from a request to its answer, or to the end of the connection.", "op", "result")
)

const election = "election" // the kind

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("zkgrant_"+name, help, labels, nil)
}

func descriptions() []*prometheus.Desc {
	return []*prometheus.Desc{
		acquireDuration, holdDuration, lostTotal, waiting, held, longestWait, longestHold, queueAhead, requeuedTotal, revokedTotal,
		abandonedTotal, leader, sessionState, sessionTotal, leaseRemaining, sessionNodes, nodeBytes, nodeBudget, requestDuration,
	}
}

// sample is a value of a metric, before it becomes one of Prometheus.
type sample struct {
	desc      *prometheus.Desc
	kind      prometheus.ValueType
	value     float64
	histogram *histogram // instead of a value
	labels    []string
}

func (s sample) metric() prometheus.Metric {
	if h := s.histogram; h != nil {
		return prometheus.MustNewConstHistogram(s.desc, h.count, h.sum, h.cumulative(), s.labels...)
	}
	return prometheus.MustNewConstMetric(s.desc, s.kind, s.value, s.labels...)
}

// samples collects what is exported.
type samples []sample

func (all *samples) gauge(desc *prometheus.Desc, value float64, labels ...string) {
	*all = append(*all, sample{desc: desc, kind: prometheus.GaugeValue, value: value, labels: labels})
}

func (all *samples) counter(desc *prometheus.Desc, n uint64, labels ...string) {
	*all = append(*all, sample{desc: desc, kind: prometheus.CounterValue, value: float64(n), labels: labels})
}

func (all *samples) durations(desc *prometheus.Desc, h *histogram, labels ...string) {
	*all = append(*all, sample{desc: desc, histogram: h.clone(), labels: labels})
}

// snapshot returns what is exported at a moment.
func (s *state) snapshot(now time.Time) samples {
	var all samples
	standing, holds := s.standing()
	for label, l := range s.locks {
		l.counted(&all)
		p := standing[l]
		for kind, n := range p.waiting {
			all.gauge(waiting, float64(n), label, kind)
			all.gauge(held, float64(p.held[kind]), label, kind)
		}
		if l.kinds[election] {
			all.gauge(leader, float64(p.held[election]), label)
		}
		all.gauge(longestWait, since(now, p.firstWait), label)
		all.gauge(longestHold, since(now, p.firstHold), label)
		all.gauge(queueAhead, float64(p.ahead), label)
	}
	for _, each := range words.SessionStates() {
		all.gauge(sessionState, one(each == s.session), each)
	}
	for event, n := range s.heard {
		all.counter(sessionTotal, n, event)
	}
	if holds {
		all.gauge(leaseRemaining, max(0, s.lease.Sub(now).Seconds()))
	}
	all.gauge(sessionNodes, float64(s.nodes.Nodes))
	all.gauge(nodeBytes, float64(s.nodes.Bytes))
	all.gauge(nodeBudget, float64(s.nodes.Budget))
	for r, h := range s.requests {
		all.durations(requestDuration, h, r.op, r.result)
	}
	return all
}

// standing looks at every waiter and holder. Acquisitions that entered a lock again share its node, which counts once.
func (s *state) standing() (all map[*lock]*present, holds bool) {
	all = make(map[*lock]*present, len(s.locks))
	for _, l := range s.locks {
		p := newPresent()
		for kind := range l.kinds {
			p.seen(kind)
		}
		all[l] = p
	}
	nodes := map[tenure]bool{}
	for _, a := range s.live {
		if !a.holds() {
			all[a.lock.now()].waits(a.kind, a.asked, a.ahead)
			continue
		}
		holds = true
		for _, at := range a.places {
			permits := a.permits
			if nodes[at.tenure] {
				permits = 0
			}
			nodes[at.tenure] = true
			all[at.lock.now()].holds(a.kind, permits, a.granted)
		}
	}
	return all, holds
}

// counted appends what is counted of the lock.
func (l *lock) counted(all *samples) {
	for h, counted := range l.acquired {
		all.durations(acquireDuration, counted, l.label, h.kind, h.end)
	}
	for h, counted := range l.held {
		all.durations(holdDuration, counted, l.label, h.kind, h.end)
	}
	for reason, n := range l.lost {
		all.counter(lostTotal, n, l.label, reason)
	}
	all.counter(requeuedTotal, l.requeued, l.label)
	all.counter(revokedTotal, l.revoked, l.label)
	all.counter(abandonedTotal, l.abandoned, l.label)
}

// since returns how many seconds ago something began; 0 if it has not.
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
