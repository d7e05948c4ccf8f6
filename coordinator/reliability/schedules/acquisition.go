package schedules

import (
	"context"
	"errors"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// Promise 4: one acquisition and its channels.

// record is the record of one acquisition.
type record struct {
	life      *life
	a         *coordinator.Acquisition
	id        uint64
	path      string
	script    script
	born      time.Time
	ctx       context.Context // the lock's context; nil if it is not checked
	tenure    *tenure         // the Grant that was read
	loss      *events.Lost    // the Lost that was read
	released  bool
	cancelled bool
	cancel    context.CancelCauseFunc // ends the wait
	belated   bool                    // acquired after Close was called, perhaps after it returned

	writer *tenure       // the holder whose context it was acquired with, to take or share its place; nil: none
	known  chan struct{} // closed when it is known whether it was granted; nil without a writer
}

func newRecord(l *life, path string, s script, a *coordinator.Acquisition) *record {
	r := &record{life: l, a: a, id: a.ID(), path: path, script: s, born: time.Now(), belated: l.closing.Load() != nil}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = append(l.known, r) // for the comparison with the stream
	return r
}

func (r *record) failf(format string, args ...any) {
	r.life.client.world.failf("%d of %s: "+format, append([]any{r.id, r.life.client.name}, args...)...)
}

// expect is failf unless the condition holds.
func (r *record) expect(holds bool, format string, args ...any) {
	if !holds {
		r.failf(format, args...)
	}
}

func (r *record) granted(grant events.Grant) {
	if r.tenure != nil || r.released {
		r.failf("granted again, or after Release: %+v", grant)
		return
	}
	w := r.life.client.world
	r.expect(grant.ID == r.id && grant.Path == r.path && w.holds(r.path, grant.Node) && grant.Token != 0,
		"granted %+v, want the id %d, the path %s, a node that is there, and a token", grant, r.id, r.path)
	r.expect(grant.Turn == 0 || w.recipe == cached, "granted turn %d, want 0: it is not cached", grant.Turn)
	r.expect(r.life.client.isKazoos(grant.Node),
		"granted with the node %s, want a name of the form that the client has", grant.Node)
	r.tenure = newTenure(r.life, r.path, r.script.side, grant, r.born, r.a.Valid)
	r.tenure.quick = r.script.late == 0
	r.tenure.permits = r.script.permits
	if r.writer != nil && r.writer.tookPlace(grant) {
		r.tenure.root = r.writer.root
		again := r.writer.side == r.script.side
		w.count(map[bool]string{true: "granted again", false: "downgraded"}[again], 1)
		r.expect(r.writer.grant.Token == grant.Token && (!again || r.writer.grant.Node == grant.Node),
			"granted %+v inside of %+v, want the same token, and the same node unless it reads there",
			grant, r.writer.grant)
	}
	r.tenure.begin()
	r.isKnown()
}

// isKnown lets the writer that waits for known continue.
func (r *record) isKnown() {
	if r.known != nil {
		close(r.known)
		r.known = nil
	}
}

func (r *record) lost(lost events.Lost) {
	r.expect(!r.a.Valid(), "valid after the loss")
	r.expect(r.loss == nil, "lost again")
	r.loss = &lost
	if r.tenure == nil {
		r.failf("lost without a Grant: %+v", lost)
		return
	}
	token, is := r.tenure.grant.Token, errors.As(lost.Err, new(*coordinator.LostError))
	r.expect(lost.Token == token && lost.ID == r.id && is,
		"lost %+v, want the id %d, the token %x and a LostError", lost, r.id, token)
	r.tenure.end("lost", lost.Reason)
}

func (r *record) release() {
	if r.tenure != nil {
		r.tenure.end("released", 0)
	}
	r.released = true
	r.a.Release()
	r.empty("after Release")
	if r.ctx == nil {
		return
	}
	select {
	case <-r.ctx.Done():
	case <-time.After(time.Millisecond): // an earlier loss ends the context, which may take a moment
		r.failf("the context lives after Release")
	}
}

// empty fails if anything suggests that the lock is held.
func (r *record) empty(when string) {
	select {
	case grant := <-r.a.Granted():
		r.failf("%+v can be read %s, want nothing", grant, when)
	default:
	}
	valid, until := r.a.Valid(), r.a.Deadline()
	r.expect(!valid && until.IsZero(), "valid %s: %v, until %v; want neither", when, valid, until)
}

// done is called once Done is closed, which is the last thing to happen.
func (r *record) done() {
	w := r.life.client.world
	defer r.isKnown()
	err := r.a.Err()
	w.logf("%d of %s: done, %v", r.id, r.life.client.name, err)
	select {
	case lost := <-r.a.Lost():
		r.lost(lost)
	default:
	}
	r.empty("after Done")
	if r.tenure != nil {
		r.tenure.end("done", 0)
	}
	r.isOver(err)
	var lost *coordinator.LostError
	switch {
	case errors.As(err, &lost):
		w.count("ended: lost", 1)
		r.expect(r.tenure == nil || r.loss != nil, "ended with %v, and no Lost was read", err)
	case r.loss != nil:
		r.failf("ended with %v after a loss", err)
	case errors.Is(err, coordinator.ErrClosed):
		w.count("ended: closed", 1)
		r.expect(r.life.closing.Load() != nil, "closed, and the coordinator is not")
	case err == nil:
		w.count("ended: released", 1)
		granted := r.tenure != nil
		r.expect(r.released && granted, "ended without an error, released %v, granted %v", r.released, granted)
	case r.tenure != nil:
		r.failf("held, and ended with %v", err)
	case errors.Is(err, coordinator.ErrKind) && r.life.client.mayBeRefused():
		w.count("ended: a contender that kazoo does not see", 1)
	case r.writer != nil && (errors.Is(err, coordinator.ErrNotAcquired) || errors.Is(err, coordinator.ErrReleased)):
		w.count("ended: the place is gone", 1)
	case errors.Is(err, coordinator.ErrNotAcquired):
		w.count("ended: not acquired", 1)
		r.expect(r.released || r.script.try, "ended with %v", err)
	case errors.Is(err, coordinator.ErrTimeout) && r.script.maxWait > 0:
		w.count("ended: timeout", 1)
	case errors.Is(err, coordinator.ErrNoSession) && r.script.try:
		w.count("ended: no session", 1)
	case errors.Is(err, errEnough) && r.cancelled:
		w.count("ended: cancelled", 1)
	default:
		r.failf("ended with %v", err)
	}
	if r.ctx != nil {
		r.judgeContext(err)
	}
}

func (r *record) judgeContext(err error) {
	cause := context.Cause(r.ctx)
	var lost, because *coordinator.LostError
	switch {
	case cause == nil:
		r.failf("the context lives after Done")
	case r.released && errors.Is(cause, coordinator.ErrReleased): // after a Release, that is the cause, granted or not
	case errors.As(err, &lost) && errors.As(cause, &because) && *lost == *because:
	case err == nil || !errors.Is(cause, err):
		r.failf("the context ended with %v, the acquisition with %v", cause, err)
	}
}
