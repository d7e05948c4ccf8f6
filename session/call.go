package session

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/budget"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// This file makes calls of the client for callers that wait, and follows their requests.

// callOptions says how to make a call.
type callOptions struct {
	epoch  recipes.Epoch // only in this epoch; 0: in any
	once   bool          // do not repeat it once it may have been executed
	urgent urgency
	seat   *Seat // the seat that owns the nodes it depends on, or nil
	txn    *txn  // what it does to nodes of the session; nil: nothing
}

// call runs do in a separate goroutine, with a client of the session, while there is a
// connection. If the connection is lost, or a server turns the request away for the
// moment, do runs again.
//
// call returns what do returned last. If ctx ends first, it returns the cause at once; do
// may still be running, but does not run again. If do could not complete, the error is
// ErrClosed or, with an epoch, ErrEpochOver. With once, it may be ErrOutcomeUnknown,
// wrapped with the cause.
func call[T any](ctx context.Context, s *Session, o callOptions, do func(*client) (T, error)) (T, error) {
	var answer, none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	c := &callRequest{slot: slot{epoch: o.epoch}, callOptions: o, ctx: ctx, outcome: make(chan error, 1)}
	c.run = func(with *client) (err error) {
		answer, err = do(with)
		return err
	}
	if !s.submit(c) { // the session has ended
		return none, c.tooLate()
	}
	select {
	case err := <-c.outcome:
		return answer, err
	case <-ctx.Done():
	}
	was := c.stage.Swap(stageLeft)
	select {
	case err := <-c.outcome: // it came at the same time as the end of ctx
		return answer, err
	default:
	}
	// The request of a caller that gave up must not be made on the next connection.
	if was == stageParked {
		s.loop.Post(func() { s.drop(c) })
	} else if o.once {
		// It is in progress and may still be executed, so it must not be reported as
		// undone.
		return none, fmt.Errorf("%w: %w", ErrOutcomeUnknown, context.Cause(ctx))
	}
	return none, context.Cause(ctx)
}

// verdict is an error that ends the call, even one that a call would otherwise retry.
type verdict struct{ error }

// The stages of a call. The request's goroutine and the caller both change the stage, and
// the first one wins. If the caller leaves while the request waits, it is not made; if
// the caller leaves while it is in progress, it is not repeated.
const (
	stageParked int32 = iota
	stageUnderWay
	stageLeft
)

// callRequest is the request of a call.
type callRequest struct {
	slot
	callOptions

	ctx     context.Context // the caller's
	run     func(*client) error
	rests   bool // it depends on the seat's node; see [single.rest]
	stage   atomic.Int32
	outcome chan error // size 1
}

var _ request = (*callRequest)(nil)

func (r *callRequest) admit(s *Session) {
	if r.seat != nil && r.seat.single != nil && !r.rests {
		if r.rests = r.seat.single.rest(s, r.seat); !r.rests {
			r.outcome <- ErrGuard
			return
		}
	}
	if r.txn != nil && r.txn.begun == nil {
		if (r.load(s) == budget.Load{}) {
			r.enter(s) // it may make room, so it must not wait for any
		} else {
			s.seek(r)
		}
		return
	}
	s.pending.add(r)
}

// onEnd is called when the request is answered, or its caller no longer waits.
func (r *callRequest) onEnd(s *Session) {
	if r.txn != nil {
		r.txn.end(s)
	}
	if r.rests {
		r.rests = false
		r.seat.single.unrest(s)
	}
}

func (r *callRequest) urgency() urgency { return r.urgent }

func (r *callRequest) refuse(s *Session) {
	r.outcome <- r.tooLate()
	r.onEnd(s)
}

// tooLate returns the error of a call that was refused.
func (o callOptions) tooLate() error {
	if o.epoch != 0 {
		return ErrEpochOver
	}
	return ErrClosed
}

func (r *callRequest) do(c *client) (func(*Session), error) {
	if !r.stage.CompareAndSwap(stageParked, stageUnderWay) {
		return r.onEnd, nil
	}
	err := r.run(c)
	if v, ok := err.(verdict); ok { //nolint:errorlint // it is never wrapped
		return func(s *Session) {
			r.outcome <- v.error
			r.onEnd(s)
		}, nil
	}
	outcome, err := zkerr.Classify(err)
	return func(s *Session) { r.settle(s, c, outcome, err) }, err
}

func (r *callRequest) settle(s *Session, c *client, outcome zkerr.Outcome, err error) {
	switch {
	case !r.once && r.ctx.Err() != nil: // what was read may be incomplete
		err = context.Cause(r.ctx)
	case outcome == zkerr.TurnedAway, outcome == zkerr.Unknown && !r.once:
		if r.stage.CompareAndSwap(stageUnderWay, stageParked) {
			s.again(c, r)
			return
		}
	case outcome == zkerr.Unknown:
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	r.outcome <- err
	r.onEnd(s)
}

// drop removes a request whose caller has stopped waiting.
func (s *Session) drop(r *callRequest) {
	s.pending.remove(r)
	s.leaveRoom(r)
	r.onEnd(s)
}

// The rest of the file is shared by all calls of the client: above all, what an answer
// means.

// anyVersion makes the server ignore the version.
const anyVersion = recipes.AnyVersion

// maxTries limits the attempts to create something that others keep deleting.
const maxTries = recipes.Tries

// unanswered returns the answer to a single request that failed.
func unanswered(epoch recipes.Epoch, op recipes.Op, err error) (recipes.Input, error) {
	outcome, err := zkerr.Classify(err)
	return classified(epoch, op, outcome, err)
}

// classified returns the answer to a request that was refused, or whose outcome is
// unknown.
func classified(epoch recipes.Epoch, op recipes.Op, outcome zkerr.Outcome, err error) (recipes.Input, error) {
	if !outcome.Settled() {
		return recipes.Unknown{Epoch: epoch, Op: op}, err
	}
	return recipes.Refused{Epoch: epoch, Op: op, Missing: errors.Is(err, zk.ErrNoNode)}, otherKind(err)
}

// otherKind wraps the error of a create below an unfair lock's node.
func otherKind(err error) error {
	if errors.Is(err, zk.ErrNoChildrenForEphemerals) {
		return fmt.Errorf("%w: %w", ErrKind, err)
	}
	return err
}

// notOwn returns the answer to a request that failed because of a node other than the
// seat's own. It does not report the seat's node missing.
func notOwn(in recipes.Input, err error) (recipes.Input, error) {
	if refused, ok := in.(recipes.Refused); ok {
		refused.Missing = false
		in = refused
	}
	return in, err
}

// barrier makes a write through the quorum that changes nothing. A missing directory
// counts, too: that is the quorum's answer.
func (c *client) barrier(dir string) (zkerr.Outcome, error) {
	check := &zk.CheckVersionRequest{Path: dir, Version: anyVersion}
	outcome, _, err := zkerr.ClassifyMulti(c.conn.Multi(check))
	if errors.Is(err, zk.ErrNoNode) {
		return zkerr.Done, nil
	}
	return outcome, err
}

// check is a claim for the session's own use. It returns nil if the node exists.
func (c *client) check(node string) error {
	_, _, err := zkerr.ClassifyMulti(c.conn.Multi(&zk.CheckVersionRequest{Path: node, Version: anyVersion}))
	return err
}
