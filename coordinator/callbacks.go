package coordinator

import (
	"context"
	"fmt"

	"github.com/zkgrant/zkgrant/events"
)

// Callbacks are what [Election.Run] calls.
type Callbacks struct {
	// OnStartedLeading leads; returning resigns. [FromContext] has the Grant. It must return when its context ends: with a loss, Close, or
	// the context of Run.
	OnStartedLeading func(context.Context)
	// OnStoppedLeading is called once after OnStartedLeading, when the node is gone or no server can be reached. It may be nil.
	OnStoppedLeading func()
	// OnNewLeader gets what [Election.Observe] delivers during Run, one by one. It may be nil.
	OnNewLeader func(events.Leader)
}

// Run campaigns once, and calls OnStartedLeading when it leads. Leadership is given back when that has returned, also after a loss. Run
// then returns what [Lock.Do] does, or the cause of ctx. A campaign that never leads returns its error.
func (e *Election) Run(ctx context.Context, callbacks Callbacks, options ...AcquireOption) error {
	if callbacks.OnStartedLeading == nil {
		return fmt.Errorf("%w: Run without OnStartedLeading, at %s", ErrInvalid, e.lock.path)
	}
	if callbacks.OnNewLeader != nil {
		defer e.announce(ctx, callbacks.OnNewLeader)()
	}
	cfg := configOf(options)
	cfg.keep = true // only the callback knows when its work has stopped
	a, led := e.lock.acquire(ctx, cfg), false
	err := run(ctx, func(term context.Context, _ events.Grant) error {
		led = true
		callbacks.OnStartedLeading(term)
		return context.Cause(ctx)
	}, a)
	if led {
		<-a.Done() // a callback that ends the process leaves no node behind
		if callbacks.OnStoppedLeading != nil {
			callbacks.OnStoppedLeading()
		}
	}
	return err
}

// announce calls the function with each leader until stop is called. stop waits for the last call. Of ctx only the values count:
// Run may go on after the end of ctx.
func (e *Election) announce(ctx context.Context, onNewLeader func(events.Leader)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	leaders, ended := e.Observe(ctx), make(chan struct{})
	go func() {
		defer close(ended)
		for leader := range leaders {
			onNewLeader(leader)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
