// Package pace bounds how many reads a second a process sends to look at locks. The arithmetic is a
// value that is told the time; [Limiter] adds a mutex, the clock and the wait.
package pace

import (
	"context"
	"sync"
	"time"
)

// tick is how often reads are let through: several at once, so that each needs no timer of its own.
const tick = 10 * time.Millisecond

// Bucket hands out the times at which reads may be sent. No second has more of them than its rate
// and a tenth of that, which a process that was idle may send at once. The zero value has no bound.
type Bucket struct {
	rate int       // reads a second; 0: no bound
	next time.Time // the read that was let through last uses the bucket up to here
	seen time.Time // the latest time that was told
}

// New returns a bucket for so many reads a second. It has no bound if there are none.
func New(rate int) Bucket { return Bucket{rate: max(0, rate)} }

// burst returns how many reads go at once after the bucket was idle. With those that a tick brings
// forward it is a tenth of the rate.
func (b *Bucket) burst() int { return max(1, b.rate*9/100) }

func (b *Bucket) interval() time.Duration { return time.Second / time.Duration(b.rate) }

// Take lets a read through, and returns how long it has to wait. If that would be after until, it
// takes nothing and returns false. The zero until has no bound.
func (b *Bucket) Take(now, until time.Time) (wait time.Duration, ok bool) {
	if b.rate == 0 {
		return 0, until.IsZero() || !now.After(until)
	}
	if now.Before(b.seen) { // another clock, as in a test
		b.next = time.Time{}
	}
	b.seen = now
	idle := now.Add(-b.interval() * time.Duration(b.burst()))
	if b.next.Before(idle) {
		b.next = idle
	}
	at := b.next.Add(b.interval())
	if at.After(now) {
		wait = (at.Sub(now) + tick - 1) / tick * tick
	}
	if !until.IsZero() && now.Add(wait).After(until) {
		return 0, false
	}
	b.next = at
	return wait, true
}

// Limiter is a Bucket for any number of goroutines. The zero value has no bound.
type Limiter struct {
	mu     sync.Mutex
	bucket Bucket
}

// NewLimiter returns a limiter for so many reads a second.
func NewLimiter(rate int) *Limiter { return &Limiter{bucket: New(rate)} }

// Set changes the rate from the next read on.
func (l *Limiter) Set(rate int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket = New(rate)
}

// Wait returns when a read may be sent. It returns false at once if that would be after until, and
// the cause of ctx if ctx ends first.
func (l *Limiter) Wait(ctx context.Context, until time.Time) (bool, error) {
	l.mu.Lock()
	wait, ok := l.bucket.Take(time.Now(), until)
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
