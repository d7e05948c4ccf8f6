package coordinator_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// once has the action strike the first request that is meant.
func once(srv *zktest.Server, action zktest.Action, meant func(r zktest.Request) bool) (struck *atomic.Bool) {
	struck = &atomic.Bool{}
	strike(srv, action, func(r zktest.Request) bool { return meant(r) && struck.CompareAndSwap(false, true) })
	return struck
}

// counting counts the requests that are meant.
func counting(srv *zktest.Server, meant func(r zktest.Request) bool) *atomic.Int32 {
	return striking(srv, zktest.Pass(), meant)
}

// striking has the action strike each request that is meant, and counts them.
func striking(srv *zktest.Server, action zktest.Action, meant func(r zktest.Request) bool) *atomic.Int32 {
	var n atomic.Int32
	strike(srv, action, func(r zktest.Request) (is bool) {
		if is = meant(r); is {
			n.Add(1)
		}
		return is
	})
	return &n
}

// within returns the test's context with a deadline.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// inBackground calls the function in a goroutine, and returns what it returns.
func inBackground(f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return result
}

// logged returns a coordinator, and what it logs from that level on.
func logged(t *testing.T, srv *zktest.Server, level zapcore.Level, options ...coordinator.Option) (
	*coordinator.Coordinator, *observer.ObservedLogs,
) {
	t.Helper()
	core, logs := observer.New(level)
	return coordtest.Connect(t, srv, append(options, coordinator.WithLogger(zap.New(core)))...), logs
}

// expectData fails the test unless the node has the data.
func expectData(t *testing.T, srv *zktest.Server, node, want string) {
	t.Helper()
	data, there := srv.Data(node)
	expect(t, there && string(data) == want, "%s has %q (there: %v), want %q", node, data, there, want)
}
