package zkotel

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
	"github.com/zkgrant/zkgrant/events"
)

// The attributes of spans.
const (
	keyPath          = attribute.Key("zkgrant.lock.path")
	keyKindOfLock    = attribute.Key("zkgrant.lock.kind")
	keyTry           = attribute.Key("zkgrant.lock.try")
	keyPermits       = attribute.Key("zkgrant.lock.permits")
	keyMembers       = attribute.Key("zkgrant.lock.members")
	keyToken         = attribute.Key("zkgrant.lock.token")
	keyAcquire       = attribute.Key("zkgrant.acquire.outcome")
	keyHold          = attribute.Key("zkgrant.hold.end")
	keyAhead         = attribute.Key("zkgrant.queue.ahead")
	keyDeadline      = attribute.Key("zkgrant.deadline")
	keyAbandoned     = attribute.Key("zkgrant.abandoned.token")
	keySession       = attribute.Key("zkgrant.session.id")
	keyServerAddress = attribute.Key("server.address")
	keyServerPort    = attribute.Key("server.port")
	keyErrorType     = attribute.Key("error.type")
)

// mostText bounds the bytes of a path or an error in an attribute.
const mostText = 1 << 10

// clean returns text that every exporter accepts: some refuse a whole batch because of
// one attribute that is not UTF-8.
func clean(text string) string {
	if len(text) > mostText {
		text = text[:mostText]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// start begins the span acquire. Only sampled spans get attributes.
func (h *Hook) start(a *acquisition, info hooks.Acquire) trace.Span {
	_, span := h.tracer.Start(a.ctx, "acquire", trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(keyPath.String(clean(a.path)), keyKindOfLock.String(a.kind), keyTry.Bool(a.try))
		if info.Permits > 0 {
			span.SetAttributes(keyPermits.Int(info.Permits))
		}
	}
	return span
}

// granted ends the span acquire and begins the span hold. The parent of both is the
// caller's span.
func (h *Hook) granted(a *acquisition, grant events.Grant) {
	if a.span.IsRecording() {
		a.span.SetAttributes(keyToken.Int64(grant.Token))
	}
	h.acquired(a, grant.Waited, words.Granted, nil)
	if grant.Abandoned != nil {
		h.count(a, "abandoned")
	}
	acquire := a.span.SpanContext()
	_, a.span = h.tracer.Start(a.ctx, "hold", trace.WithLinks(trace.Link{SpanContext: acquire}))
	if !a.span.IsRecording() {
		return
	}
	session := h.current()
	session.id = grant.Session
	a.span.SetAttributes(keyPath.String(clean(a.path)), keyKindOfLock.String(a.kind), keyToken.Int64(grant.Token))
	a.span.SetAttributes(session.attributes()...)
	if len(grant.Members) > 0 {
		var paths []string
		for _, m := range grant.Members {
			paths = append(paths, clean(m.Path))
		}
		a.span.SetAttributes(keyMembers.StringSlice(paths))
	}
	if grant.Abandoned != nil {
		a.span.AddEvent("abandoned", trace.WithAttributes(keyAbandoned.Int64(grant.Abandoned.Token)))
	}
}

// acquired ends the span acquire.
func (h *Hook) acquired(a *acquisition, waited time.Duration, outcome string, err error) {
	h.in.histograms["acquire.duration"].Record(a.measured(), waited.Seconds(),
		with(keyLock.String(a.lock), keyKind.String(a.kind), keyOutcome.String(outcome)))
	if a.span.IsRecording() {
		a.span.SetAttributes(h.current().attributes()...)
		a.span.SetAttributes(keyAcquire.String(outcome))
		a.fail(outcome, outcome, err)
	}
	a.span.End()
}

// held ends the span hold. what is the error's type if end is an error.
func (h *Hook) held(a *acquisition, held time.Duration, end, what string, err error) {
	h.in.histograms["hold.duration"].Record(a.measured(), held.Seconds(), with(keyLock.String(a.lock), keyKind.String(a.kind), keyEnd.String(end)))
	if a.span.IsRecording() {
		a.span.SetAttributes(keyHold.String(end))
		a.fail(end, what, err)
	}
	a.span.End()
}

// fail sets the span's status to Error if the word means an error.
func (a *acquisition) fail(word, what string, err error) {
	if isError(word) {
		a.span.SetStatus(codes.Error, clean(fmt.Sprint(err)))
		a.span.SetAttributes(keyErrorType.String(what))
	}
}

// note adds an event to the span.
func (a *acquisition) note(event events.Event) {
	if !a.span.IsRecording() {
		return
	}
	name, attributes := noteOf(event)
	a.span.AddEvent(name, trace.WithAttributes(attributes...))
}

// noteOf returns a span event's name and attributes for an event.
func noteOf(event events.Event) (name string, attributes []attribute.KeyValue) {
	switch ev := event.(type) {
	case events.Queued:
		return "queued", []attribute.KeyValue{keyAhead.Int(ev.Ahead)}
	case events.Requeued:
		return "requeued", nil
	case events.Revoked:
		return "revoked", deadline(ev.Deadline)
	case events.Contended:
		return "contended", nil
	case events.Suspended:
		return words.Suspended, deadline(ev.Deadline)
	case events.Connected:
		return words.Connected, session{id: ev.Session, server: ev.Server}.attributes()
	case events.Resumed:
		return words.Resumed, nil
	case events.SessionExpired:
		return words.Expired, session{id: ev.Session}.attributes()
	default:
		return "", nil
	}
}

func deadline(at time.Time) []attribute.KeyValue {
	if at.IsZero() { // none
		return nil
	}
	return []attribute.KeyValue{keyDeadline.String(at.UTC().Format(time.RFC3339Nano))}
}

// attributes returns the known ones: the session's id as ZooKeeper's logs write it, and
// the server.
func (s session) attributes() (all []attribute.KeyValue) {
	if s.id != 0 {
		all = append(all, keySession.String("0x"+strconv.FormatUint(uint64(s.id), 16))) //nolint:gosec // the same bits
	}
	host, port, err := net.SplitHostPort(s.server)
	if err != nil { // not connected yet
		return all
	}
	all = append(all, keyServerAddress.String(host))
	if n, err := strconv.Atoi(port); err == nil {
		all = append(all, keyServerPort.Int(n))
	}
	return all
}
