package wire

import (
	"math/rand/v2"
	"sync"
	"time"
)

// This file is about a server that turns requests away because it has too many of them
// (ThrottledOp) or fails to execute them. Each is repeated after a pause. The pause
// depends on the whole client, not on the request, because the server is in trouble.

const (
	// leastPause is the maximum of the first pause.
	leastPause = 100 * time.Millisecond
	// pausePart is the divisor of the session timeout that gives the maximum pause.
	pausePart = 4
	// firstReport is how long requests are turned away before that is reported, and
	// nextReport is the time between later reports.
	firstReport = 3 * time.Second
	nextReport  = time.Minute
)

// Throttle decides how long to wait before a request is repeated. The zero value is for a
// server that has turned nothing away. It is safe for concurrent use.
type Throttle struct {
	mu     sync.Mutex
	rounds int       // consecutive rounds in which requests were turned away
	latest time.Time // when the latest request was turned away
	round  time.Time // when the latest round began
	report time.Time // when the next report is due
}

// TurnedAway notes a request that was turned away. Requests turned away within one pause
// belong to one round, because none of them has been repeated since. TurnedAway reports
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

// Calm reports whether no request was turned away lately.
func (t *Throttle) Calm(now time.Time, timeout time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rounds == 0 || now.Sub(t.latest) >= timeout
}

// Pause returns how long to wait now: a random time between half and all of a bound,
// which is 100 ms, doubles with each round, and is at most a quarter of the timeout.
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

// bound returns the maximum pause in a round.
func bound(rounds int, timeout time.Duration) time.Duration {
	const doublings = 16 // far more than needed, without overflow
	return min(leastPause<<min(max(rounds-1, 0), doublings), max(timeout/pausePart, leastPause))
}
