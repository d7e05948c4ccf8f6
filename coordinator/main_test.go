package coordinator_test

import (
	"slices"
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
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { test(t, srv, row) })
		})
	}
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
