package bridge

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// Service does its work while it leads. It is suture's Service: the supervisor has it campaign again when Serve returns.
//
// A loss ends the context of the work, and Serve returns it.
type Service struct {
	election *coordinator.Election
	work     func(context.Context, events.Grant) error
	cfg      config
}

// NewService returns a service that works while it leads. The context of the work ends with the term, and with the context of Serve. The work
// must return then: until it does, no other candidate gets a term from this one.
func NewService(election *coordinator.Election, work func(context.Context, events.Grant) error, options ...Option) *Service {
	return &Service{election: election, work: work, cfg: configOf(options)}
}

// Serve campaigns once, works while it leads, and resigns. It returns the error of the work, a [*coordinator.LostError] after a loss, the
// cause of ctx, or the error of the campaign. suture counts each return as a failure.
func (s *Service) Serve(ctx context.Context) error {
	if s.work == nil {
		return fmt.Errorf("%w: a service without work, at %s", coordinator.ErrInvalid, s.election.Path())
	}
	var err error
	end := s.election.Run(ctx, coordinator.Callbacks{OnStartedLeading: func(ctx context.Context) {
		term, _ := coordinator.FromContext(ctx)
		s.cfg.watch(term) //nolint:contextcheck // the end of ctx is no loss
		err = s.work(ctx, term.Grant())
	}}, s.cfg.acquire...)
	var lost, told *coordinator.LostError
	switch {
	case errors.As(end, &lost) && errors.As(err, &told) && *told == *lost:
		return err // the work has returned the cause of its context
	case end != nil && errors.Is(err, context.Canceled):
		return end // it says why
	default:
		return errors.Join(end, err)
	}
}

// String names the service in a supervisor's log.
func (s *Service) String() string { return "leader of " + s.election.Path() }
