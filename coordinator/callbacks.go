package coordinator

import (
	"context"
	"fmt"

	"github.com/zkgrant/zkgrant/events"
)

// Callbacks are what [Election.Run] calls.
type Callbacks struct {
	// OnStartedLeading leads until it returns. It must return when its context ends.
	OnStartedLeading func(context.Context)
	// OnStoppedLeading is called once after OnStartedLeading. It may be nil.
	OnStoppedLeading func()
	// OnNewLeader gets what [Election.Observe] delivers. It may be nil.
	OnNewLeader func(events.Leader)
}

// Run campaigns once, calls OnStartedLeading when it leads, and resigns when that has returned. It
// returns what [Lock.Do] does.
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
