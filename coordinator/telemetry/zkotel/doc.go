// Package zkotel reports what a coordinator's locks do to OpenTelemetry, as spans and metrics.
//
//	c, err := coordinator.Connect(ctx, servers, coordinator.WithHooks(zkotel.New()))
//
// An acquisition has the span acquire, from Acquire to the Grant or the end, as a child of the span in the caller's context. A Grant has
// the span hold, to the loss or the end, with a link to acquire. docs/observability.md has the tables of spans and metrics.
//
// The package needs the API of OpenTelemetry and no SDK: the program chooses the SDK and its exporters.
package zkotel
