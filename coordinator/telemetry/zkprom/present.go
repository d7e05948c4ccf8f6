package zkprom

import "time"

// present is what waits and holds at one moment, for the locks with one label.
type present struct {
	waiting, held        map[string]int // by kind; each kind is in both
	firstWait, firstHold time.Time      // zero if there is none
	ahead                int            // of the first waiter
}

func newPresent() *present { return &present{waiting: map[string]int{}, held: map[string]int{}} }

// seen notes a kind of lock, which may have neither holder nor waiter.
func (p *present) seen(kind string) {
	p.waiting[kind] += 0
	p.held[kind] += 0
}

func (p *present) waits(kind string, since time.Time, ahead int) {
	p.waiting[kind]++
	if p.firstWait.IsZero() || since.Before(p.firstWait) {
		p.firstWait, p.ahead = since, ahead
	}
}

func (p *present) holds(kind string, permits int, since time.Time) {
	p.held[kind] += permits
	p.firstHold = earlier(p.firstHold, since)
}

// absorb adds what is present of the locks of which the label is replaced.
func (p *present) absorb(o *present) {
	for kind := range o.waiting {
		p.waiting[kind] += o.waiting[kind]
		p.held[kind] += o.held[kind]
	}
	p.firstWait, p.firstHold = earlier(p.firstWait, o.firstWait), earlier(p.firstHold, o.firstHold)
}

// earlier returns the earlier one of two times. The zero time stands for none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
