package coordinator

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// What is logged, by level:
//
//   - Error: a node of a released lock or of a past session could not be deleted.
//   - Warn: a connection or a session was lost, the lease ran out, a lock was lost, a
//     server refused a request or an identity or did not answer, no server can be used, a
//     name was not resolved, the servers changed the session timeout, imply a longer
//     tickTime than configured, or have no containers, the session is full, the
//     identities have changed, the boot-time clock cannot be read, a queue or an election
//     cannot be read, a release is not confirmed, a record could not be deleted, a holder
//     cannot be revoked or is evicted, waiters learn of a resize late, nodes may be left
//     at the end.
//   - Info: a session was established, resumed or closed; a wait has lasted for a session
//     timeout, see waiting.go. For elections: a campaign, and a term from its beginning
//     to its end.
//   - Debug: the same for each lock, failed requests, messages of the client library.
//
// In each line, path is the lock's path as the caller wrote it, id the acquisition's ID,
// token the fencing token of its Grant, and session the session ID as in ZooKeeper's own
// logs; waited and held are durations. node is a path on the servers, with the chroot,
// except in the line of a Grant.
//
// Above Debug, each message is limited to linesPerSecond, and beyond that to one in
// oneInSoMany, because the loss of a session with ten thousand locks is one event.
const (
	linesPerSecond = 10
	oneInSoMany    = 1000
)

// limited returns the logger with that limit. A logger that logs nothing needs none.
func limited(logger *zap.Logger) *zap.Logger {
	if logger.Core() == zapcore.NewNopCore() {
		return logger
	}
	return logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewTee(part{core, true},
			zapcore.NewSamplerWithOptions(part{core, false}, time.Second, linesPerSecond, oneInSoMany))
	}))
}

// part is either the Debug level of a core or the levels above it. The core's own level
// may change at any time.
type part struct {
	zapcore.Core
	debug bool
}

// Enabled reports whether the core takes the level.
func (c part) Enabled(l zapcore.Level) bool {
	return l < zapcore.InfoLevel == c.debug && c.Core.Enabled(l)
}

// Check adds the core to those that write the entry.
func (c part) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) {
		return ce
	}
	return c.Core.Check(e, ce)
}

// With returns the core with the fields added.
func (c part) With(fields []zapcore.Field) zapcore.Core { return part{c.Core.With(fields), c.debug} }

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

// Write passes the entry to the handler.
func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	record := slog.NewRecord(e.Time, slogLevel(e.Level), e.Message, e.Caller.PC)
	record.AddAttrs(attrs(fields)...)
	return c.handler.Handle(context.Background(), record)
}

// Sync does nothing: a handler has no flush.
func (slogCore) Sync() error { return nil }

// slogLevel returns the level of the same name.
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

// attrs returns the fields in order. An error remains an error, for handlers that inspect
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
