package actors

import (
	"context"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about the Grant as a future: every goroutine that asks gets the same one,
// as often as it asks.

// Wait returns the Grant while the lock is held, and takes it. Before the Grant it waits
// until ctx ends. After the end it waits for Done and returns what Err returns. While a
// function runs under the lock, it returns a loss, or the end by Close, at once, because
// Done waits for the function.
func (l *Lock) Wait(ctx context.Context) (grant events.Grant, held bool, err error) {
	for {
		late := ctx.Err() != nil // asked first, so that a Grant or an end that has come by then counts
		l.mu.Lock()
		switch {
		case l.state == holding:
			grant := l.takes()
			l.mu.Unlock()
			return grant, true, nil
		case l.state == over && (l.running || l.ended):
			err := l.err
			l.mu.Unlock()
			return events.Grant{}, false, err
		}
		next := l.turns()
		l.mu.Unlock()
		if late {
			return events.Grant{}, false, context.Cause(ctx)
		}
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
}

// takes returns the Grant, and removes it from the channel if it is still there. The lock
// is held, and mu too. In a feed, the Grant stays: only the reader of the feed takes it.
func (l *Lock) takes() events.Grant {
	if l.feed() == nil {
		l.retract()
	}
	return l.granting()
}

// turns returns a channel that is closed by the next step: while the lock waits, by the
// Grant or the end; after that, by Done. It is called with mu held.
func (l *Lock) turns() <-chan struct{} {
	if l.state == waiting {
		return asked(&l.turn)
	}
	return l.doneness()
}

// taken notes that the Grant is taken.
func (l *Lock) taken() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retract()
}
