package wire

import (
	"errors"
	"time"
)

// This file is about a server that says nothing: it has lost its power, or hangs, or the
// network swallows what is sent. No reset arrives.
//
// The client hangs up two thirds of the timeout after the last byte. A lease began to run
// up to two probes and a window before that, so it may run out first. So a session that
// holds something hangs up earlier, while there is time to connect to another server. A
// session that holds nothing has no lease to lose, and leaves it to the client.
//
// A slow server answers in the end, and hanging up on it gains nothing. If the whole
// ensemble is slow, its clients must not reconnect again and again. Hence:
//
//   - Any answer ends the silence, and so does a part of one: a server that works off a
//     long queue, or sends a large listing, is not silent. Events do not count: they go
//     on coming if only the way to the server is cut.
//   - A write that took long doubles its time for the next one.
//   - The session hangs up only when another server has said, in this silence, that it
//     serves, see [Dialer.Ask]. If all servers are as slow, the answer that is owed comes
//     before such a word. If no other server can be reached, to hang up would be to lose
//     the way back.
//   - For ten timeouts, each time that the session hung up doubles the patience. So it
//     hangs up twice in that time, at most.
//   - With one server there is no other to change to. If suspended counts as lost,
//     hanging up is the loss. In both cases the session never hangs up.

const (
	// PatiencePart is the part of the timeout for which an answer is waited for: two
	// intervals of probes.
	PatiencePart = 5
	// remembered is for how many timeouts a hang-up of the session is remembered.
	remembered = 10
)

// LeastPatience is the part of the timeout that is left for waiting in any case, as much
// as a lease holds back.
const LeastPatience = 20

// ErrSilent is why a session hangs up.
var ErrSilent = errors.New("server does not answer")

// Silence is what a session knows when it decides whether to hang up.
type Silence struct {
	Timeout time.Duration
	Since   time.Time     // nothing was answered since, and something was asked before; zero: nothing is owed
	Took    time.Duration // how long the newest of the answered writes took
	Before  [2]time.Time  // when the session hung up last, and the time before that; zero: never
	Others  Others        // what is known of the other servers
}

// Others is what the session knows of the servers that it is not connected to, in one
// silence.
type Others uint8

const (
	// OthersUnknown means that they were not asked.
	OthersUnknown Others = iota
	// OthersAsked means that they were asked, and that none has answered, or not yet.
	OthersAsked
	// OthersServe means that one has said that it serves.
	OthersServe
)

// Move is what a session does about a silent server.
type Move uint8

const (
	// MoveNone leaves it to the client to hang up.
	MoveNone Move = iota
	// MoveWait looks again after the wait, or when another server has answered.
	MoveWait
	// MoveAsk asks the other servers.
	MoveAsk
	// MoveHangUp hangs up.
	MoveHangUp
)

// Next returns what to do, and when to look again. The other servers are asked when three
// quarters of the patience are used up: an answer that takes no longer than the write
// before it is mostly there by then.
func (q Silence) Next(now time.Time) (Move, time.Duration) {
	left, ok := q.Left(now)
	ahead := q.patience(now) / 4
	switch {
	case !ok:
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
		return MoveWait, q.patience(now) // the answer comes by itself, if any does
	}
}

// Left returns for how much longer the answer is waited for; at 0 or less the session
// hangs up. ok is false if nothing is owed, or if hanging up is left to the client.
func (q Silence) Left(now time.Time) (wait time.Duration, ok bool) {
	patience := q.patience(now)
	if q.Since.IsZero() || patience >= ClientPatience(q.Timeout) {
		return 0, false
	}
	return q.Since.Add(patience).Sub(now), true
}

// patience is how long a silence is tolerated.
func (q Silence) patience(now time.Time) time.Duration {
	patience := max(q.Timeout/PatiencePart, 2*q.Took)
	for _, at := range q.Before {
		if !at.IsZero() && now.Sub(at) < remembered*q.Timeout {
			patience *= 2
		}
	}
	return patience
}

// ClientPatience is the silence after which the client hangs up.
func ClientPatience(timeout time.Duration) time.Duration { return timeout * 2 / 3 }

// MostPatience is for how long a request waits for its answer, whatever else is answered
// meanwhile. The client would wait forever: it counts from the newest bytes, and a
// server that is stuck may continue answering pings. A lease has run out by then, or is
// about to, and there is time left to close the session.
func MostPatience(timeout time.Duration) time.Duration { return timeout * 9 / 10 }

// requestPatience returns for how much longer the oldest request waits that has waited
// for so long. In any case there is time to read what came while nothing was read.
func requestPatience(timeout, waited time.Duration) time.Duration {
	return max(MostPatience(timeout)-waited, timeout/LeastPatience)
}
