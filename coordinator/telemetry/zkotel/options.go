package zkotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
)

// Option configures [New].
type Option func(*config)

type config struct {
	tracers trace.TracerProvider
	meters  metric.MeterProvider
	choose  func(path string) string // nil: the default
	most    int                      // how many children of one parent have their own names
}

func configOf(options []Option) config {
	cfg := config{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider(), most: words.DefaultMost}
	for _, o := range options {
		if o != nil {
			o(&cfg)
		}
	}
	return cfg
}

// WithTracerProvider sets the provider of spans; the default is the global provider. One
// from package trace/noop records none.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// WithMeterProvider sets the provider of metrics; the default is the global provider. One
// from package metric/noop records none.
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// WithLockLabel sets the function that maps a lock's path to the attribute lock of
// metrics, instead of the default of [WithMaxLocks]. It is called in Acquire, and at the
// Grant of a multi-lock, from any goroutine: it must be fast and must not call the
// library. A label that several locks share should contain a *. After 500 labels (see
// WithMaxLocks), each further one is *.
func WithLockLabel(choose func(path string) string) Option {
	return func(c *config) { c.choose = choose }
}

// WithMaxLocks sets how many locks below one parent have their own attribute lock; the
// default is 50. Once there are more, parent/* replaces them all. The total is limited to
// ten times as many, and to no less than 100; each further lock is *.
func WithMaxLocks(n int) Option { return func(c *config) { c.most = max(0, n) } }
