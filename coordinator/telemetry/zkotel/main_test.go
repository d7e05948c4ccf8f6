package zkotel_test

import (
	"testing"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	_, _, _ = otel.Handle, sdkmetric.NewManualReader, tracetest.NewSpanRecorder
	goleak.VerifyTestMain(m)
}
