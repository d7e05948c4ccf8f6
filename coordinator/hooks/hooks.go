// Package hooks describes the arguments of the hooks that coordinator.WithHooks adds. A
// hook is a value with one or more of these methods:
//
//	OnAcquire(context.Context, hooks.Acquire) // an acquisition, before its events, in the caller's goroutine
//	OnEvent(events.Event)                     // an event, in order; a Grant before the caller can take it
//	OnRequest(hooks.Request)                  // a request that was answered, or whose connection ended
//	OnLease(hooks.Lease)                      // a new deadline of the lease, or its end with a lock held
//	OnNodes(hooks.Nodes)                      // how full the session is
//
// The coordinator calls them from any goroutine, with internal mutexes held, so they must
// not block, panic, or call the library.
package hooks

import "time"

// Acquire describes an acquisition, including one with invalid arguments.
type Acquire struct {
	ID      uint64 // as in its events
	Path    string // of a multi-lock, the first one
	Kind    string // mutex, read, write, semaphore, election, unfair or multi
	Try     bool
	Permits int // of a semaphore; 0 for other locks
}

// Request describes a request to a server.
type Request struct {
	Op       string        // ZooKeeper's name: create, multi, getChildren2; connect for the handshake
	Server   string        // host:port, as in the connect string
	Bytes    int           // of the request and of its answer
	Duration time.Duration // from the first byte sent to the last received, or to the end of the connection
	Err      error         // the server's answer, or zk.ErrConnectionClosed; nil if executed
}

// Lease describes the session's lease.
type Lease struct {
	Session  int64
	Deadline time.Time // see coordinator.Acquisition.Deadline
	RanOut   bool      // the deadline has passed, and held locks count as lost
}

// Nodes describes how full the session is; see coordinator.WithNodeBudget.
type Nodes struct {
	Nodes, Bytes int
	Budget       int
}
