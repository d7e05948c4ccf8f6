package bridge

import (
	"context"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
)

// Callbacks are the functions that [Run] calls. They have the shape of the callbacks of
// client-go's leader election.
type Callbacks struct {
	// OnStartedLeading leads until it returns. It must return when its context ends. The
	// context carries the term for [coordinator.FromContext].
	OnStartedLeading func(context.Context)
	// OnStoppedLeading is called once, after OnStartedLeading. It may be nil.
	OnStoppedLeading func()
	// OnNewLeader receives what [coordinator.Election.Observe] delivers. It may be nil.
	OnNewLeader func(coordinator.Leader)
}

// Run campaigns once, calls OnStartedLeading when it leads, and resigns when that
// function returns. It calls OnStoppedLeading once the node is gone, or ctx has ended, or
// the term was lost and no server can be reached. Run returns the error of
// [coordinator.Election.Do], and the cause of ctx if ctx has ended.
func Run(
	ctx context.Context, election *coordinator.Election, callbacks Callbacks, options ...coordinator.AcquireOption,
) error {
	if callbacks.OnStartedLeading == nil {
		return fmt.Errorf("%w: Run without OnStartedLeading: %.256s", coordinator.ErrInvalid, election.Path())
	}
	if callbacks.OnNewLeader != nil {
		defer announce(ctx, election, callbacks.OnNewLeader)()
	}
	var term *coordinator.Acquisition
	err := election.Do(ctx, func(leading context.Context, _ coordinator.Grant) error {
		term, _ = coordinator.FromContext(leading)
		callbacks.OnStartedLeading(leading)
		return context.Cause(ctx)
	}, options...)
	if term != nil {
		select { // wait, so that a callback that ends the process leaves no node
		case <-term.Done():
		case <-ctx.Done(): // Do has waited as long as it may
		}
		if callbacks.OnStoppedLeading != nil {
			callbacks.OnStoppedLeading()
		}
	}
	return err
}

// announce calls the function with each leader until stop is called. stop waits for the
// last call. Only the values of ctx count, because Run may continue after ctx has ended.
func announce(ctx context.Context, election *coordinator.Election, onNewLeader func(coordinator.Leader)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	leaders, ended := election.Observe(ctx), make(chan struct{})
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
