package session

import (
	"errors"
	"time"

	"go.uber.org/zap"
)

// This file is about a server that says nothing: it has lost its power, hangs, or the network swallows what is sent. No reset tells.
//
// The client hangs up two thirds of the timeout after the last byte. A lease began to run up to two probes and a window before
// that, so it may run out first. A session that holds something therefore hangs up earlier, while there is time to connect to
// another server. A session that holds nothing has no lease to lose, and leaves it to the client.
//
// A slow server answers in the end, and to hang up on it is for nothing. If the whole ensemble is slow, its clients must not reconnect
// again and again. Hence:
//
//   - Any answer ends the silence, and so does a part of one: a server that works off a long queue, or sends a large listing, is not
//     silent. Events do not count: they go on coming if only the way to the server is cut.
//   - A write that took long doubles its time for the next one.
//   - For ten timeouts, each time that the session hung up doubles the patience. So it hangs up twice in that time, at most.
//   - With one server there is nothing to change to. Where suspended is lost, to hang up is the loss. There it never does.

const (
	// patiencePart is for which part of the timeout an answer is waited for: two intervals of probes.
	patiencePart = 5
	// remembered is for how many timeouts it is remembered that the session has hung up.
	remembered = 10
)

// errSilent is why a session hangs up.
var errSilent = errors.New("server does not answer")

// silence is what a session knows when it decides whether to hang up.
type silence struct {
	timeout time.Duration
	since   time.Time     // nothing was answered since, and something was asked before; zero: nothing is owed
	took    time.Duration // how long the newest of the answered writes took
	before  [2]time.Time  // when the session hung up last, and the time before that; zero: never
}

// left returns for how much longer the answer is waited for; 0 or less is to hang up. ok is false if nothing is owed, or if
// that is left to the client.
func (q silence) left(now time.Time) (wait time.Duration, ok bool) {
	patience := max(q.timeout/patiencePart, 2*q.took)
	for _, at := range q.before {
		if !at.IsZero() && now.Sub(at) < remembered*q.timeout {
			patience *= 2
		}
	}
	if q.since.IsZero() || patience >= clientPatience(q.timeout) {
		return 0, false
	}
	return q.since.Add(patience).Sub(now), true
}

// clientPatience is after what silence the client hangs up.
func clientPatience(timeout time.Duration) time.Duration { return timeout * 2 / 3 }

// mostPatience is for how long a request waits for its answer, whatever else is answered meanwhile. The client would wait for ever: it
// counts from the newest bytes, and a server that is stuck may go on answering pings. A lease has run out by then, or is about to, and
// there is time left to close the session.
func mostPatience(timeout time.Duration) time.Duration { return timeout * 9 / 10 }

// requestPatience returns for how much longer the oldest request waits that has waited for so long. What has come while nobody read can be
// read in any case.
func requestPatience(timeout, waited time.Duration) time.Duration {
	return max(mostPatience(timeout)-waited, timeout/leastPatience)
}

// outwait hangs up if the server has been silent for too long, and returns when to look again, after the wait at the latest.
func (s *Session) outwait(c *client, now time.Time, wait time.Duration) time.Duration {
	if s.cfg.LossOnSuspend || c.hosts.Len() < 2 {
		return wait
	}
	timeout := c.link.timeout()
	wait = min(wait, timeout/patiencePart) // what is sent next may be the first that is not answered
	w, since := c.dialer.owing()
	left, ok := silence{timeout: timeout, since: since, took: c.lease.Took(), before: c.hungUp}.left(now)
	switch {
	case !ok:
		return wait
	case left > 0:
		return min(wait, left)
	}
	c.hungUp = [2]time.Time{now, c.hungUp[0]}
	c.logger.Warn("server does not answer; hanging up", zapSession(c), zap.String("server", c.conn.Server()), zap.Duration("for", now.Sub(since)))
	_ = w.fail(errSilent) // the client hears of it from Read, and goes on to the next server
	return wait
}
