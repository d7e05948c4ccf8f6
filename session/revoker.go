package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
)

// This file is about those who want a lock back. Holders are in revoke.go.

var (
	// ErrNotHeld says that nobody holds the lock.
	ErrNotHeld = errors.New("zkgrant: nobody holds the lock")
	// ErrNotRevocable says that a holder has not agreed to give the lock back.
	ErrNotRevocable = errors.New("zkgrant: a holder has not agreed to give the lock back")
)

// mostAsked bounds the holders that one revocation asks or looks after at a time, as mostLooks does looks.
const mostAsked = 8

// Revoke asks whoever holds the lock at the path to give it back within the grace, and returns nil when all of them are gone. Whoever is
// still there when the grace is over, and five quarters of the session timeout behind that, its own or ours, whichever is longer, is
// removed. Who comes to hold it later is not asked.
//
// It waits for a connection, if there is none, and survives the end of the session, until ctx ends: then it returns
// the cause; what was asked is asked, and nobody is removed. The error is that, [ErrNotHeld], [ErrNotRevocable] or [ErrKind], of
// which nobody has heard anything, ErrClosed, or a server's refusal.
func (s *Session) Revoke(ctx context.Context, dir string, grace time.Duration) error {
	e := &eviction{session: s, dir: under(s.chroot, dir), grace: within(grace).grace, room: make(chan struct{}, mostAsked)}
	targets, err := call(ctx, s, terms{urgent: joining}, e.holders)
	if err != nil {
		return err
	}
	return e.await(ctx, targets)
}

// eviction is one wish to have a lock back.
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

// patience is how long behind the grace a holder is removed whose node names this session timeout, or 0. The holder believes in its lock
// for no longer than that, though it hears nothing: 1. it holds for less than a probe interval, and does not watch its node yet; 2. the wish
// is written; 3. its session writes for another lock, which renews its lease; 4. its connection falls silent before the interval is over, in
// which it would have read the wish. Its lease ends up to a timeout of its own behind that. An interval is at most a part of the timeout (see
// [Config]). Of a node without a timeout ours is taken.
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
