package coordinator

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// Election is the [Handle] of an election: a mutex whose holder leads.
type Election struct{ lock *Lock }

// Election returns a handle for the election at the path. Candidates lead one at a time,
// in order of arrival. In ZooKeeper it is a mutex.
func (c *Coordinator) Election(path string, options ...LockOption) *Election {
	cfg := lockConfigOf(options)
	return &Election{c.handle(path, kindElection, recipes.Mutex{Kazoo: cfg.kazoo}, cfg)}
}

// Path returns the path.
func (e *Election) Path() string { return e.lock.path }

// Acquire adds a candidate; see [Lock.Acquire]. The Grant begins the term, Lost ends it,
// and Release resigns or withdraws. Observers see the [Data].
func (e *Election) Acquire(ctx context.Context, options ...AcquireOption) *Acquisition {
	return e.acquire(ctx, configOf(options))
}

func (e *Election) acquire(ctx context.Context, cfg acquireConfig) *Acquisition {
	return e.lock.acquire(ctx, cfg)
}

// Do campaigns once, runs f while leading, and resigns; see [Lock.Do].
func (e *Election) Do(ctx context.Context, f func(context.Context, events.Grant) error,
	options ...AcquireOption) error {
	return do(ctx, e, f, options)
}

// Terms yields one term after another, with the Grant taken. It releases each term when
// the body ends, even after a loss, and queues again. The body must stop when
// [Acquisition.Context] ends, and must not wait for Done. After a body of less than a
// second without a loss, Terms pauses for at most 10 s.
//
// ctx bounds the waits, not a term. The last pair is a nil acquisition and an error: that
// of an acquisition or a release, or the cause of ctx. A lost term is no error.
func (e *Election) Terms(ctx context.Context, options ...AcquireOption) iter.Seq2[*Acquisition, error] {
	return func(yield func(*Acquisition, error) bool) {
		var terms recipes.Terms
		for e.term(ctx, configOf(options), &terms, yield) {
		}
	}
}

// term campaigns once and runs the loop body as the leader. It reports whether to
// continue.
func (e *Election) term(
	ctx context.Context, cfg acquireConfig, terms *recipes.Terms, yield func(*Acquisition, error) bool,
) (more bool) {
	cfg.keep = true // only the body knows when its work has stopped
	a := e.lock.acquire(ctx, cfg)
	defer a.Abandon() // if the body panics
	_, err := a.granting()
	began := time.Now()
	var lost *LostError
	if err == nil {
		more = yield(a, nil)
	}
	a.Release() // also if the body breaks; does not wait
	switch {
	case err == nil && !more:
		return false
	case err == nil:
		lasted, end := time.Since(began), a.giveBack(ctx)
		return e.goesOn(ctx, end, yield) &&
			e.pause(ctx, terms.Ended(lasted, errors.As(end, &lost), rand.Float64()), yield)
	case ctx.Err() != nil: // before the loss: if the cause is another lock's loss, Terms would retry forever
		yield(nil, context.Cause(ctx))
		return false
	case errors.As(err, &lost):
		return true // lost before the term began
	default:
		yield(nil, err)
		return false
	}
}

// goesOn reports whether to campaign again after a term with this end. If the servers
// refused to delete its node, goesOn yields that error instead, because the candidate
// would wait for its own node.
func (e *Election) goesOn(ctx context.Context, end error, yield func(*Acquisition, error) bool) bool {
	var lost *LostError
	switch {
	case errors.Is(end, ErrReleasePending): // ErrClosed may be its cause
	case end == nil, errors.As(end, &lost), errors.Is(end, ErrClosed): // the next campaign reports ErrClosed
		return true
	}
	yield(nil, joined(context.Cause(ctx), end))
	return false
}

// pause waits before the next campaign, and reports whether to make it. If the
// coordinator is closed, it returns early, and the campaign reports that.
func (e *Election) pause(ctx context.Context, d time.Duration, yield func(*Acquisition, error) bool) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.lock.c.open.Done():
	case <-ctx.Done():
		yield(nil, context.Cause(ctx))
		return false
	}
	return true
}

// Queue returns the leader and then the candidates, in order; see [Lock.Queue].
func (e *Election) Queue(ctx context.Context) ([]events.Contender, error) { return e.lock.Queue(ctx) }

// Observe delivers the current leader, and then each change in order. A Leader without a
// Node means that there is none. A slow reader gets only the latest change, which may
// be stale. The channel is closed like that of [Lock.Watch].
func (e *Election) Observe(ctx context.Context) <-chan events.Leader {
	c := e.lock.c
	if err := cmp.Or(c.checkPath(e.lock.path), e.lock.checkOptions()); err != nil {
		c.cfg.Logger.Warn("cannot read the election's leader", zap.String("path", e.lock.path),
			zap.Error(err))
		none := make(chan events.Leader)
		close(none)
		return none
	}
	return c.session.Observe(ctx, e.lock.path)
}
