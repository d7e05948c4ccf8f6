package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkgrant/zkgrant/coordinator"
)

// ErrNotLeader reports that this process does not lead.
var ErrNotLeader = errors.New("zkgrant: not the leader")

// Elector reports whether this process leads, while [Elector.Run] runs. It implements
// gocron's Elector.
//
// [OnLost] reports a loss, and from then on IsLeader fails. gocron does not stop a
// running job, so a job takes its context and its fencing token from [Elector.Term].
type Elector struct {
	election *coordinator.Election
	cfg      config

	mu      sync.Mutex
	running bool
	term    *coordinator.Acquisition
	err     error // the error of the last Run
}

// NewElector returns an elector. It becomes a candidate with [Elector.Run].
func NewElector(election *coordinator.Election, options ...Option) *Elector {
	return &Elector{election: election, cfg: configOf(options)}
}

// Run campaigns, leads, and campaigns again after a loss, until ctx ends. Then it
// resigns, so stop the scheduler first. It returns the cause of ctx, or the error of a
// campaign. If Run is already running, it fails with [coordinator.ErrInvalid].
func (e *Elector) Run(ctx context.Context) (err error) {
	e.mu.Lock()
	if e.running {
		e.mu.Unlock()
		return fmt.Errorf("%w: the elector at %s is already running", coordinator.ErrInvalid, e.election.Path())
	}
	e.running, e.err = true, nil
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.running, e.err = false, err
		e.mu.Unlock()
	}()
	for term, err := range e.election.Terms(ctx, e.cfg.acquire...) {
		if err != nil {
			return err
		}
		e.cfg.watch(term) //nolint:contextcheck // a release ends the watch, too, and is no loss
		e.lead(term)
		<-term.Context(ctx).Done()
		e.lead(nil)
	}
	return nil
}

func (e *Elector) lead(term *coordinator.Acquisition) {
	e.mu.Lock()
	e.term = term
	e.mu.Unlock()
}

// Term returns the current term. ok is false if this process does not lead.
func (e *Elector) Term() (term *coordinator.Acquisition, ok bool) {
	e.mu.Lock()
	term = e.term
	e.mu.Unlock()
	if term == nil || !term.Valid() {
		return nil, false
	}
	return term, true
}

// IsLeader returns nil while this process leads. Otherwise it returns [ErrNotLeader],
// with the error of Run if Run has ended. It does not block.
func (e *Elector) IsLeader(context.Context) error {
	if _, leads := e.Term(); leads {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, e.err)
	}
	return ErrNotLeader
}
