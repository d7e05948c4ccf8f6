package coordinator_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/session/zktest"
)

// expect fails the test unless the condition holds.
func expect(t *testing.T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Errorf(format, args...)
	}
}

// expectError fails the test unless err is the wanted error, or both are nil.
func expectError(t *testing.T, err, want error, what string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// onEach decides the fate of each request with one of the operations.
func onEach(srv *zktest.Server, action zktest.Action, ops ...zktest.Op) {
	srv.Intercept(func(r zktest.Request) zktest.Action {
		if slices.Contains(ops, r.Op) {
			return action
		}
		return zktest.Pass()
	})
}
