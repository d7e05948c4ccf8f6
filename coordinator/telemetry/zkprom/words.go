package zkprom

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// This file has the values of labels. There is a fixed number of each.

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
	case errors.Is(err, coordinator.ErrNotAcquired), err == nil:
		return withdrawn
	case errors.Is(err, context.DeadlineExceeded):
		return timeout
	case errors.Is(err, context.Canceled), ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return canceled
	default:
		return failed
	}
}

// endOf names the end of a hold without a loss. A Grant that was not taken is withdrawn.
func endOf(err error, taken bool) string {
	switch {
	case err == nil:
		return released
	case errors.Is(err, coordinator.ErrClosed):
		return closed
	case taken:
		return failed
	default:
		return withdrawn
	}
}

// reasons are the reasons of a loss.
func reasons() []string {
	var all []string
	for r := events.ReasonSessionExpired; r <= events.ReasonRevoked; r++ {
		all = append(all, reasonOf(r))
	}
	return all
}

func reasonOf(r events.Reason) string { return strings.ReplaceAll(r.String(), " ", "_") }

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

func sessionEvents() []string { return []string{connected, suspended, resumed, expired, leaseOut} }

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
