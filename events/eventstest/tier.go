package eventstest

import (
	"hash/fnv"
	"os"
	"testing"
)

// These environment variables decide how much is tested. Without them `go test ./...` is
// quick.
const (
	fullVariable = "ZKGRANT_FULL" // 1: everything at full length
	realVariable = "ZKGRANT_REAL" // 1: real servers are used, and a missing one is a failure
	turnVariable = "ZKGRANT_TURN" // a commit: tests that take turns run for some commits only
)

// Full reports whether tests run at full length.
func Full() bool { return os.Getenv(fullVariable) == "1" }

// Amount returns how many trials a test runs: quick by default, full at full length.
func Amount(quick, full int) int {
	if Full() {
		return full
	}
	return quick
}

// Many is Amount for the largest numbers of locks and waiters. Under the race detector,
// which makes each of them many times larger and slower, it is always quick.
func Many(quick, full int) int {
	if Raced {
		return quick
	}
	return Amount(quick, full)
}

// NeedsServers skips a test that needs real servers unless they are enabled. `make test`
// runs it for one commit in three.
func NeedsServers(tb testing.TB) {
	tb.Helper()
	NeedsServersEachTime(tb)
	if !InTurn(tb.Name()) {
		tb.Skip("runs for one commit in 3, and at full length")
	}
}

// NeedsServersEachTime is NeedsServers for tests that `make test` runs for every commit.
func NeedsServersEachTime(tb testing.TB) {
	tb.Helper()
	if os.Getenv(realVariable) != "1" {
		tb.Skipf("needs a real ZooKeeper: run it with %s=1, after `make deps`", realVariable)
	}
}

// InTurn reports whether it is the turn of the named test, or part of a test. Its turn
// comes for one commit in three. `make test` names the commit. At full length, or if no
// commit is named, it is always its turn.
func InTurn(name string) bool {
	commit := os.Getenv(turnVariable)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(commit + name)) // it cannot fail
	return commit == "" || Full() || hash.Sum32()%3 == 0
}
