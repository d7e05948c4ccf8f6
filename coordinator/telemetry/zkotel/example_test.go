package zkotel_test

import (
	"context"
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/zkotel"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// One option enables spans and metrics. Here they stay in memory; without options, New
// uses the global providers.
func ExampleNew() {
	srv, err := zktest.New()
	check(err)
	defer srv.Close()
	spans := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans))
	meters := sdkmetric.NewMeterProvider()

	ctx := context.Background()
	c, err := coordinator.Connect(ctx, srv.Addr(), coordinator.WithHooks(
		zkotel.New(zkotel.WithTracerProvider(tracers), zkotel.WithMeterProvider(meters))))
	check(err)
	ctx, job := tracers.Tracer("jobs").Start(ctx, "rebuild the index")
	check(c.Mutex("/locks/reindex").Do(ctx, func(context.Context, events.Grant) error { return nil }))
	job.End()
	check(c.Close())

	check(tracers.ForceFlush(ctx))
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name, s.Parent.SpanID() == job.SpanContext().SpanID())
	}
	check(tracers.Shutdown(ctx))
	check(meters.Shutdown(ctx))
	// Output:
	// acquire true
	// hold true
	// rebuild the index false
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
