package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// Acquisition is one request to hold a lock, from Acquire to Done. Its methods are safe
// for concurrent use. Those with a context may block, except Context.
type Acquisition struct {
	id    uint64
	lock  *Lock
	seat  *session.Seat // of the node, which may be another acquisition's; nil: a cached lock's node
	actor *actors.Lock

	// The neighbours at its path. The mutex of the coordinator's live guards them.
	earlier, later *Acquisition
}

// ID returns the acquisition's number in events, unique in the process.
func (a *Acquisition) ID() uint64 { return a.id }

// Granted delivers the Grant. The channel is buffered and never closed. An untaken Grant
// is withdrawn when the acquisition ends.
func (a *Acquisition) Granted() <-chan events.Grant { return a.actor.Granted() }

// Grant returns the Grant, or the zero Grant before there is one. It does not take the
// Grant, and the lock may be lost.
func (a *Acquisition) Grant() events.Grant {
	grant, _, _ := a.actor.Tenure()
	return grant
}

// Lost delivers the loss of a Grant that was taken, before another contender can hold the
// lock. The channel is buffered and never closed, so wait for Done as well.
func (a *Acquisition) Lost() <-chan events.Lost { return a.actor.Lost() }

// Revoked delivers a request to release a [Revocable] lock, with its deadline if it has
// one. The channel holds one request and is never closed; a newer one with less time
// replaces it.
func (a *Acquisition) Revoked() <-chan events.Revoked { return a.actor.Revoked() }

// Done is closed last, when nothing is held. After a Release the node is gone by then,
// unless the lock is [Cached] or was re-entered, or the servers refuse the delete or
// cannot be reached.
func (a *Acquisition) Done() <-chan struct{} { return a.actor.Done() }

func (a *Acquisition) isDone() bool {
	select {
	case <-a.Done():
		return true
	default:
		return false
	}
}

// Err returns nil before Done, and after the release of a held lock. Otherwise it returns
// [ErrNotAcquired] after a release before the Grant was taken, the cause of the context
// that ended the wait, a [*LostError] after a loss, or another error.
func (a *Acquisition) Err() error { return a.actor.Err() }

// Release releases the lock, or leaves the queue. It may be called in any state, more
// than once. After it returns, no Grant can be taken.
func (a *Acquisition) Release() { a.actor.Withdraw(recipes.WhyReleased) }

// ReleaseAndWait releases the lock, waits until the servers confirm it, and returns Err;
// after a loss, or for a [Cached] lock, it returns at once. If ctx ends first, or Close
// gets no answer, it returns [ErrReleasePending] with the cause. It may be repeated.
func (a *Acquisition) ReleaseAndWait(ctx context.Context) error {
	a.Release()
	// The end is known by now, although the event of a loss may not be in the channel
	// yet.
	end := a.actor.Ending()
	// After a loss there is nothing to wait for, because a refused release is not
	// reported. The error does not show whose loss it is: a waiter whose context ends
	// with another lock has that lock's.
	if a.actor.TakenAway() {
		return end
	}
	pending := func(cause error) error {
		return joined(end, fmt.Errorf("%w: %s: %w", ErrReleasePending, a.lock.path, cause))
	}
	for _, event := range [...]func() <-chan struct{}{a.actor.Done, a.actor.Confirmed} {
		if !happens(ctx, event()) {
			return pending(context.Cause(ctx))
		}
	}
	c := a.lock.c
	orphaned, record := a.actor.Orphaned() // by Close, which may get no answer
	if orphaned && !happens(ctx, c.parted) {
		return pending(context.Cause(ctx))
	}
	if orphaned && (c.unconfirmed || record) {
		return pending(ErrClosed)
	}
	return a.Err()
}

// happens waits for an event until ctx ends. An event that has happened already counts
// even if ctx has ended, too.
func happens(ctx context.Context, event <-chan struct{}) bool {
	select {
	case <-event:
		return true
	default:
	}
	select {
	case <-event:
		return true
	case <-ctx.Done():
		return false
	}
}

// giveBack is like ReleaseAndWait, for a caller whose work under the lock is done. If ctx
// has ended already, as after a SIGTERM, the servers get one probe interval to confirm
// the release, and it is no error if they do not.
func (a *Acquisition) giveBack(ctx context.Context) error {
	if ctx.Err() == nil {
		return a.ReleaseAndWait(ctx)
	}
	c := a.lock.c
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.session.Interval())
	defer cancel()
	err := a.ReleaseAndWait(bounded)
	if errors.Is(err, ErrReleasePending) {
		c.cfg.Logger.Warn("lock released; the servers have not confirmed it yet",
			zap.String("path", a.lock.path), zap.Uint64("id", a.id))
		return nil
	}
	return err
}

// Abandon is Release with the work unfinished: with [DetectCrash], the next Grant reports
// a crash. After Release, it does nothing.
func (a *Acquisition) Abandon() { a.actor.Withdraw(recipes.WhyPanicked) }

// Valid reports whether the lock is held now: within its lease, and before a revocation's
// deadline.
func (a *Acquisition) Valid() bool { return a.actor.Valid() }

// Deadline returns the time until which the lock is safe without further contact with the
// servers, or the zero time if it is not held. Writes of the session extend it.
func (a *Acquisition) Deadline() time.Time { return a.actor.Deadline() }

// Position returns how many contenders were ahead of a waiter at its latest listing. ok
// is false before the first, and after the wait.
func (a *Acquisition) Position() (ahead int, ok bool) { return a.actor.Position() }

// Wait waits for the Grant and takes it. While the lock is held, every call returns the
// Grant at once. If ctx ends first, Wait returns the cause, and the acquisition
// continues. After the end it returns Err, or [ErrReleased].
func (a *Acquisition) Wait(ctx context.Context) (events.Grant, error) {
	grant, held, err := a.actor.Wait(ctx)
	if held {
		return grant, nil
	}
	return events.Grant{}, cmp.Or(err, ErrReleased)
}

// granting waits for the Grant and takes it. It does not wait for ctx, which bounds the
// acquisition already, because it could then fail although there is a Grant. It does not
// wait for Done either, which needs an answer of the servers.
func (a *Acquisition) granting() (events.Grant, error) {
	ended := make(chan error, 1)
	forget := a.actor.OnEnd(func(end error) { ended <- end })
	select {
	case grant := <-a.Granted():
		forget()
		return grant, nil
	case err := <-ended:
		return events.Grant{}, cmp.Or(err, ErrReleased)
	}
}

// Context returns a child of parent that ends with the lock; its cause is a [*LostError],
// [ErrReleased], or what Err returns. While the lock is held, acquiring it with this
// context re-enters it if the handle is [Reentrant], and ends with [ErrDeadlock] if not.
func (a *Acquisition) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	forget := a.actor.OnEnd(func(err error) {
		if err == nil {
			err = ErrReleased
		}
		cancel(err)
	})
	context.AfterFunc(ctx, forget) // of ctx, not parent, which may outlive any number of locks
	return context.WithValue(ctx, ownerKey{}, &owner{a, ownerOf(parent)})
}

// FromContext returns the innermost acquisition that ctx carries, as in [Lock.Do]; see
// [Acquisition.Context].
func FromContext(ctx context.Context) (*Acquisition, bool) {
	o := ownerOf(ctx)
	if o == nil {
		return nil, false
	}
	return o.acquisition, true
}

// Disown returns a child of ctx that holds no lock: an Acquire with it queues like any
// other. It still ends with ctx's lock; [context.WithoutCancel] prevents that.
func Disown(ctx context.Context) context.Context {
	if ownerOf(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, (*owner)(nil))
}

// ownerOfActor is the Acquisition as its actor sees it.
type ownerOfActor Acquisition

var _ actors.Owner = (*ownerOfActor)(nil)

// Explain turns the end of an acquisition into what Err returns.
func (o *ownerOfActor) Explain(end actors.End) error {
	l, path := o.lock, o.lock.path
	switch end.Why {
	case recipes.WhyReleased, recipes.WhyPanicked:
		if end.Granted {
			return nil
		}
		return ErrNotAcquired
	case recipes.WhyBusy:
		if o.seat != nil {
			if holder, ok := o.seat.Holder(); ok {
				return fmt.Errorf("%w: %w", ErrNotAcquired, &events.HeldError{Path: path, Holder: holder})
			}
		}
		return ErrNotAcquired
	case recipes.WhyContext:
		return end.Cause
	case recipes.WhyNoSession:
		// A Try without an answer within the caller's MaxWait is a timeout, too, so that
		// a caller with MaxWait has one error to check for.
		if end.Cause != nil {
			return fmt.Errorf("%w; %w", ErrTimeout, ErrNoSession)
		}
		return fmt.Errorf("%w: %s", ErrNoSession, path)
	case recipes.WhyTimeout:
		// The error says whether the lock was busy or the servers were silent.
		if !l.c.session.Answers() {
			return fmt.Errorf("%w; %w", ErrTimeout, ErrNoSession)
		}
		return ErrTimeout
	case recipes.WhyClosed:
		return ErrClosed
	case recipes.WhyLost:
		return &LostError{Path: path, Reason: end.Reason}
	case recipes.WhySequenceEnd:
		return fmt.Errorf("%w: %s", ErrSequenceEnd, path)
	case recipes.WhyMixed:
		return fmt.Errorf("%w: %s has a contender that kazoo does not see", ErrKind, path)
	case recipes.WhySizeMismatch, recipes.WhyPermits:
		return l.explainSize(end)
	default:
		if errors.Is(end.Cause, session.ErrGuard) {
			return fmt.Errorf("%w: %s: the write lock is no longer held, and its place is lost",
				ErrNotAcquired, path)
		}
		cause := end.Cause
		if at := (*session.MemberError)(nil); errors.As(cause, &at) {
			cause = &MemberError{at.Path, cause}
		}
		return fmt.Errorf("zkgrant: lock %s: %w", path, cause)
	}
}

// Gone removes the acquisition from the coordinator's books.
func (o *ownerOfActor) Gone() { o.lock.c.live.leave((*Acquisition)(o)) }

// owner is the chain of acquisitions that a context carries.
type owner struct {
	acquisition *Acquisition
	next        *owner
}

// carries reports whether the chain has the acquisition.
func (o *owner) carries(a *Acquisition) bool {
	for ; o != nil; o = o.next {
		if o.acquisition == a {
			return true
		}
	}
	return false
}

type ownerKey struct{}

func ownerOf(ctx context.Context) *owner {
	o, _ := ctx.Value(ownerKey{}).(*owner)
	return o
}

// standing returns what the context already holds of the lock: owners that can be
// re-entered, the innermost first, or a writer whose place a reader may take. It fails if
// the caller would wait for itself.
func (l *Lock) standing(ctx context.Context) (owners []*Acquisition, writer *session.Seat, _ error) {
	if m := l.members; m != nil {
		return nil, nil, m.standing(ctx)
	}
	semaphore, _ := l.rule.(recipes.Semaphore)
	permits := int64(semaphore.Permits)
	// Look at all of the context's acquisitions, the innermost first: that one may have
	// ended while an outer one still holds the lock.
	var deadlock error
	for o := ownerOf(ctx); o != nil; o = o.next {
		held := o.acquisition
		at := held.lock.at(l.path)
		switch {
		case held.lock.c != l.c || at == nil || !held.actor.Holding():
		case !at.isOfKind(l): // it would use the path as two kinds of lock
			return nil, nil, fmt.Errorf("%w: %s is used as %s in this context, not as %s",
				ErrKind, l.path, at.usedAs(), l.usedAs())
		case held.lock.permits() > 0 && permits > 0: // they add up
			if !o.next.carries(held) { // a context may carry it more than once
				permits += int64(held.lock.permits())
			}
		case l.cfg.reentrant && held.lock.rule == l.rule:
			owners = append(owners, held)
		case writer != nil || deadlock != nil: // the innermost holder has decided
		case held.lock.rule == recipes.Rule(recipes.Write{}) && l.rule == recipes.Rule(recipes.Read{}):
			writer = held.seat
		default:
			deadlock = l.deadlockWith(at)
		}
	}
	// Only the servers know the size of a semaphore with AdoptSize.
	if permits > int64(semaphore.Size) && !semaphore.Adopt {
		deadlock = fmt.Errorf("%w: the context would hold %d permits of %s, which has %d",
			ErrDeadlock, permits, l.path, semaphore.Size)
	}
	if deadlock != nil && owners == nil {
		return nil, nil, deadlock
	}
	return owners, writer, nil
}

// deadlockWith returns the error of a caller that would wait for a lock that its own
// context holds. It names the way out if there is one.
func (l *Lock) deadlockWith(held *Lock) error {
	if held.rule.Kind().Reads() && !l.rule.Kind().Reads() {
		return fmt.Errorf("%w for reading: %s: write with Acquisition.Txn and a check of the version that was read, "+
			"or release the read lock before acquiring the write lock", ErrDeadlock, l.path)
	}
	return fmt.Errorf("%w: %s", ErrDeadlock, l.path)
}
