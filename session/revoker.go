package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
)

// This file is about asking for a lock back. Holders are in revoke.go.

var (
	// ErrNotHeld says that the lock has no holder.
	ErrNotHeld = errors.New("zkgrant: the lock is not held")
	// ErrNotRevocable says that a holder has not agreed to give the lock back.
	ErrNotRevocable = errors.New("zkgrant: a holder has not agreed to give the lock back")
)

// mostAsked bounds the holders that one revocation asks or looks after at a time, as mostLooks bounds the looks.
const mostAsked = 8

// Revoke asks the holders of the lock at the path to give it back within the grace, and returns nil when all of them are gone. It removes a
// holder that is still there five quarters of the session timeout after the grace: the holder's timeout or ours, whichever is longer. It
// does not ask later holders.
//
// Revoke waits for a connection, if there is none, and survives the end of the session, until ctx ends. Then it returns the cause; holders
// that were asked stay asked, and none is removed. The other errors are [ErrNotHeld], [ErrNotRevocable] and [ErrKind], after which no
// holder has heard anything, ErrClosed, and a server's refusal.
func (s *Session) Revoke(ctx context.Context, dir string, grace time.Duration) error {
	e := &eviction{session: s, dir: under(s.chroot, dir), grace: within(grace).grace, room: make(chan struct{}, mostAsked)}
	targets, err := call(ctx, s, terms{urgent: joining}, e.holders)
	if err != nil {
		return err
	}
	return e.await(ctx, targets)
}

// eviction is one call of Revoke.
type eviction struct {
	session *Session
	dir     string // with the chroot
	grace   time.Duration
	room    chan struct{} // has a place for each call under way
}

// await returns when all targets are gone, in a goroutine each, or with the error of the first that fails.
func (e *eviction) await(ctx context.Context, targets []*target) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var targeting sync.WaitGroup
	for _, t := range targets {
		targeting.Go(func() {
			if err := t.follow(ctx); err != nil {
				cancel(err)
			}
		})
	}
	targeting.Wait()
	return context.Cause(ctx)
}

// patience is how long after the grace a holder is removed. Its node names this session timeout, or 0; then ours is taken. The holder
// believes in its lock no longer than that, even if it hears nothing:
//
//  1. It holds for less than a probe interval, and does not watch its node yet.
//  2. The wish is written.
//  3. Its session writes for another lock, which renews its lease.
//  4. Its connection falls silent before the interval is over in which it would have read the wish.
//
// Its lease ends at most a timeout of its own after that. A probe interval is at most a part of the timeout (see [Config]).
func (s *Session) patience(holder time.Duration) time.Duration {
	timeout := max(s.Timeout(), holder)
	return timeout + timeout/probeMin
}

// follow returns when the target is gone.
func (t *target) follow(ctx context.Context) error {
	defer t.leave()
	var last <-chan time.Time
	for again := true; again; again = t.wait(ctx, last) {
		gone, err := t.call(ctx)
		if err != nil || gone {
			return err
		}
		if last == nil {
			last = time.After(time.Until(t.last))
		}
	}
	return context.Cause(ctx)
}

// call looks after the target once, when there is room.
func (t *target) call(ctx context.Context) (gone bool, _ error) {
	select {
	case t.of.room <- struct{}{}:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	defer func() { <-t.of.room }()
	gone, err := call(ctx, t.session, terms{urgent: joining}, t.see)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrClosed) {
		t.session.cfg.Logger.Warn("cannot ask a holder for the lock", t.zapNode(), zap.Error(err))
	}
	return gone, err
}
