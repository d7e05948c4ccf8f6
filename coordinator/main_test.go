package coordinator_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestMain(m *testing.M) { coordtest.Main(m) }

// lockPath is the lock that most tests fight for.
const lockPath = coordtest.LockPath

// forEach plays the test for each row, in virtual time and on a server of its own.
func forEach[R any](t *testing.T, rows map[string]R, test func(t *testing.T, srv *zktest.Server, row R)) {
	t.Helper()
	for name, row := range rows {
		coordtest.Case(t, name, func(t *testing.T, srv *zktest.Server) { test(t, srv, row) })
	}
}

// expect fails the test unless the condition holds.
func expect(t *testing.T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Errorf(format, args...)
	}
}

// expectEqual fails the test unless got is the wanted value.
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
	expect(t, errors.Is(err, want), "%s: %v, want %v", what, err, want)
}

// strike has the action strike each request that is meant, and no other request.
func strike(srv *zktest.Server, action zktest.Action, meant func(r zktest.Request) bool) {
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if meant(r) {
			return action
		}
		return zktest.Pass()
	})
}

// strikeNth has the mishap strike the nth request that is meant, and counts all of these.
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

// onEach decides the fate of each request with one of the operations.
func onEach(srv *zktest.Server, action zktest.Action, ops ...zktest.Op) {
	strike(srv, action, isA(ops...))
}

// isA returns a function that reports whether a request is one of these.
func isA(ops ...zktest.Op) func(r zktest.Request) bool {
	return func(r zktest.Request) bool { return slices.Contains(ops, r.Op) }
}

// of returns a function that reports whether a request is of the session, a handshake too.
func of(session int64) func(r zktest.Request) bool {
	return func(r zktest.Request) bool { return r.Session == session }
}

// largeServer starts a real server that holds a hundred thousand locks. A shared one runs out of memory.
func largeServer(t *testing.T) *ensemble.Ensemble {
	t.Helper()
	return ensemble.Start(t, 1, ensemble.Tick(500*time.Millisecond), ensemble.Heap("768m"),
		ensemble.Property("znode.container.checkIntervalMs", "60000"))
}
