package schedules

import (
	"context"
	"errors"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// Locks that are revoked with a deadline.

// errImpatient is the cause when a worker stops waiting for Revoke.
var errImpatient = errors.New("schedules: asked, and not waited for")

// revocable reports whether all handles are revocable. It depends on the seed
// independently of recipeOf, again and formOf.
func (w *world) revocable() bool {
	return w.recipe != unfair && w.recipe != several && w.seed/128%2 == 1
}

// revoke makes a client revoke a lock. The client gives up before any holder would be
// evicted, so a holder with the request must release by itself, and none is excused.
func (w *world) revoke(r random) {
	life, path := w.victim(r).get(), pick(r, w.paths...)
	if life == nil {
		return
	}
	grace := r.upTo(life.client.timeout)
	w.revoked.add(path)
	held := w.holders(path)
	w.logf("%s: revokes %s within %v", life.client.name, path, grace)
	w.crew.Go(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), grace+life.client.timeout-time.Millisecond, errImpatient)
		defer cancel()
		err := life.Revoke(ctx, path, grace)
		w.logf("%s: revoked %s: %v", life.client.name, path, err)
		switch {
		case err == nil:
			w.count("revoked", 1)
			w.count("held when revoked", len(held))
			for _, t := range held {
				if t.valid() && !w.excused(t) {
					w.failf("%s is revoked, and %d of %s, which held it then, is valid",
						path, t.grant.ID, t.life.client.name)
				}
			}
		case errors.Is(err, errImpatient):
			w.count("revoked in vain", 1)
		case errors.Is(err, coordinator.ErrClosed) && life.closing.Load() != nil, errors.Is(err, coordinator.ErrNotHeld):
		default:
			w.failf("%s: revoking %s: %v", life.client.name, path, err)
		}
	})
}

// overdue fails if the holder counts on its lock beyond the deadline of a revocation:
// Deadline must respect it at once, and Valid from then on, or from the moment of the
// report, if that is later.
func (l *life) overdue(told events.Revoked) {
	if told.Deadline.IsZero() {
		return
	}
	w := l.client.world
	w.count("asked back by a deadline", 1)
	l.each(told.ID, func(r *record) {
		if until := r.a.Deadline(); until.After(told.Deadline) {
			r.failf("Deadline is %v, and it is to be given back by %v", until.Sub(w.begun), told.Deadline.Sub(w.begun))
		}
	})
	time.AfterFunc(max(0, time.Until(told.Deadline)), func() {
		l.each(told.ID, func(r *record) {
			r.expect(!r.a.Valid(), "valid, and was to be given back by %v", told.Deadline.Sub(w.begun))
		})
	})
}

// each calls the function with the life's acquisitions that have this ID.
func (l *life) each(id uint64, do func(*record)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.known {
		if r.id == id {
			do(r)
		}
	}
}
