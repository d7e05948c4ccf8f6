package coordinator

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// WithSlog is [WithLogger] for a [slog.Handler]; the later option counts.
func WithSlog(handler slog.Handler) Option {
	if handler == nil {
		return WithLogger(nil)
	}
	return WithLogger(zap.New(slogCore{handler}))
}

// slogCore writes the entries of zap to a handler.
type slogCore struct{ handler slog.Handler }

var _ zapcore.Core = slogCore{}

// Enabled asks the handler.
func (c slogCore) Enabled(level zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), slogLevel(level))
}

// With returns the core with the fields added.
func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{c.handler.WithAttrs(attrs(fields))}
}

// Check adds the core to those that write the entry.
func (c slogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) {
		return ce
	}
	return ce.AddCore(e, c)
}

// Write hands the entry to the handler.
func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	record := slog.NewRecord(e.Time, slogLevel(e.Level), e.Message, e.Caller.PC)
	record.AddAttrs(attrs(fields)...)
	return c.handler.Handle(context.Background(), record)
}

// Sync does nothing: a handler has no flush.
func (slogCore) Sync() error { return nil }

// slogLevel is the level of the same name.
func slogLevel(level zapcore.Level) slog.Level {
	switch {
	case level < zapcore.InfoLevel:
		return slog.LevelDebug
	case level < zapcore.WarnLevel:
		return slog.LevelInfo
	case level < zapcore.ErrorLevel:
		return slog.LevelWarn
	default:
		return slog.LevelError
	}
}

// attrs are the fields in their order. An error stays one, for a handler that looks into
// it.
func attrs(fields []zapcore.Field) (all []slog.Attr) {
	for _, f := range fields {
		if f.Type == zapcore.ErrorType {
			all = append(all, slog.Any(f.Key, f.Interface))
			continue
		}
		values := zapcore.NewMapObjectEncoder()
		f.AddTo(values)
		for _, key := range slices.Sorted(maps.Keys(values.Fields)) { // most fields have one value
			all = append(all, slog.Any(key, values.Fields[key]))
		}
	}
	return all
}
