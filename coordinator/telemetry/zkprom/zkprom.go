package zkprom

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/events"
)

// Metrics are the metrics of one coordinator: a hook for [coordinator.WithHooks], and a
// [prometheus.Collector]. Its methods are safe for concurrent use.
type Metrics struct {
	choose func(path string) string // nil: the default

	mu    sync.Mutex
	state *state
}

var _ prometheus.Collector = (*Metrics)(nil)

// New returns the metrics of one coordinator. Register them, and pass them to
// [coordinator.WithHooks]. Each coordinator needs its own: register a second one through
// [prometheus.WrapRegistererWith] and a label.
func New(options ...Option) *Metrics {
	cfg := configOf(options)
	return &Metrics{choose: cfg.choose, state: newState(cfg.most)}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range descriptions {
		to <- desc.Desc
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	all := m.state.snapshot(time.Now())
	m.mu.Unlock() // so that hooks do not wait for the reader
	for _, s := range all {
		to <- s.metric()
	}
}

// OnAcquire is called by the coordinator; see package hooks.
func (m *Metrics) OnAcquire(ctx context.Context, info hooks.Acquire) {
	label := ""
	if m.choose != nil {
		label = m.choose(info.Path)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.state.at(info.Path, label, m.choose != nil)
	m.state.acquire(ctx, time.Now(), l, info)
}

// OnEvent is called by the coordinator; see package hooks.
func (m *Metrics) OnEvent(event events.Event) {
	var labels []string
	if grant, is := event.(events.Grant); is && m.choose != nil {
		for _, member := range grant.Members {
			labels = append(labels, m.choose(member.Path))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.event(time.Now(), event, labels...)
}

// OnRequest is called by the coordinator; see package hooks.
func (m *Metrics) OnRequest(info hooks.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.request(info)
}

// OnLease is called by the coordinator; see package hooks.
func (m *Metrics) OnLease(info hooks.Lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.leased(info)
}

// OnNodes is called by the coordinator; see package hooks.
func (m *Metrics) OnNodes(info hooks.Nodes) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.nodes = info
}
