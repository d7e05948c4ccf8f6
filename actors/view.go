package actors

import (
	"context"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file has what a caller sees of a Lock.

// Granted returns the channel that delivers the Grant.
func (l *Lock) Granted() <-chan events.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.granted == nil {
		l.granted = make(chan events.Grant, 1)
		if l.offered {
			l.offered = false
			l.offer()
		}
	}
	return l.granted
}

// Lost returns the channel that delivers the loss of a Grant that was taken.
func (l *Lock) Lost() <-chan events.Lost {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = make(chan events.Lost, 1)
	}
	return l.lost
}

// Revoked returns the channel that delivers the latest revocation request.
func (l *Lock) Revoked() <-chan events.Revoked {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revocations()
}

// revocations returns that channel, made on first use. It is called with mu held.
func (l *Lock) revocations() chan events.Revoked {
	rare := l.rarely()
	if rare.revoked == nil {
		rare.revoked = make(chan events.Revoked, 1)
	}
	return rare.revoked
}

// Done returns a channel that is closed when the acquisition is over.
func (l *Lock) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nothing
	}
	if l.done == nil {
		l.done = make(chan struct{})
	}
	return l.done
}

// nothing is a closed channel, for callers that have nothing to wait for.
//
//nolint:gochecknoglobals // never written
var nothing = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Err returns why the acquisition is over, or nil if it is not over yet.
func (l *Lock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		return nil
	}
	return l.err
}

// Valid reports whether the lock is held and its lease has not run out.
func (l *Lock) Valid() bool {
	deadline := l.Deadline() // first: if the process is paused in between, the clock is read after the pause
	return time.Now().Before(deadline)
}

// Deadline returns the time until which the lock is safe without further contact, or the
// deadline of a revocation if that is earlier. It is the zero time if the lock is not
// held.
func (l *Lock) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != holding {
		return time.Time{}
	}
	lease := l.drive.deadline(l.epoch)
	if l.rare == nil || l.rare.due == 0 {
		return lease
	}
	if due := l.cfg.Time(l.rare.due); due.Before(lease) {
		return due
	}
	return lease
}

// Use returns the port of the node while the lock is held, or nil. The node of a cached
// lock is not handed on before done is called. Call done with spent if a request may use
// the node's name later: the node is then deleted, not handed on, when its holder
// releases.
func (l *Lock) Use() (port Port, done func(spent bool)) { return l.drive.use() }

// Tenure returns the Grant, its epoch, and whether the lock is still held, as one
// consistent view. Before there is a Grant, it returns the zero Grant.
func (l *Lock) Tenure() (grant events.Grant, epoch recipes.Epoch, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grant == (tenancy{}) {
		return events.Grant{}, 0, false
	}
	return l.granting(), l.epoch, l.state == holding
}

// Holding reports whether the lock was granted and is neither released nor lost.
func (l *Lock) Holding() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == holding
}

// Waiting returns how long the caller has waited so far. ok is false once the wait is
// over.
func (l *Lock) Waiting() (waited time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(origin) - l.born, l.state == waiting && l.withdrawn == 0
}

// Ending returns the error that the function of OnEnd receives: why the lock is not held
// and never will be again. It is nil before that, and after a Release.
func (l *Lock) Ending() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != over {
		return nil
	}
	return l.err
}

// TakenAway reports whether the lock was lost or Close ended it, rather than its caller.
func (l *Lock) TakenAway() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason != 0 || l.withdrawn == recipes.WhyClosed
}

// OnEnd calls f once, as soon as the lock is not held and never will be again, or
// immediately if that is already the case. f receives what Err will return, or would
// return had the Grant been taken. f must not block. cancel unregisters f.
func (l *Lock) OnEnd(f func(error)) (cancel func()) {
	l.mu.Lock()
	if l.state == over {
		err := l.err
		l.mu.Unlock()
		f(err)
		return func() {}
	}
	rare := l.rarely()
	if rare.onEnd == nil {
		rare.onEnd = map[int]func(error){}
	}
	rare.lastOnEnd++
	id := rare.lastOnEnd
	rare.onEnd[id] = f
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(rare.onEnd, id)
	}
}

// Position returns how many contenders were ahead at the latest listing. ok is false if
// the lock is not waiting, or has not listed since it last queued up.
func (l *Lock) Position() (ahead int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != waiting || !l.placed {
		return 0, false
	}
	return int(l.ahead), true
}

// Wait waits for the Grant until ctx ends, and takes it. While the lock is held, every
// call returns the same Grant, in any goroutine. Once the lock is over, Wait waits for
// Done and returns what Err returns. If a function is still running under the lock, Wait
// does not wait, because Done waits for the function: it returns the loss, or the end by
// Close, at once.
func (l *Lock) Wait(ctx context.Context) (grant events.Grant, held bool, err error) {
	for {
		late := ctx.Err() != nil // read first, so that a Grant or an end that came before it counts
		l.mu.Lock()
		switch {
		case l.state == holding:
			if l.feed == nil { // otherwise only the feed's reader takes the Grant
				l.retract()
			}
			grant := l.granting()
			l.mu.Unlock()
			return grant, true, nil
		case l.state == over && (l.running || l.ended):
			err := l.err
			l.mu.Unlock()
			return events.Grant{}, false, err
		}
		next := &l.turn
		if l.state == over {
			next = &l.done
		}
		if *next == nil {
			*next = make(chan struct{})
		}
		step := *next
		l.mu.Unlock()
		if late {
			return events.Grant{}, false, context.Cause(ctx)
		}
		select {
		case <-step:
		case <-ctx.Done():
		}
	}
}

// Returned returns a channel that is closed when no function runs under the lock any
// more, and the driver has processed its return. Call it after Withdraw.
func (l *Lock) Returned() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running && !l.leaving {
		return nothing
	}
	rare := l.rarely()
	if rare.returned == nil {
		rare.returned = make(chan struct{})
	}
	return rare.returned
}

// Cleared returns a channel that is closed when the lock has left no record, which would
// outlive its session; the release removes it. For a Grant that was taken and not
// released, the record stays, and the channel is closed at once. Call Cleared after
// Withdraw.
func (l *Lock) Cleared() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.detect || l.took && l.withdrawn != recipes.WhyReleased {
		return nothing
	}
	return l.clearance()
}

// Confirmed returns a channel that is closed when the servers have confirmed the release,
// or the session is over. If another lock shares the node, there is nothing to confirm,
// and the channel is closed already. Call Confirmed after Done.
func (l *Lock) Confirmed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.pending {
		return nothing
	}
	return l.clearance()
}

// Orphan reports that the session is about to end. From then on, Orphaned reports whether
// the release was not confirmed: then the end of the session has to remove the node. It
// does not remove a record.
func (l *Lock) Orphan() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orphaned = !l.gone
}

// Orphaned is described at Orphan.
func (l *Lock) Orphaned() (orphaned, record bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.orphaned, l.orphaned && l.detect && l.took && l.withdrawn == recipes.WhyReleased
}

// clearance returns a channel that is closed when nothing is left at the server. It is
// called with mu held.
func (l *Lock) clearance() <-chan struct{} {
	if l.gone {
		return nothing
	}
	rare := l.rarely()
	if rare.cleared == nil {
		rare.cleared = make(chan struct{})
	}
	return rare.cleared
}
