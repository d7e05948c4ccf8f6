package zkotel

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
	"github.com/zkgrant/zkgrant/events"
)

// election is the kind of an election's acquisitions.
const election = "election"

// Hook reports one coordinator to OpenTelemetry. Pass it to [coordinator.WithHooks].
type Hook struct {
	tracer trace.Tracer
	in     instruments
	choose func(path string) string // the user's function for labels, or nil
	stop   metric.Registration

	// mu is held briefly, and never while a provider is called: a collector waits for mu,
	// and the library waits for the hook.
	mu           sync.Mutex
	labels       *words.Labels
	acquisitions map[uint64]*acquisition
	session      session
}

// session is the state of the session according to the latest events.
type session struct {
	state  string
	id     int64
	server string    // host:port of the latest connection
	lease  time.Time // when the lease ends
	nodes  hooks.Nodes
}

// acquisition is what a hook knows between Acquire and the last event. Only the calls for
// its own events use it, one after the other; live is guarded by mu.
type acquisition struct {
	live

	ctx  context.Context // the caller's
	try  bool
	path string
	span trace.Span // the span acquire, from the Grant on the span hold

	revoked bool
}

// New returns a hook for one coordinator. It reports to the global providers, unless
// options set others; the global providers may be set later. Errors of a provider go to
// the global error handler, [otel.Handle].
//
// Span processors run inside the library, so they must neither block nor call it.
// Batching processors (sdktrace.WithBatcher) do neither. An exporter that is called at
// the end of each span (sdktrace.WithSyncer) blocks: use it in tests only.
func New(options ...Option) *Hook {
	cfg := configOf(options)
	meter := cfg.meters.Meter(scope)
	h := &Hook{
		tracer: cfg.tracers.Tracer(scope), choose: cfg.choose, labels: words.NewLabels(cfg.most, true),
		acquisitions: map[uint64]*acquisition{}, session: session{state: words.Connecting},
	}
	var err error
	if h.in, err = newInstruments(meter); err != nil {
		otel.Handle(err)
	}
	if h.stop, err = meter.RegisterCallback(h.observe, h.in.observables()...); err != nil {
		otel.Handle(err)
	}
	return h
}

// Close removes the gauges, and frees what the meter provider keeps for the hook. Call it
// after the coordinator's Close if the program keeps running. It returns the provider's
// error.
func (h *Hook) Close() error {
	if h.stop == nil {
		return nil
	}
	return h.stop.Unregister() //nolint:wrapcheck // it is the provider's
}

// nameOf returns the name of the lock at a path in metrics.
func (h *Hook) nameOf(path string) string {
	chosen := ""
	if h.choose != nil {
		chosen = h.choose(path)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.choose != nil {
		return h.labels.Given(chosen)
	}
	name, _ := h.labels.Of(path)
	return name
}

// OnAcquire is called by the coordinator; see package hooks.
func (h *Hook) OnAcquire(ctx context.Context, info hooks.Acquire) {
	a := &acquisition{
		live: live{lock: h.nameOf(info.Path), kind: info.Kind, permits: max(1, info.Permits), since: time.Now()},
		ctx:  ctx, try: info.Try, path: info.Path,
	}
	a.span = h.start(a, info)
	h.mu.Lock()
	h.acquisitions[info.ID] = a
	h.mu.Unlock()
}

// OnEvent is called by the coordinator; see package hooks.
func (h *Hook) OnEvent(event events.Event) {
	switch ev := event.(type) {
	case events.Queued:
		if a := h.change(ev.ID, func(l *live) { l.ahead = ev.Ahead }); a != nil {
			a.note(event)
		}
	case events.Requeued:
		if a := h.change(ev.ID, func(*live) {}); a != nil {
			a.note(event)
			h.count(a, "requeued")
		}
	case events.Revoked:
		if a := h.change(ev.ID, func(*live) {}); a != nil {
			a.note(event)
			if !a.revoked { // otherwise only the deadline is now earlier
				a.revoked = true
				h.count(a, "revoked")
			}
		}
	case events.Contended:
		if a := h.change(ev.ID, func(*live) {}); a != nil {
			a.note(event)
		}
	case events.Grant:
		var members []place
		for _, m := range ev.Members {
			members = append(members, place{h.nameOf(m.Path), m.Node})
		}
		if a := h.change(ev.ID, func(l *live) { l.holds, l.node, l.members, l.since = true, ev.Node, members, time.Now() }); a != nil {
			h.granted(a, ev)
		}
	case events.Lost:
		if a := h.forget(ev.ID); a != nil {
			reason := words.Reason(ev.Reason)
			h.count(a, "lost", keyReason.String(reason))
			h.held(a, ev.Held, words.Lost, reason, ev.Err)
		}
	case events.Ended:
		switch a := h.forget(ev.ID); {
		case a == nil:
		case a.holds:
			end, held := endOf(a.ctx, ev.Err), ev.Held
			if held == 0 { // the Grant was not taken, or released at once
				held = time.Since(a.since)
			}
			h.held(a, held, end, end, ev.Err)
		default:
			outcome := words.Outcome(a.ctx, a.try, ev.Err)
			h.acquired(a, time.Since(a.since), outcome, ev.Err)
		}
	case events.Connected, events.Suspended, events.Resumed, events.SessionExpired:
		h.concerns(event)
	}
}

// concerns handles an event of the session, which concerns every acquisition.
func (h *Hook) concerns(event events.Event) {
	state, word := words.SessionAfter(event)
	h.mu.Lock()
	h.session.state = state
	if connected, is := event.(events.Connected); is {
		h.session.id, h.session.server = connected.Session, connected.Server
	}
	all := slices.Collect(maps.Values(h.acquisitions))
	h.mu.Unlock()
	h.in.counters["session.events"].Add(context.Background(), 1, with(keyEvent.String(word)))
	for _, a := range all {
		a.note(event)
	}
}

// OnRequest is called by the coordinator; see package hooks.
func (h *Hook) OnRequest(info hooks.Request) {
	h.in.histograms["request.duration"].Record(context.Background(), info.Duration.Seconds(), with(keyOp.String(words.Op(info.Op)), keyResult.String(words.Result(info.Err))))
	if info.Err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.session.server = info.Server // may have changed with a Resumed, which does not name it
	if info.Op == words.Closing {
		h.session.state = words.Closed
	}
}

// OnLease is called by the coordinator; see package hooks.
func (h *Hook) OnLease(info hooks.Lease) {
	h.mu.Lock()
	h.session.lease = info.Deadline
	h.mu.Unlock()
	if info.RanOut {
		h.in.counters["session.events"].Add(context.Background(), 1, with(keyEvent.String(words.LeaseOut)))
	}
}

// OnNodes is called by the coordinator; see package hooks.
func (h *Hook) OnNodes(info hooks.Nodes) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.session.nodes = info
}

// change changes the live part of an acquisition. It returns the acquisition, or nil if
// there is none.
func (h *Hook) change(id uint64, f func(*live)) *acquisition {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.acquisitions[id]
	if a != nil {
		f(&a.live)
	}
	return a
}

// forget removes and returns an acquisition that has ended. It returns nil if there is
// none.
func (h *Hook) forget(id uint64) *acquisition {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.acquisitions[id]
	delete(h.acquisitions, id)
	return a
}

func (h *Hook) current() session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.session
}
