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
	most    int                      // children of a parent that have names of their own
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

// WithTracerProvider sets where spans go; the default is the global provider. One of package trace/noop makes none.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// WithMeterProvider sets where metrics go; the default is the global provider. One of package metric/noop makes none.
func WithMeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// WithLockLabel has the attribute lock of metrics chosen by a function of the lock's path, instead of the default of [WithMaxLocks]. The
// function is called in Acquire and at the Grant of a multi-lock, by any goroutine: it must be quick, and must not call the library.
// Beyond 500 labels (see [WithMaxLocks]), each further one is *.
func WithLockLabel(choose func(path string) string) Option {
	return func(c *config) { c.choose = choose }
}

// WithMaxLocks sets how many locks below one parent have the attribute lock of their own, by default 50. If there are more, parent/*
// replaces those of them all from then on. In all there are ten times as many, and not less than 100; each further lock has *.
func WithMaxLocks(n int) Option { return func(c *config) { c.most = max(0, n) } }
