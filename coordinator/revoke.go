package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/session"
)

var (
	// ErrNotHeld says that a lock that was to be revoked is held by nobody.
	ErrNotHeld = session.ErrNotHeld
	// ErrNotRevocable says that a lock that was to be revoked is held by somebody who has not agreed to that; see [Revocable].
	ErrNotRevocable = session.ErrNotRevocable
	// ErrGrace says that the time to give a lock back is none.
	ErrGrace = session.Sentinel("zkgrant: negative grace", ErrInvalid)
	// ErrData says that a node cannot have these data, because they would be taken for the wish to have the lock back: they
	// begin with `__REVOKE__`.
	ErrData = session.Sentinel("zkgrant: reserved data", ErrInvalid)
)

// Revocable lets anybody ask for the lock back, with [Coordinator.Revoke], who may write to its nodes. Whoever holds it is told by
// [Acquisition.Revoked] and in the stream of events, which say by when, and has until then to come to an end and release it. If he has not by then
// it is lost: Lost comes with [events.ReasonRevoked] ([ErrRevoked]) and, as with any loss, the contexts are cancelled and the node is given
// up; with [Lock.Do] that waits for the function to return.
//
// Who enters the lock again (see [Reentrant]) shares its node, and with it the deadline: every acquisition is told, and loses it then. What
// counts is the option of the handle that the node was made with.
//
// The lock's nodes name the timeout of their session in a line behind the data, `zkgrant-timeout 10000ms`. This library does not show it to
// anybody, and other ones do. The line is missing from nodes of other libraries and of earlier versions, and once Curator's Revoker has
// overwritten it.
//
// For a mutex, each side of a read/write lock, a semaphore and an election. A multi-lock is revocable if each of its members is.
// An unfair lock with the option is [ErrKind].
func Revocable() LockOption { return lockOption(func(c *lockConfig) { c.revocable = true }) }

// Revoke asks whoever holds the lock at the path to give it back within the grace, and returns nil when all of them are gone: one
// holder, or a lock's readers, or all who hold permits of a semaphore, in this process or another one. Any coordinator may ask. Who
// comes to hold the lock after that was not asked, so it may be held by somebody else by then.
//
// A holder that was made with [Revocable] is told by [events.Revoked], and loses the lock at the end of the grace if it still
// has it. The grace runs by its own clock, from when it hears of the wish. What it stored with [WithData] or [Election.Proclaim] stays. A node that is
// still there when the grace is over, and five quarters of a session timeout as well, the holder's or this coordinator's, whichever is longer, is
// removed: the holder's process hangs, or its function does not return, or it is cut off. In the last case its lease has run out by then.
// Limitation: a timeout that the node does not say (see [Revocable]) counts as no longer than this coordinator's. The holder hears of
// its removal, if it hears of anything, as [events.ReasonNodeRemoved], unless its own time was over before. A holder who has not agreed to
// that is not asked, and neither is anybody else: [ErrNotRevocable]. A multi-lock that is the first here and waits at another path counts as
// a holder: it hears of the wish with its Grant, and if there is none before it would be removed, it loses its places, and queues up anew.
//
// Holders of other libraries are asked as Curator's Revoker asks: `__REVOKE__` takes the place of the node's data. Curator's InterProcessMutex
// hears it if it was told to, with makeRevocable. Whoever does not hear it is removed at the end as well, which is the end of
// his lock, and he need not notice: Curator's, go-zookeeper's and kazoo's locks do not watch their own nodes.
//
// To ask again, also at the same time, is harmless: the wish that leaves the least time counts. A grace of 0 is
// at once, but for the way of the message, which may take a tenth of the session timeout. It is kept in milliseconds, and cut to 100 years.
//
// While there is no connection Revoke waits for one, and goes on in another session, until ctx ends. Then it returns the cause: whoever
// was asked by then still gives the lock back, but nobody is removed any more. Nobody was asked, and nothing is left, if
// the error is [ErrNotHeld], ErrNotRevocable, [ErrGrace], [ErrPath], [ErrKind] for the path of an unfair lock, or where a node bears a
// holder's name and is not ephemeral, or [ErrClosed] from the start.
// [ErrNoAuth], for which Revoke needs READ and WRITE on the holders' nodes, and DELETE on their directory to remove one, may
// come when some were asked already.
func (c *Coordinator) Revoke(ctx context.Context, path string, grace time.Duration) error {
	if err := c.checkPath(path); err != nil {
		return err
	}
	if grace < 0 {
		return fmt.Errorf("%w: %v for %s", ErrGrace, grace, path)
	}
	if c.open.Err() != nil {
		return ErrClosed
	}
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.open, func() { cancel(ErrClosed) })() //nolint:contextcheck // the coordinator's end, beside the caller's
	err := c.session.Revoke(bounded, path, grace)
	if err != nil && bounded.Err() == nil && !errors.Is(err, ErrClosed) {
		return fmt.Errorf("zkgrant: revoking %s: %w", path, err)
	}
	return err
}

// checkRevocable finds what is wrong with a lock that may be asked for, and with what its nodes would say.
func (l *Lock) checkRevocable(data []byte) error {
	if l.cfg.revocable && l.family == familyUnfair {
		return fmt.Errorf("%w: an unfair lock cannot be asked for, at %s", errInvalidKind, l.path)
	}
	return checkData(data, l.path)
}

// checkData fails if the data would be taken for a wish.
func checkData(data []byte, path string) error {
	if session.Reserved(data) {
		return fmt.Errorf("%w: %.20q for %s", ErrData, data, path)
	}
	return nil
}
