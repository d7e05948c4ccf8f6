package wire

import (
	"math/rand/v2"
	"sync"
	"time"
)

// This file is about a server that turns requests away: it has too many of them
// (ThrottledOp), or it fails at them. They are made again, each after a pause. The pause
// is that of the whole client: it is the server that is in trouble, and not one request
// that is refused.

const (
	// leastPause is the longest first pause.
	leastPause = 100 * time.Millisecond
	// pausePart is the part of the session timeout that a pause is at most.
	pausePart = 4
	// firstReport is for how long requests are turned away before that is worth a report,
	// and nextReport after how long it is worth another one.
	firstReport = 3 * time.Second
	nextReport  = time.Minute
)

// Throttle knows for how long to wait before a request is made again. The zero value is
// for a server that has turned nothing away. It is safe for concurrent use.
type Throttle struct {
	mu     sync.Mutex
	rounds int       // in which requests were turned away, without a calm between
	latest time.Time // when the latest request was turned away
	round  time.Time // when the latest round began
	report time.Time // when the next report is due
}

// TurnedAway notes a request that was turned away. Requests that were turned away within
// one pause belong to one round: none of them has been made again since. It returns
// whether this has gone on for so long that a report is due.
func (t *Throttle) TurnedAway(now time.Time, timeout time.Duration) (report bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.rounds == 0, now.Sub(t.latest) >= timeout: // it was calm
		t.rounds, t.round, t.report = 1, now, now.Add(firstReport)
	case now.Sub(t.round) >= bound(t.rounds, timeout):
		t.rounds, t.round = t.rounds+1, now
	}
	t.latest = now
	if report = !now.Before(t.report); report {
		t.report = now.Add(nextReport)
	}
	return report
}

// Calm reports whether nothing was turned away lately.
func (t *Throttle) Calm(now time.Time, timeout time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rounds == 0 || now.Sub(t.latest) >= timeout
}

// Pause returns how long to wait now: a random time between a half and all of 100 ms,
// doubled with each round, and at most a quarter of the timeout.
func (t *Throttle) Pause(now time.Time, timeout time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	rounds := t.rounds
	if now.Sub(t.latest) >= timeout {
		rounds = 0
	}
	full := bound(rounds, timeout)
	return full/2 + rand.N(full/2)
}

// bound is the longest pause in a round.
func bound(rounds int, timeout time.Duration) time.Duration {
	const doublings = 16 // far more than a pause grows, and no overflow
	return min(leastPause<<min(max(rounds-1, 0), doublings), max(timeout/pausePart, leastPause))
}
