package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// Hook implements one or more of [HookAcquire], [HookEvent], [HookRequest] and [HookLease]. It is called from any goroutine, with locks of
// the library held: it must not block, panic, or call the library.
type Hook any

// HookAcquire is told of each acquisition, bad arguments included: before its events, in the caller's goroutine.
type HookAcquire interface {
	OnAcquire(ctx context.Context, info AcquireInfo)
}

// HookEvent is told of each event, in order. It hears of a Grant before the caller can take it.
type HookEvent interface{ OnEvent(event events.Event) }

// HookRequest is told of each request when it is answered or its connection ends.
type HookRequest interface{ OnRequest(info RequestInfo) }

// HookLease is told of each new deadline of the lease, and when it runs out under a lock.
type HookLease interface{ OnLease(info LeaseInfo) }

// HookNodes receives how full the session is.
type HookNodes interface{ OnNodes(info NodesInfo) }

// NodesInfo describes the session's nodes.
type NodesInfo struct {
	Nodes, Bytes int // see [WithNodeBudget]
	Budget       int
}

// AcquireInfo describes an acquisition.
type AcquireInfo struct {
	ID      uint64 // as in its events
	Path    string // of a multi-lock, the first one
	Kind    string // mutex, read, write, semaphore, election, unfair or multi
	Try     bool
	Permits int // of a semaphore; 0 for other locks
}

// RequestInfo describes a request to a server.
type RequestInfo struct {
	Op       string        // ZooKeeper's name: create, multi, getChildren2; connect for the handshake
	Server   string        // host:port, as in the connect string
	Bytes    int           // of the request and of its answer
	Duration time.Duration // from the first byte sent to the last received, or to the end of the connection
	Err      error         // the server's answer, or zk.ErrConnectionClosed; nil if executed
}

// LeaseInfo describes the session's lease.
type LeaseInfo struct {
	Session  int64
	Deadline time.Time // see [Acquisition.Deadline]
	RanOut   bool      // the deadline has passed, and held locks count as lost
}

// WithHooks adds hooks. A hook that implements none of the interfaces is [ErrInvalid] at [Open].
func WithHooks(all ...Hook) Option {
	return hooksOption{Option: session.OptionFunc(func(*session.Config) {}), all: append([]Hook(nil), all...)}
}

// hooksOption changes nothing of a session.
type hooksOption struct {
	Option
	all []Hook
}

// hooks are a coordinator's hooks, by what they hear.
type hooks struct {
	acquire []HookAcquire
	event   []HookEvent
	request []HookRequest
	lease   []HookLease
	nodes   []HookNodes
}

// hooksOf sorts the hooks among the options.
func hooksOf(options []Option) (h hooks, _ error) {
	for _, o := range options {
		added, _ := o.(hooksOption)
		for _, hook := range added.all {
			if !h.add(hook) {
				return hooks{}, fmt.Errorf("%w: a hook of type %T implements no interface of a hook", ErrInvalid, hook)
			}
		}
	}
	return h, nil
}

// add reports whether the hook hears anything.
func (h *hooks) add(hook Hook) bool {
	acquires, hears := joins(&h.acquire, hook), joins(&h.event, hook)
	requests, leases, fills := joins(&h.request, hook), joins(&h.lease, hook), joins(&h.nodes, hook)
	return acquires || hears || requests || leases || fills
}

// joins adds the hook to the hooks of an interface, if it implements that interface.
func joins[H any](all *[]H, hook Hook) bool {
	h, is := hook.(H)
	if is {
		*all = append(*all, h)
	}
	return is
}

func (h *hooks) acquired(ctx context.Context, info AcquireInfo) {
	for _, hook := range h.acquire {
		hook.OnAcquire(ctx, info)
	}
}

// overhear has the stream call the hooks for events.
func (h *hooks) overhear(stream *actors.Stream) {
	if all := h.event; len(all) > 0 {
		stream.Overhear(func(event events.Event) {
			for _, hook := range all {
				hook.OnEvent(event)
			}
		})
	}
}

// configure has the session call the hooks for requests and the lease.
func (h *hooks) configure(cfg *session.Config) {
	if all := h.request; len(all) > 0 {
		cfg.OnRequest = func(r session.Request) {
			for _, hook := range all {
				hook.OnRequest(RequestInfo(r))
			}
		}
	}
	if all := h.lease; len(all) > 0 {
		cfg.OnLease = func(l session.Lease) {
			for _, hook := range all {
				hook.OnLease(LeaseInfo(l))
			}
		}
	}
	if all := h.nodes; len(all) > 0 {
		cfg.OnFill = func(f session.Fill) {
			for _, hook := range all {
				hook.OnNodes(NodesInfo(f))
			}
		}
	}
}
