package words

import "time"

// Present is what waits and holds at one moment, for the locks with one label.
type Present struct {
	Waiting, Held        map[string]int // by kind; each kind is in both
	FirstWait, FirstHold time.Time      // zero if there is none
	Ahead                int            // of the first waiter
}

// NewPresent returns the present of a lock without holders and waiters.
func NewPresent() *Present { return &Present{Waiting: map[string]int{}, Held: map[string]int{}} }

// Seen notes a kind of lock, which may have neither holder nor waiter.
func (p *Present) Seen(kind string) {
	p.Waiting[kind] += 0
	p.Held[kind] += 0
}

// Waits notes a waiter.
func (p *Present) Waits(kind string, since time.Time, ahead int) {
	p.Seen(kind)
	p.Waiting[kind]++
	if p.FirstWait.IsZero() || since.Before(p.FirstWait) {
		p.FirstWait, p.Ahead = since, ahead
	}
}

// Holds notes a holder. One that has entered a lock again has no permits of its own.
func (p *Present) Holds(kind string, permits int, since time.Time) {
	p.Seen(kind)
	p.Held[kind] += permits
	p.FirstHold = earlier(p.FirstHold, since)
}

// Absorb adds what is present of the locks whose label is replaced.
func (p *Present) Absorb(o *Present) {
	for kind := range o.Waiting {
		p.Waiting[kind] += o.Waiting[kind]
		p.Held[kind] += o.Held[kind]
	}
	p.FirstWait, p.FirstHold = earlier(p.FirstWait, o.FirstWait), earlier(p.FirstHold, o.FirstHold)
}

// earlier returns the earlier one of two times. The zero time means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
