package coordinator

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// Election is a handle for an election: a mutex whose holder leads and publishes who it is. It holds nothing, is
// reusable, and is safe for concurrent use.
type Election struct{ lock *Lock }

// Election returns a handle for the election at the path. Candidates lead one at a time, in the order of arrival, each
// until it resigns or loses its term. A term is an [Acquisition], with every promise of a mutex.
//
// On the wire it is a mutex: Curator's LeaderSelector can campaign beside it, its LeaderLatch cannot. kazoo's Election
// can with [AsKazoo]. With [Reentrant] a leader may campaign again with its term's context, and has another term with
// the same node at once. Without, that is [ErrDeadlock].
func (c *Coordinator) Election(path string, options ...LockOption) *Election {
	cfg := lockConfigOf(options)
	return &Election{&Lock{c: c, path: path, family: familyElection.as(cfg), rule: recipes.Mutex{Kazoo: cfg.kazoo}, cfg: cfg}}
}

// Path returns the path that the handle was made with.
func (e *Election) Path() string { return e.lock.path }

// Campaign makes a candidate and returns at once, as [Lock.Acquire] does. The Grant begins the term, Lost ends it, and
// Release resigns or withdraws. [WithData] is what observers are told of the leader, until [Election.Proclaim] replaces
// it.
func (e *Election) Campaign(ctx context.Context, options ...AcquireOption) *Acquisition {
	return e.lock.acquire(ctx, configOf(options))
}

// Terms campaigns, and yields each term after its Grant was taken; [Acquisition.Grant] returns it. The term is released
// when the body ends, and Terms campaigns again, behind all waiters. A break ends it. The body learns of a loss by
// [Acquisition.Context], Lost or Valid, and must then stop; it must not wait for Done. The node stays until the body
// ends, also after a loss.
//
//	for term, err := range c.Election("/service/leader").Terms(ctx, coordinator.WithData(address)) {
//		if err != nil {
//			return err
//		}
//		lead(term.Context(ctx), term.Grant().Token)
//	}
//
// ctx bounds the wait, not a term. The last pair yielded is a nil acquisition and an error: the cause of ctx, the error
// of a campaign such as [ErrClosed], or the servers' refusal of a release. A lost term is not an error. Each loop is a
// candidate of its own.
func (e *Election) Terms(ctx context.Context, options ...AcquireOption) iter.Seq2[*Acquisition, error] {
	return func(yield func(*Acquisition, error) bool) {
		for e.term(ctx, configOf(options), yield) {
		}
	}
}

// term campaigns once and has the body lead. It tells whether to go on.
func (e *Election) term(ctx context.Context, cfg acquireConfig, yield func(*Acquisition, error) bool) (more bool) {
	cfg.keep = true // only the body knows when its work has stopped
	a := e.lock.acquire(ctx, cfg)
	defer a.crash() // if the body panics
	_, err := a.granting()
	var lost *LostError
	if err == nil {
		more = yield(a, nil)
	}
	a.Release()
	switch {
	case err == nil:
		return more && e.goesOn(ctx, a, yield)
	case ctx.Err() != nil: // comes before the loss: the cause may be that of another lock, and would be one for ever
		yield(nil, context.Cause(ctx))
		return false
	case errors.As(err, &lost):
		return true // it was granted for so short a time that nobody could lead
	default:
		yield(nil, err)
		return false
	}
}

// goesOn tells whether to campaign again behind a term. If the servers have refused to remove its node it yields that instead: the
// candidate would wait behind that node.
func (e *Election) goesOn(ctx context.Context, term *Acquisition, yield func(*Acquisition, error) bool) bool {
	end := term.aftermath()
	var lost *LostError
	switch {
	case end == nil, errors.As(end, &lost), errors.Is(end, ErrClosed): // of the last the next campaign tells
		return true
	default:
		yield(nil, errors.Join(context.Cause(ctx), end))
		return false
	}
}

// Proclaim replaces what Observe and Queue tell of the leader, as set with [WithData]. A candidate whose node is gone
// changes nothing, however late the request arrives.
//
// It waits for a connection and the answer, until ctx ends. Its errors are those of [Acquisition.Txn], and
// [ErrNotCandidate] if term is not of this election and coordinator; nothing was sent then. After [ErrOutcomeUnknown]
// the data may have been replaced. The caller may reuse data afterwards.
func (e *Election) Proclaim(ctx context.Context, term *Acquisition, data []byte) error {
	if term == nil || term.lock.c != e.lock.c || term.lock.path != e.lock.path || term.lock.family != e.lock.family {
		return fmt.Errorf("%w: %s", ErrNotCandidate, e.lock.path)
	}
	if err := checkData(data, e.lock.path); err != nil {
		return err
	}
	grant := term.Grant()
	if grant.Node == "" {
		return term.notHeld(grant)
	}
	_, err := term.Txn(ctx, e.lock.c.session.Rewrite(grant.Node, data))
	return err
}

// Queue returns the leader and then the candidates, in order; see [Lock.Queue].
func (e *Election) Queue(ctx context.Context) ([]events.Contender, error) { return e.lock.Queue(ctx) }

// Observe delivers the present leader, and then each change, proclamations included, in order. A Leader without a Node
// means that there is none. Every process may observe. The Token grows from leader to leader. Changes that are not read
// in time merge into the latest. Limitation: the news may be old, so it serves to find the leader, and proves nothing.
//
// Without a connection the last news stands. The channel is closed when ctx ends or the coordinator is closed. It is
// also closed, with a warning in the log, if the path is invalid or a node may not be read; Queue then returns the
// error. Observers of one election share one watch.
func (e *Election) Observe(ctx context.Context) <-chan events.Leader {
	c := e.lock.c
	if err := c.checkPath(e.lock.path); err != nil {
		c.cfg.Logger.Warn("cannot see who leads", zap.String("path", e.lock.path), zap.Error(err))
		none := make(chan events.Leader)
		close(none)
		return none
	}
	return c.session.Observe(ctx, e.lock.path)
}
