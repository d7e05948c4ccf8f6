// Package zkotel reports what a coordinator's locks do to OpenTelemetry, as metrics and spans.
package zkotel
