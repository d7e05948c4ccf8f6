package coordinator_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestMain(m *testing.M) { coordtest.Main(m) }

// lockPath is the lock that most tests use.
const lockPath = coordtest.LockPath

// forEach runs the test for each row, in virtual time and with its own server.
func forEach[R any](t *testing.T, rows map[string]R, test func(t *testing.T, srv *zktest.Server, row R)) {
	t.Helper()
	for name, row := range rows {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) { test(t, srv, row) })
	}
}

// expect fails the test unless the condition holds.
func expect(t *testing.T, holds bool, format string, args ...any) {
	t.Helper()
	eventstest.Expect(t, holds, format, args...)
}

// expectEqual fails the test unless got equals want.
func expectEqual[V comparable](t *testing.T, got, want V, what string, args ...any) {
	t.Helper()
	expect(t, got == want, "%s: %v, want %v", fmt.Sprintf(what, args...), got, want)
}

// expectNone fails the test unless the list is empty.
func expectNone[V any](t *testing.T, got []V, what string, args ...any) {
	t.Helper()
	expect(t, len(got) == 0, "%s: %v, want none", fmt.Sprintf(what, args...), got)
}

// expectError fails the test unless err is the wanted error, or both are nil.
func expectError(t *testing.T, err, want error, what string) {
	t.Helper()
	eventstest.ErrorIs(t, err, want, "%s", what)
}

// strike applies the action to each request for which meant reports true, and to no
// other.
func strike(srv *zktest.Server, action zktest.Action, meant func(r zktest.Request) bool) {
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if meant(r) {
			return action
		}
		return zktest.Pass()
	})
}

// strikeNth applies the mishap to the nth request for which meant reports true, and
// counts these requests.
func strikeNth(
	srv *zktest.Server, n int32, mishap func(srv *zktest.Server, session int64) zktest.Action,
	meant func(r zktest.Request) bool,
) *atomic.Int32 {
	seen := &atomic.Int32{}
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if !meant(r) || seen.Add(1) != n {
			return zktest.Pass()
		}
		return mishap(srv, r.Session)
	})
	return seen
}

// onEach applies the action to each request with one of the operations.
func onEach(srv *zktest.Server, action zktest.Action, ops ...zktest.Op) {
	strike(srv, action, isA(ops...))
}

// isA returns a function that reports whether a request has one of the operations.
func isA(ops ...zktest.Op) func(r zktest.Request) bool {
	return func(r zktest.Request) bool { return slices.Contains(ops, r.Op) }
}

// of returns a function that reports whether a request belongs to the session, including
// its handshakes, and has one of the operations if there are any.
func of(session int64, ops ...zktest.Op) func(r zktest.Request) bool {
	return func(r zktest.Request) bool { return r.Session == session && (ops == nil || isA(ops...)(r)) }
}

// largeServer starts a real server that can hold a hundred thousand locks. The shared
// server would run out of memory.
func largeServer(t *testing.T) *ensemble.Ensemble {
	t.Helper()
	return ensemble.Start(t, 1, ensemble.Tick(500*time.Millisecond), ensemble.Heap("768m"),
		ensemble.Property("znode.container.checkIntervalMs", "60000"))
}

// once applies the action to the first request for which meant reports true.
func once(srv *zktest.Server, action zktest.Action, meant func(r zktest.Request) bool) (struck *atomic.Bool) {
	struck = &atomic.Bool{}
	strike(srv, action, func(r zktest.Request) bool { return meant(r) && struck.CompareAndSwap(false, true) })
	return struck
}

// counting counts the requests for which meant reports true.
func counting(srv *zktest.Server, meant func(r zktest.Request) bool) *atomic.Int32 {
	return striking(srv, zktest.Pass(), meant)
}

// striking applies the action to each request for which meant reports true, and counts
// them.
func striking(srv *zktest.Server, action zktest.Action, meant func(r zktest.Request) bool) *atomic.Int32 {
	var n atomic.Int32
	strike(srv, action, func(r zktest.Request) bool { return meant(r) && n.Add(1) > 0 })
	return &n
}

// within returns the test's context with a deadline.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// inBackground calls f in a goroutine, and returns a channel for its result.
func inBackground(f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return result
}

// logged returns a coordinator, and its log from the given level on.
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
