package zkotel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/zkotel"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// probe is a hook that keeps its spans and metrics in memory.
type probe struct {
	*zkotel.Hook
	recorder *tracetest.SpanRecorder
	reader   *sdkmetric.ManualReader
	tracer   trace.Tracer // for the caller's own spans
}

func newProbe(options ...zkotel.Option) *probe {
	p := &probe{recorder: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p.recorder), sdktrace.WithResource(resource.Empty()))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(p.reader), sdkmetric.WithResource(resource.Empty()))
	p.tracer = tracers.Tracer("caller")
	p.Hook = zkotel.New(append([]zkotel.Option{zkotel.WithTracerProvider(tracers), zkotel.WithMeterProvider(meters)}, options...)...)
	return p
}

func (p *probe) spans(name string) (all []sdktrace.ReadOnlySpan) {
	for _, s := range p.recorder.Ended() {
		if s.Name() == name {
			all = append(all, s)
		}
	}
	return all
}

// lines returns a line for each ended span of the package.
func (p *probe) lines() (lines []string) {
	for _, s := range p.recorder.Ended() {
		if s.InstrumentationScope().Name != "caller" {
			lines = append(lines, lineOf(s))
		}
	}
	return lines
}

// lineOf renders the parts of a span that are the same in each run: name, kind, duration
// in seconds, attributes, status and events.
func lineOf(s sdktrace.ReadOnlySpan) string {
	words := []string{s.Name(), s.SpanKind().String(), s.EndTime().Sub(s.StartTime()).Round(time.Second).String()}
	words = append(words, stable(s.Attributes())...)
	if s.Status().Code.String() != "Unset" {
		words = append(words, s.Status().Code.String())
	}
	for _, e := range s.Events() {
		words = append(words, fmt.Sprintf("| %s %v", e.Name, e.Time.Sub(s.StartTime()).Round(time.Second)))
		words = append(words, stable(e.Attributes)...)
	}
	return strings.Join(words, " ")
}

// stable returns the attributes whose values are the same in each run.
func stable(all []attribute.KeyValue) (words []string) {
	for _, kv := range all {
		switch kv.Key {
		case "zkgrant.lock.token", "zkgrant.session.id", "server.address", "server.port", "zkgrant.deadline", "zkgrant.abandoned.token":
		default:
			_, short, _ := strings.Cut(string(kv.Key), ".")
			words = append(words, short+"="+kv.Value.Emit())
		}
	}
	return words
}

func valueOf(s sdktrace.ReadOnlySpan, key attribute.Key) attribute.Value {
	for _, kv := range s.Attributes() {
		if kv.Key == key {
			return kv.Value
		}
	}
	return attribute.Value{}
}

// metrics collects, and returns each value by name and attributes. For a histogram, that
// is its count, and with the suffix .sum its sum.
func (p *probe) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	eventstest.Must(t, p.reader.Collect(context.Background(), &data))
	all := map[string]float64{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			put := func(suffix string, set attribute.Set, value float64) {
				var words []string
				for _, kv := range set.ToSlice() {
					words = append(words, string(kv.Key)+"="+kv.Value.Emit())
				}
				slices.Sort(words)
				all[strings.TrimSpace(strings.TrimPrefix(m.Name, "zkgrant.")+suffix+" "+strings.Join(words, " "))] = value
			}
			switch points := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, at := range points.DataPoints {
					put("", at.Attributes, float64(at.Value))
				}
			case metricdata.Gauge[int64]:
				for _, at := range points.DataPoints {
					put("", at.Attributes, float64(at.Value))
				}
			case metricdata.Gauge[float64]:
				for _, at := range points.DataPoints {
					put("", at.Attributes, at.Value)
				}
			case metricdata.Histogram[float64]:
				for _, at := range points.DataPoints {
					put("", at.Attributes, float64(at.Count))
					put(".sum", at.Attributes, at.Sum)
				}
			default:
				t.Errorf("%s is a %T, want a sum, a gauge or a histogram", m.Name, points)
			}
		}
	}
	return all
}

// must fails the test for each value that differs from the wanted one. -1 means that
// there is none.
func must(t *testing.T, when string, got, want map[string]float64) {
	t.Helper()
	for name, w := range want {
		g, there := got[name]
		eventstest.Expect(t, g == w || !there && w == none, "%s %q is %v (%t), want %v", when, name, g, there, w)
	}
	if t.Failed() {
		t.Logf("%s the metrics are %v", when, got)
	}
}

const none = -1

// mustTell fails the test unless exactly these spans have ended, in any order.
func (p *probe) mustTell(t *testing.T, want ...string) {
	t.Helper()
	got := p.lines()
	slices.Sort(got)
	slices.Sort(want)
	eventstest.Expect(t, slices.Equal(got, want),
		"the spans that have ended are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

func hex(n int64) string { return fmt.Sprintf("0x%x", uint64(n)) }
