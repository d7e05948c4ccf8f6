package session

import (
	"sync"
	"time"
)

// lease tells until when the session of one client can be believed alive.
//
// The server counts the timeout from the moment when it last heard of the
// session. A request that was answered, unless it was told that the session is
// over or elsewhere, was heard of no earlier than it was sent,
// so the send time of the newest answered request, plus the timeout, is a lower
// bound for the expiry; a twentieth is held back for clocks that do not run at
// the same rate. This is exact for a single server. A follower passes what it
// hears on to the leader with a delay of up to half a tick, which this does not
// know of.
type lease struct {
	mu      sync.Mutex
	base    time.Time
	timeout time.Duration
}

// answered takes note of an answered request and when it was sent. On a new
// connection, whose handshake is the first request, the timeout may differ.
func (l *lease) answered(sent time.Time, timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent.After(l.base) {
		l.base, l.timeout = sent, timeout
	}
}

// deadline returns the zero time if nothing was answered yet.
func (l *lease) deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.base.IsZero() {
		return time.Time{}
	}
	return l.base.Add(l.timeout - l.timeout/20)
}
