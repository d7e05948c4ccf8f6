package zkotel

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// This file has the values of attributes. There is a fixed number of each.

// The outcomes of an acquisition, and the ends of a hold.
const (
	granted  = "granted"
	released = "released"
	lost     = "lost"
	closed   = "closed"

	taken     = "taken"     // Try found a contender ahead
	withdrawn = "withdrawn" // released before the Grant was taken
	timeout   = "timeout"   // WithMaxWait, or a deadline of the context
	canceled  = "canceled"  // the context ended in another way
	deadlock  = "deadlock"
	invalid   = "invalid" // the call was wrong
	failed    = "error"   // the servers refused, or disagreed
)

// outcomeOf names the end of an acquisition without a Grant. ctx is the caller's.
func outcomeOf(ctx context.Context, try bool, err error) string {
	switch {
	case errors.Is(err, coordinator.ErrClosed):
		return closed
	case errors.Is(err, coordinator.ErrDeadlock):
		return deadlock
	case errors.Is(err, coordinator.ErrTimeout):
		return timeout
	case errors.Is(err, coordinator.ErrInvalid):
		return invalid
	case errors.Is(err, coordinator.ErrNotAcquired) && try:
		return taken
	case errors.Is(err, coordinator.ErrNotAcquired):
		return withdrawn
	case errors.Is(err, context.DeadlineExceeded):
		return timeout
	case errors.Is(err, context.Canceled), ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return canceled
	default:
		return failed
	}
}

// endOf names the end of a hold without a loss. Of a Grant that nothing took, the end is withdrawn.
func endOf(ctx context.Context, err error) string {
	if err == nil {
		return released
	}
	if errors.As(err, new(*coordinator.LostError)) {
		return withdrawn // lost before the Grant was taken
	}
	switch outcome := outcomeOf(ctx, false, err); outcome {
	case closed, failed:
		return outcome
	default:
		return withdrawn
	}
}

// reasonOf names the reason of a loss.
func reasonOf(r events.Reason) string { return strings.ReplaceAll(r.String(), " ", "_") }

// isError tells which outcomes and ends are the status Error of a span. A Try that is refused, and a caller that gives up, are none.
func isError(word string) bool {
	return slices.Contains([]string{lost, timeout, deadlock, invalid, failed}, word)
}

// The states of a session, and what happens to it.
const (
	connecting = "connecting"
	connected  = "connected"
	suspended  = "suspended"
	resumed    = "resumed"
	expired    = "expired"
	leaseOut   = "lease_ran_out"
)

func sessionStates() []string { return []string{connecting, connected, suspended, closed} }

// closing is the request that ends a session.
const closing = "closeSession"

// opOf names a request.
func opOf(op string) string {
	switch op {
	case "connect", "create", "delete", "exists", "getData", "setData", "getACL", "setACL", "getChildren", "sync", "ping", "getChildren2",
		"check", "multi", "create2", "createContainer", "createTTL", "auth", "setWatches", "sasl", closing:
		return op
	default:
		return "other"
	}
}

// resultOf names what became of a request.
func resultOf(err error) string {
	if err == nil {
		return "ok"
	}
	for _, each := range []struct {
		err  error
		name string
	}{
		{zk.ErrNoNode, "no_node"},
		{zk.ErrNodeExists, "node_exists"},
		{zk.ErrNotEmpty, "not_empty"},
		{zk.ErrBadVersion, "bad_version"},
		{zk.ErrNoAuth, "no_auth"},
		{zk.ErrAuthFailed, "auth_failed"},
		{zk.ErrSessionExpired, "session_expired"},
		{zk.ErrSessionMoved, "session_moved"},
		{zk.ErrConnectionClosed, "connection_closed"},
	} {
		if errors.Is(err, each.err) {
			return each.name
		}
	}
	return failed
}
