package actors

import (
	"context"

	"github.com/zkgrant/zkgrant/events"
)

// This file is the Grant as a future: the same for each goroutine that asks, as often as it asks.

// Wait returns the Grant while the lock is held, and takes it. Before that it waits, for as long as ctx allows. After the
// end it returns what Err returns, and waits for that. Exception: the end of a lock that a function has lost, or that Close has
// taken from it, is returned at once, because Done waits for the function.
func (l *Lock) Wait(ctx context.Context) (grant events.Grant, held bool, err error) {
	for {
		late := ctx.Err() != nil // asked first: what has come by then counts
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

// takes returns the Grant, and removes it from the channel unless somebody has. It is called with mu held, while the lock is held.
func (l *Lock) takes() events.Grant {
	l.retract()
	return l.granting()
}

// turns returns what is closed by the Grant or when there will be none, and after that what is closed when it is over. It is called with mu
// held.
func (l *Lock) turns() <-chan struct{} {
	if l.state == waiting {
		return asked(&l.turn)
	}
	return l.doneness()
}

// taken notes that the Grant is.
func (l *Lock) taken() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retract()
}
