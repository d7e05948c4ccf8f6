package wire

import (
	"errors"
	"time"
)

// This file is about a silent server: it has lost power, or hangs, or the network drops
// everything. No reset arrives.
//
// The client hangs up two thirds of the timeout after the last byte. The lease may have
// started up to two probe intervals and a window earlier, so it may run out first. So a
// session that holds something hangs up earlier, while there is time to connect to
// another server. A session that holds nothing has no lease to lose, and leaves it to the
// client.
//
// A slow server answers eventually, and hanging up on it gains nothing. If the whole
// ensemble is slow, its clients must not reconnect again and again. Hence:
//
//   - Any answer ends the silence, even a part of one: a server that works through a long
//     queue, or sends a large listing, is not silent. Events do not count, because they
//     keep coming if only the direction to the server is cut.
//   - The patience is at least twice the time that the latest write took.
//   - The session hangs up only after another server has said, during this silence, that
//     it serves; see [Dialer.Ask]. If all servers are as slow, the owed answer arrives
//     before that. If no other server can be reached, hanging up would lose the only
//     connection.
//   - Each hang-up doubles the patience for ten timeouts. So the session hangs up at most
//     twice in that time.
//   - With a single server, there is no other one to turn to. If a lost connection counts
//     as a loss, hanging up is the loss. In both cases, the session never hangs up.

const (
	// PatiencePart is the divisor of the timeout that gives the basic patience, two probe
	// intervals.
	PatiencePart = 5
	// remembered is the number of timeouts for which a hang-up is remembered.
	remembered = 10
)

// LeastPatience is the divisor of the timeout that gives the minimum wait, which equals
// the margin of a lease.
const LeastPatience = 20

// ErrSilent is the reason for a session's hang-up.
var ErrSilent = errors.New("server does not answer")

// Silence is what a session knows when it decides whether to hang up.
type Silence struct {
	Timeout time.Duration
	Since   time.Time     // since when an answer has been owed; zero: nothing is owed
	Took    time.Duration // how long the newest answered write took
	Before  [2]time.Time  // when the session last hung up, latest first; zero: never
	Others  Others        // what is known about the other servers
}

// Others is what the session knows about the servers that it is not connected to, during
// one silence.
type Others uint8

const (
	// OthersUnknown means that they were not asked.
	OthersUnknown Others = iota
	// OthersAsked means that they were asked, but none has answered so far.
	OthersAsked
	// OthersServe means that one of them has said that it serves.
	OthersServe
)

// Move is what a session does about a silent server.
type Move uint8

const (
	// MoveNone leaves it to the client to hang up.
	MoveNone Move = iota
	// MoveWait waits, and looks again after the returned time or when another server has
	// answered.
	MoveWait
	// MoveAsk asks the other servers.
	MoveAsk
	// MoveHangUp hangs up.
	MoveHangUp
)

// Next returns what to do, and when to look again. The other servers are asked when three
// quarters of the patience are used up: an answer that takes no longer than the previous
// write has usually arrived by then.
func (q Silence) Next(now time.Time) (Move, time.Duration) {
	patience := q.patience(now)
	left, ahead := q.Since.Add(patience).Sub(now), patience/4
	switch {
	case q.Since.IsZero() || patience >= ClientPatience(q.Timeout):
		return MoveNone, 0
	case q.Others == OthersUnknown && left <= ahead:
		return MoveAsk, max(left, 0)
	case q.Others == OthersUnknown:
		return MoveWait, left - ahead
	case left > 0:
		return MoveWait, left
	case q.Others == OthersServe:
		return MoveHangUp, 0
	default:
		return MoveWait, patience // an answer of another server triggers the next look
	}
}

// patience returns how long a silence is tolerated.
func (q Silence) patience(now time.Time) time.Duration {
	patience := max(q.Timeout/PatiencePart, 2*q.Took)
	for _, at := range q.Before {
		if !at.IsZero() && now.Sub(at) < remembered*q.Timeout {
			patience *= 2
		}
	}
	return patience
}

// ClientPatience returns the silence after which the client hangs up.
func ClientPatience(timeout time.Duration) time.Duration { return timeout * 2 / 3 }

// MostPatience returns how long a request waits for its answer, whatever else is answered
// in the meantime. The client would wait forever, because it counts from the newest
// bytes, and a stuck server may keep answering pings. By then, a lease has run out or is
// about to, and there is time left to end the session.
func MostPatience(timeout time.Duration) time.Duration { return timeout * 9 / 10 }

// requestPatience returns how much longer the oldest request may wait, after it has
// waited this long. There is always time left to read what arrived while nothing was
// read.
func requestPatience(timeout, waited time.Duration) time.Duration {
	return max(MostPatience(timeout)-waited, timeout/LeastPatience)
}
