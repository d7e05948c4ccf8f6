// Package pace limits how many reads per second a process sends to look at locks.
package pace

import (
	"context"
	"sync"
	"time"
)

// tick is how often reads are let through: several at once, so that a caller does not
// wait on a timer for each.
const tick = 10 * time.Millisecond

// Limiter assigns the times at which reads may be sent. It allows no more per second than
// its rate plus a tenth of it, at least one; an idle process may send these extra ones at
// once. The zero value has no limit.
type Limiter struct {
	mu   sync.Mutex
	rate int       // reads per second; 0: no limit
	next time.Time // the time up to which earlier reads have used up the rate
	seen time.Time // the latest now
}

// NewLimiter returns a limiter with this rate, in reads per second.
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
	wait, ok := l.take(time.Now(), until) // read the clock under mu, so that turns are in order
	l.mu.Unlock()
	if !ok || wait == 0 {
		return ok, nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, nil
	case <-ctx.Done(): // its turn is lost, because later ones may depend on it
		return false, context.Cause(ctx)
	}
}

// take assigns the next turn to a read, and returns how long the read must wait. If the
// turn would be after until, take assigns nothing and returns false. A zero until means
// no limit. It is called with mu held.
func (l *Limiter) take(now, until time.Time) (wait time.Duration, ok bool) {
	if l.rate == 0 {
		return 0, until.IsZero() || !now.After(until)
	}
	if now.Before(l.seen) { // another clock, as in a test
		l.next = time.Time{}
	}
	l.seen = now
	// Together with the reads that a tick brings forward, a tenth of the rate may be sent
	// at once after an idle time.
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
