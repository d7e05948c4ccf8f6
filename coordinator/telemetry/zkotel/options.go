package zkotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Option configures [New].
type Option func(*config)

type config struct {
	tracers trace.TracerProvider
	meters  metric.MeterProvider
	nameOf  func(path string) string
}

func configOf(options []Option) config {
	cfg := config{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider(), nameOf: newNames(mostChildren).of}
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

// WithLockName sets the attribute lock of metrics, by the lock's path. The function is called by each Acquire, from any goroutine, must not
// block, and should return few names: each is a time series. By default it is the path; if a parent has more than 50 children, one name
// with * as the last segment replaces theirs from then on; after 500 paths, every other lock is *.
func WithLockName(name func(path string) string) Option { return func(c *config) { c.nameOf = name } }
