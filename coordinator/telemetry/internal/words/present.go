package words

import "time"

// Present counts the waiters and holders at one moment, for the locks with one label.
type Present struct {
	Waiting, Held        map[string]int // by kind; each kind is in both
	FirstWait, FirstHold time.Time      // zero if none
	Ahead                int            // contenders ahead of the first waiter
}

// NewPresent returns the Present of a lock without holders and waiters.
func NewPresent() *Present { return &Present{Waiting: map[string]int{}, Held: map[string]int{}} }

// Seen records a kind of lock, which may have neither holders nor waiters.
func (p *Present) Seen(kind string) {
	p.Waiting[kind] += 0
	p.Held[kind] += 0
}

// Waits records a waiter.
func (p *Present) Waits(kind string, since time.Time, ahead int) {
	p.Seen(kind)
	p.Waiting[kind]++
	if p.FirstWait.IsZero() || since.Before(p.FirstWait) {
		p.FirstWait, p.Ahead = since, ahead
	}
}

// Holds records a holder. A holder that reentered a lock has 0 permits.
func (p *Present) Holds(kind string, permits int, since time.Time) {
	p.Seen(kind)
	p.Held[kind] += permits
	p.FirstHold = earlier(p.FirstHold, since)
}

// Absorb adds the counts of the locks whose label is replaced.
func (p *Present) Absorb(o *Present) {
	for kind := range o.Waiting {
		p.Waiting[kind] += o.Waiting[kind]
		p.Held[kind] += o.Held[kind]
	}
	p.FirstWait, p.FirstHold = earlier(p.FirstWait, o.FirstWait), earlier(p.FirstHold, o.FirstHold)
}

// earlier returns the earlier of two times. The zero time means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
