// Package pace bounds how many reads a second a process sends to look at locks.
package pace

import (
	"context"
	"sync"
	"time"
)

// tick is how often reads are let through: several at once, so that each needs no timer
// of its own.
const tick = 10 * time.Millisecond

// Limiter hands out the times at which reads may be sent. No second has more of them than
// its rate and a tenth of that, which a process that was idle may send at once. The zero
// value has no bound.
type Limiter struct {
	mu   sync.Mutex
	rate int       // reads a second; 0: no bound
	next time.Time // the read that was let through last uses the rate up to here
	seen time.Time // the latest time that was given
}

// NewLimiter returns a limiter for so many reads a second.
func NewLimiter(rate int) *Limiter { return &Limiter{rate: max(0, rate)} }

// Set changes the rate from the next read on.
func (l *Limiter) Set(rate int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rate, l.next, l.seen = max(0, rate), time.Time{}, time.Time{}
}

// Wait returns when a read may be sent. It returns false at once if that would be after
// until, and the cause of ctx if ctx ends first.
func (l *Limiter) Wait(ctx context.Context, until time.Time) (bool, error) {
	l.mu.Lock()
	wait, ok := l.take(time.Now(), until) // the clock is read in the order of the turns
	l.mu.Unlock()
	if !ok || wait == 0 {
		return ok, nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, nil
	case <-ctx.Done(): // its turn is lost: others' turns may come after it
		return false, context.Cause(ctx)
	}
}

// take lets a read through, and returns how long it has to wait. If that would be after
// until, it takes nothing and returns false. The zero until has no bound. It is called
// with mu held.
func (l *Limiter) take(now, until time.Time) (wait time.Duration, ok bool) {
	if l.rate == 0 {
		return 0, until.IsZero() || !now.After(until)
	}
	if now.Before(l.seen) { // another clock, as in a test
		l.next = time.Time{}
	}
	l.seen = now
	// With the reads that a tick brings forward, a tenth of the rate goes at once after
	// the limiter was idle.
	interval, burst := time.Second/time.Duration(l.rate), max(1, l.rate*9/100)
	if idle := now.Add(-interval * time.Duration(burst)); l.next.Before(idle) {
		l.next = idle
	}
	at := l.next.Add(interval)
	if at.After(now) {
		wait = (at.Sub(now) + tick - 1) / tick * tick
	}
	if !until.IsZero() && now.Add(wait).After(until) {
		return 0, false
	}
	l.next = at
	return wait, true
}
