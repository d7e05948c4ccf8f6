package words

import "strings"

// Kind is the kind of a metric.
type Kind int

// The kinds. A Number adds up over several coordinators, a Gauge does not.
const (
	Histogram Kind = iota // of seconds
	Counter
	Number
	Gauge
	Seconds // a gauge
)

// Metric is a metric of one coordinator, in zkotel and zkprom.
type Metric struct {
	Name   string // in OpenTelemetry, without the prefix "zkgrant."
	Kind   Kind
	Unit   string
	Labels []string // attributes of OpenTelemetry
	Help   string   // in Prometheus
	Text   string   // in OpenTelemetry, its description
}

// Metrics returns all metrics of one coordinator.
func Metrics() []Metric {
	lock, lockKind := []string{"lock"}, []string{"lock", "kind"}
	return []Metric{
		{
			"acquire.duration", Histogram, "s", []string{"lock", "kind", "outcome"},
			"Time from Acquire to the Grant, or to the end of the wait.", "From Acquire to the Grant, or to the end without one.",
		},
		{
			"hold.duration", Histogram, "s", []string{"lock", "kind", "end"},
			"Time from the Grant to the end of the hold.", "From the Grant to the loss or the end.",
		},
		{"lost", Counter, "{loss}", []string{"lock", "reason"}, "Held locks that were lost.", "Losses of held locks."},
		{"waiting", Number, "{acquisition}", lockKind, "Acquisitions that are waiting.", "Acquisitions of this process without a Grant."},
		{
			"held", Number, "{acquisition}", lockKind,
			"Locks that are held; permits of a semaphore.", "Locks that this process holds; permits of a semaphore.",
		},
		{
			"longest_wait", Seconds, "s", lock,
			"How long the oldest waiter has waited; 0 without one.", "The longest current wait.",
		},
		{
			"longest_hold", Seconds, "s", lock,
			"How long the oldest holder has held; 0 without one.", "The longest current hold.",
		},
		{
			"queue.ahead", Gauge, "{contender}", lock,
			"Contenders ahead of the oldest waiter, at its latest listing; 0 without one.",
			"Contenders ahead of the oldest waiter of this process, at its latest listing.",
		},
		{
			"requeued", Counter, "{event}", lock,
			"Waiters that lost their place and queued again.", "Waiters that lost their place in the queue.",
		},
		{
			"revoked", Counter, "{event}", lock,
			"Holders that received a revocation request.", "Holders that received a revocation request.",
		},
		{"abandoned", Counter, "{event}", lock, "Grants that reported a crashed holder.", "Grants that reported a crashed holder."},
		{
			"leader", Number, "{leader}", []string{"election"},
			"1 while this process leads, 0 while it does not.", "1 if this process leads the election, 0 if it is a candidate.",
		},
		{
			"session.state", Number, "{session}", []string{"state"},
			"1 for the state of the session, 0 for the others.", "1 for the state of the session, 0 for the others.",
		},
		{"session.events", Counter, "{event}", []string{"event"}, "Events of the session.", "Events of the session."},
		{
			"lease.remaining", Seconds, "s", nil,
			"How long held locks stay valid without contact; absent while none is held.", "How long the held locks stay valid without contact.",
		},
		{
			"session.nodes", Number, "{node}", nil,
			"Nodes that the session has or may have.", "Nodes that the session has or may have.",
		},
		{
			"session.node_bytes", Number, "By", nil,
			"How much of the session's budget these nodes use.", "How much of the session's budget these nodes use.",
		},
		{
			"session.node_budget", Number, "By", nil,
			"The budget; beyond it, acquisitions are refused.", "The budget; beyond it, acquisitions are refused.",
		},
		{
			"request.duration", Histogram, "s", []string{"op", "result"},
			"Time from a request to its answer, or to the end of the connection.", "Requests to the servers.",
		},
	}
}

// Prometheus returns the name in Prometheus. An OpenTelemetry exporter derives the same
// one from Name, Unit and Kind.
func (m Metric) Prometheus() string {
	name := "zkgrant_" + strings.ReplaceAll(m.Name, ".", "_")
	switch {
	case m.Kind == Counter:
		return name + "_total"
	case m.Unit == "s":
		return name + "_seconds"
	case m.Unit == "By" && !strings.HasSuffix(name, "_bytes"):
		return name + "_bytes"
	default:
		return name
	}
}

// Bounds returns the upper bounds of a histogram's buckets, in seconds.
func (m Metric) Bounds() []float64 {
	if m.Name == "request.duration" {
		return []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	}
	return []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 3600}
}
