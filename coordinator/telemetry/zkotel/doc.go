// Package zkotel reports a coordinator's locks to OpenTelemetry, as spans and metrics.
//
//	c, err := coordinator.Connect(ctx, servers, coordinator.WithHooks(zkotel.New()))
//
// Each acquisition has a span acquire, from Acquire to the Grant or the end, as a child
// of the span in the caller's context. Each Grant has a span hold, until the loss or the
// end, with a link to acquire. docs/observability.md lists the spans and metrics.
//
// The package depends on the OpenTelemetry API but on no SDK: the program chooses the SDK
// and its exporters.
package zkotel
