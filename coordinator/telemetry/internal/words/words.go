// Package words has the values of labels and attributes that zkprom and zkotel share.
// Each has a fixed number of values.
package words

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// The outcomes of an acquisition, and the ends of a hold.
const (
	Granted  = "granted"
	Released = "released"
	Lost     = "lost"
	Closed   = "closed"

	Taken     = "taken"     // Try found a contender ahead
	Withdrawn = "withdrawn" // released before the Grant was taken
	Timeout   = "timeout"   // MaxWait, or a deadline of the context
	Canceled  = "canceled"  // the context ended in another way
	Deadlock  = "deadlock"
	Invalid   = "invalid" // the call was wrong
	Failed    = "error"   // the servers refused, or disagreed
)

// Outcome names the end of an acquisition without a Grant. ctx is the caller's context.
func Outcome(ctx context.Context, try bool, err error) string {
	switch {
	case errors.Is(err, coordinator.ErrClosed):
		return Closed
	case errors.Is(err, coordinator.ErrDeadlock):
		return Deadlock
	case errors.Is(err, coordinator.ErrTimeout):
		return Timeout
	case errors.Is(err, coordinator.ErrInvalid):
		return Invalid
	case errors.Is(err, coordinator.ErrNotAcquired) && try:
		return Taken
	case errors.Is(err, coordinator.ErrNotAcquired), err == nil:
		return Withdrawn
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled), ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return Canceled
	default:
		return Failed
	}
}

// Reason names the reason of a loss.
func Reason(r events.Reason) string { return strings.ReplaceAll(r.String(), " ", "_") }

// The states of a session, and its events.
const (
	Connecting = "connecting"
	Connected  = "connected"
	Suspended  = "suspended"
	Resumed    = "resumed"
	Expired    = "expired"
	LeaseOut   = "lease_ran_out"
)

// SessionStates lists the states of a session.
func SessionStates() []string { return []string{Connecting, Connected, Suspended, Closed} }

// SessionAfter returns the state of a session after one of its events, and the event's
// name.
func SessionAfter(event events.Event) (state, name string) {
	switch event.(type) {
	case events.Connected:
		return Connected, Connected
	case events.Suspended:
		return Suspended, Suspended
	case events.Resumed:
		return Connected, Resumed
	default: // events.SessionExpired
		return Connecting, Expired
	}
}

// Closing is the name of the request that ends a session.
const Closing = "closeSession"

// Op names a request.
func Op(op string) string {
	switch op {
	case "connect", "create", "delete", "exists", "getData", "setData", "getACL", "setACL", "getChildren", "sync", "ping", "getChildren2",
		"check", "multi", "create2", "createContainer", "createTTL", "auth", "setWatches", "sasl", Closing:
		return op
	default:
		return "other"
	}
}

// Result names the outcome of a request.
func Result(err error) string {
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
	return Failed
}
