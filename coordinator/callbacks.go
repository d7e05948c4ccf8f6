package coordinator

import (
	"context"
	"fmt"

	"github.com/zkgrant/zkgrant/events"
)

// Callbacks are what [Election.Run] calls.
type Callbacks struct {
	// OnStartedLeading leads. Its context ends when the term is lost, when the
	// coordinator is closed, and with the context that Run was given; the work must
	// stop then. To return is to resign. It must not be nil.
	OnStartedLeading func(context.Context)
	// OnStoppedLeading is called once, behind OnStartedLeading, when leadership has
	// been given back: the node is gone, or no server can be reached. It is not
	// called for a candidate that has never led.
	OnStoppedLeading func()
	// OnNewLeader hears from the beginning of Run what [Election.Observe] delivers,
	// this candidate's own terms included. It is called in a goroutine of its own,
	// one call after the other, and Run waits for the last one.
	OnNewLeader func(events.Leader)
}

// Run campaigns once, and calls OnStartedLeading when it leads. It is for programs that are written with callbacks, as for Kubernetes;
// [Election.Terms] leads again and again.
//
// Leadership is given back when OnStartedLeading has returned, and not before: that is so after a loss, too. Run then
// returns nil; after a loss it returns a [*LostError], after Close [ErrClosed], and after the end of ctx its cause.
//
// A campaign that never leads ends with its error, such as the cause of ctx, [ErrClosed] or [ErrPath]. Without
// OnStartedLeading the error is [ErrInvalid]. A panic in OnStartedLeading gives leadership back and goes on,
// and OnStoppedLeading is not called.
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

// announce calls the function with each leader until stop is called, which waits for the last call. ctx gives its values: who leads is
// told for as long as Run runs, which may be longer.
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
