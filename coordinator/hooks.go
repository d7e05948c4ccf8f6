package coordinator

import (
	"context"
	"fmt"
	"slices"

	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// The methods that a hook may have; see package hooks.
type (
	acquireHook interface {
		OnAcquire(ctx context.Context, info hooks.Acquire)
	}
	eventHook   interface{ OnEvent(event events.Event) }
	requestHook interface{ OnRequest(info hooks.Request) }
	leaseHook   interface{ OnLease(info hooks.Lease) }
	nodesHook   interface{ OnNodes(info hooks.Nodes) }
)

// WithHooks adds hooks for metrics, traces and logs. Package hooks lists the methods that
// a hook may have. If a hook has none, Open fails with [ErrInvalid].
func WithHooks(all ...any) Option {
	return hooksOption{Option: session.OptionFunc(func(*session.Config) {}), all: slices.Clone(all)}
}

// hooksOption is an option that does not concern the session.
type hooksOption struct {
	Option
	all []any
}

// hookSet is a coordinator's hooks, by method.
type hookSet struct {
	acquire []acquireHook
	event   []eventHook
	request []requestHook
	lease   []leaseHook
	nodes   []nodesHook
}

// hooksOf sorts the hooks among the options.
func hooksOf(options []Option) (h hookSet, _ error) {
	for _, o := range options {
		added, _ := o.(hooksOption)
		for _, hook := range added.all {
			if !h.add(hook) {
				return hookSet{},
					fmt.Errorf("%w: a hook of type %T has none of the hook methods", ErrInvalid, hook)
			}
		}
	}
	return h, nil
}

// add adds the hook, and reports whether it has any of the methods.
func (h *hookSet) add(hook any) bool {
	acquires, hears := joins(&h.acquire, hook), joins(&h.event, hook)
	requests, leases, fills := joins(&h.request, hook), joins(&h.lease, hook), joins(&h.nodes, hook)
	return acquires || hears || requests || leases || fills
}

// joins adds the hook to the hooks of an interface, if it implements the interface.
func joins[H any](all *[]H, hook any) bool {
	h, is := hook.(H)
	if is {
		*all = append(*all, h)
	}
	return is
}

// configure makes the session call the hooks for requests, the lease and nodes.
func (h *hookSet) configure(cfg *session.Config) {
	cfg.OnRequest = fan(h.request, func(hook requestHook, r session.Request) {
		hook.OnRequest(hooks.Request(r))
	}, cfg.OnRequest)
	cfg.OnLease = fan(h.lease, func(hook leaseHook, l session.Lease) {
		hook.OnLease(hooks.Lease(l))
	}, cfg.OnLease)
	cfg.OnFill = fan(h.nodes, func(hook nodesHook, f session.Fill) {
		hook.OnNodes(hooks.Nodes(f))
	}, cfg.OnFill)
}

// fan returns a function that calls every hook. If there are no hooks, it returns none.
func fan[H, I any](all []H, call func(H, I), none func(I)) func(I) {
	if len(all) == 0 {
		return none
	}
	return func(info I) {
		for _, hook := range all {
			call(hook, info)
		}
	}
}
