package actors

import "github.com/zkgrant/zkgrant/recipes"

// This file is about what the end of a session has to wait for.

// nothing is closed: there is nothing to wait for.
//
//nolint:gochecknoglobals // never written
var nothing = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Returned is closed when no function runs under the lock, and the session has received
// what follows from that. Call it after Withdraw.
func (l *Lock) Returned() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running && !l.leaving {
		return nothing
	}
	return asked(&l.rarely().returned)
}

// returns notes that no function runs under the lock. It is called with mu held.
func (l *Lock) returns() {
	if l.running {
		l.running, l.leaving = false, true
	}
}

// hasReturned notes that the driver knows that the function has returned.
func (l *Lock) hasReturned() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaving = false
	if l.rare != nil {
		tell(&l.rare.returned)
	}
}

// Cleared is closed when the lock has left nothing that outlives its session: no record,
// which the release removes. It does not wait for the record of a Grant that was taken
// and not released. Call it after Withdraw.
func (l *Lock) Cleared() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.detect || l.gone || l.took && l.withdrawn != recipes.WhyReleased {
		return nothing
	}
	return asked(&l.rarely().cleared)
}

// Confirmed is closed when the servers have confirmed a release, or the session is over.
// Call it after Done. If another lock shares the node, there is nothing to confirm, and
// the channel is closed.
func (l *Lock) Confirmed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.pending || l.gone {
		return nothing
	}
	return asked(&l.rarely().cleared)
}

// isGone notes that nothing of the lock is left at the server. The loop calls it.
func (l *Lock) isGone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	if l.rare != nil {
		tell(&l.rare.cleared)
	}
}

// asked returns the channel, and makes it if there is none.
func asked(c *chan struct{}) <-chan struct{} {
	if *c == nil {
		*c = make(chan struct{})
	}
	return *c
}

// tell closes the channel, if there is one.
func tell(c *chan struct{}) {
	if *c != nil {
		close(*c)
		*c = nil
	}
}

// Force gives up the node even though a function may still be running under the lock. It
// is called after Withdraw, when there is no more time to wait for the function.
func (l *Lock) Force() {
	l.mu.Lock()
	in := l.parting(recipes.WhyClosed)
	l.returns()
	l.mu.Unlock()
	l.drive.hand(message{input: in})
}
