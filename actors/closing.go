package actors

import "github.com/zkgrant/zkgrant/recipes"

// This file is what the end of a session has to wait for.

// nothing is what there is to wait for.
//
//nolint:gochecknoglobals // nobody writes to it
var nothing = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Returned is closed when no function runs under the lock. It is for a lock that was withdrawn.
func (l *Lock) Returned() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running {
		return nothing
	}
	return asked(&l.rarely().returned)
}

// hasReturned notes that no function runs under the lock. It is called with mu held.
func (l *Lock) hasReturned() {
	l.running = false
	if l.rare != nil {
		tell(&l.rare.returned)
	}
}

// Cleared is closed when nothing of the lock is left that outlives its session: a record, which is removed by the release, and
// when nobody has taken the Grant. It is for a lock that was withdrawn.
func (l *Lock) Cleared() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.detect || l.gone || l.took && l.withdrawn != recipes.WhyReleased {
		return nothing
	}
	return asked(&l.rarely().cleared)
}

// isGone notes that nothing of the lock is left. The drain calls it.
func (l *Lock) isGone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	if l.rare != nil {
		tell(&l.rare.cleared)
	}
}

// asked returns the channel, which there is from then on.
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

// Force gives the node up though a function may still be running under the lock.
// It comes after Withdraw, when there is no more time to wait for it.
func (l *Lock) Force() {
	l.mu.Lock()
	l.hasReturned()
	in := l.parting(recipes.WhyClosed)
	l.mu.Unlock()
	l.drive.hand(message{input: in})
}
