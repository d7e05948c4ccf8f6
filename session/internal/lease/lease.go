// Package lease computes how long a session counts as alive, from what its servers have
// answered.
package lease

import (
	"slices"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

const (
	// tickMax is the tick that servers are assumed to use if none is configured.
	tickMax = 2 * time.Second
	// grains is the number of parts into which a timeout is divided. About one request is
	// remembered for each part.
	grains = 128
	// mostProbes limits the probes in progress if the interval is very short, because
	// each takes a goroutine and a place among the requests.
	mostProbes = 64
)

// Lease is what the answers on a client's connections prove about how long its session
// lives.
//
// The leader expires a session when its timeout has passed since the leader last heard of
// it. If the client is connected to a follower, that happens in two ways. When a
// connection is made, the follower asks the leader about the session. So the answer to a
// handshake proves that a leader heard of the session after the handshake was sent. The
// follower keeps everything else to itself until the leader asks which sessions are
// alive, every half tick; not even a write renews the session. But a write is answered by
// a quorum, and messages between a follower and its leader stay in order:
//
//  1. Request f is sent and answered: the follower has noted it.
//  2. At least half a tick passes, so the leader asks, and the follower answers.
//  3. Write w is sent, and the follower passes it on, after that answer.
//  4. w is answered: the leader has received it, and everything before it.
//
// So the leader last heard of the session no earlier than f was sent. base is the time at
// which the newest such f was sent. A single server, or the leader itself, hears of the
// session at once.
//
// A leader may have been deposed without knowing it. It still answers handshakes that
// resume a session, also for the observers and followers that it has left, while the new
// leader counts the session's time separately. Hence such a handshake is only one more f,
// without step 2: it takes a write on the same connection to prove it. The handshake that
// creates a session is itself a write.
//
// Assumption: the leader's question of step 2 reaches the follower before w does. That
// fails if messages from the leader are delayed by more than the eighth of a tick that is
// allowed for, so that the question comes just ahead of w's commit. Then the follower's
// reply is still in flight when w is answered. It arrives unless the connection to the
// leader breaks at that very moment. These are two faults within one round trip, and
// either of them alone does no harm.
//
// Times are by a clock that keeps running while the computer is suspended. They may come
// in any order: one that is too early makes base earlier, never later. A Lease is safe
// for concurrent use.
type Lease struct {
	tick time.Duration // as configured; 0: unknown

	mu      sync.Mutex
	timeout time.Duration // of the connection; another server may have clamped it
	life    time.Duration // derived from timeout: how long the session counts as alive
	window  time.Duration // derived from timeout: time after which the leader has asked
	base    time.Time     // zero: nothing was answered yet
	later   []frame       // newer than base and not proven yet; in order of both times
	written time.Time
	quorum  time.Time
	heard   time.Time
	took    time.Duration
}

// frame has the times at which a request was sent and answered.
type frame struct{ sent, answered time.Time }

// New returns the lease of a client that has not connected yet. The tick is 0 if it is
// not known.
func New(tick time.Duration) *Lease { return &Lease{tick: tick} }

// Answered notes an answered request; timeout is what a handshake granted. It reports
// whether the lease had run out by then, even if the request has renewed it.
func (l *Lease) Answered(sent, answered time.Time, op, zkErr int32, timeout time.Duration) (out bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out = !l.base.IsZero() && !answered.Before(l.base.Add(l.life))
	if op == opcode.Connect {
		// A new connection. What was proven before stays proven, for the shorter of the
		// two timeouts, until a write proves the handshake.
		l.base = l.base.Add(min(0, l.life-lifetime(timeout)))
		made := l.written.IsZero()
		l.timeout, l.life, l.window = timeout, lifetime(timeout), window(l.tick, timeout)
		l.written, l.heard, l.later = sent, sent, l.later[:0]
		if made {
			l.base, l.quorum = sent, sent
		} else {
			l.later = append(l.later, frame{sent, sent.Add(-l.window)}) // the leader may not need to ask
		}
		return out
	}
	noted, quorum := evidence(op, zkErr)
	if !noted {
		return out
	}
	if sent.After(l.heard) {
		l.heard = sent
	}

	// Only some of many requests are remembered. Omitting one can only make base earlier.
	// A request is replaced by the next one if that was answered within a grain of the
	// one before. So of any three neighbors, the first and the last are a grain apart,
	// and a replaced one would have been useful for less than a grain.
	expired := 0
	for expired < len(l.later) && !l.later[expired].sent.Add(l.life).After(answered) {
		expired++ // even if proven, the lease would be over
	}
	l.later = slices.Delete(l.later, 0, expired)
	newest, n := l.base, len(l.later)
	if n > 0 {
		newest = l.later[n-1].sent
	}
	switch {
	case !sent.After(newest): // proves no more than the newest, and no sooner
	case n > 1 && answered.Sub(l.later[n-2].answered) < l.timeout/grains:
		l.later[n-1] = frame{sent, answered}
	default:
		l.later = append(l.later, frame{sent, answered})
	}

	if !quorum {
		return out
	}
	l.took = answered.Sub(sent)
	if sent.Before(l.written) {
		return out
	}
	l.written, l.quorum = sent, sent
	known := sent.Add(-l.window) // the leader asked its followers no later than this
	for i := len(l.later) - 1; i >= 0; i-- {
		if !l.later[i].answered.After(known) {
			l.base = l.later[i].sent
			l.later = slices.Delete(l.later, 0, i+1)
			break
		}
	}
	return out
}

// State is what a lease knows apart from its deadline.
type State struct {
	Written time.Time     // when the newest answered write, or the handshake, was sent
	Quorum  time.Time     // the same, without handshakes that have resumed the session
	Heard   time.Time     // when the newest answered request was sent; zero: nothing was answered
	Took    time.Duration // how long the newest answered write took; 0: none was answered
	Window  time.Duration // how long after an answer a write must be sent to prove it
}

// State returns the current state.
func (l *Lease) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{Written: l.written, Quorum: l.quorum, Heard: l.heard, Took: l.took, Window: l.window}
}

// Deadline returns the time until which the session counts as alive, or the zero time if
// nothing was answered yet.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.base.IsZero() {
		return time.Time{}
	}
	return l.base.Add(l.life)
}

// window returns the time after which the leader has certainly asked: half a tick, plus
// an eighth because it may be a little late.
func window(tick, timeout time.Duration) time.Duration {
	tick = Tick(tick, timeout)
	return tick/2 + tick/8
}

// Tick returns the tick that a lease assumes: the configured one, if there is one.
func Tick(configured, timeout time.Duration) time.Duration {
	if configured != 0 {
		return configured
	}
	return min(tickMax, timeout/2) // by default, servers allow no timeout below two ticks
}

// lifetime returns how long a session counts as alive. A twentieth of the timeout is a
// margin for clocks that run at different rates.
func lifetime(timeout time.Duration) time.Duration { return timeout - timeout/20 }

// evidence reports what an answer proves. noted means that a server has noted the request
// as a sign of life of the session. A server does so when it queues a request; it never
// queues requests that carry an identity. Some errors are answered before that, or say
// that the session does not exist.
//
// quorum means that the answer came from the leader and a quorum: the request was a write
// that was executed, or that failed for a reason found by the leader. A failed write is a
// transaction like any other. Other errors may be a follower's own, and with
// enableEagerACLCheck even those about access.
func evidence(op, zkErr int32) (noted, quorum bool) {
	switch zkErr {
	case zkerr.CodeSessionExpired, zkerr.CodeSessionMoved, zkerr.CodeAuthFailed, zkerr.CodeSASLRequired,
		zkerr.CodeThrottled:
		return false, false
	}
	switch op {
	case opcode.Auth, opcode.SASL:
		return false, false
	case opcode.Create, opcode.Delete, opcode.SetData, opcode.SetACL, opcode.Multi, opcode.Create2,
		opcode.Reconfig,
		opcode.CreateContainer, opcode.CreateTTL, opcode.CloseSession:
	default: // a ping or a read, which any server answers; sync, which a deposed leader answers
		return true, false
	}
	switch zkErr {
	case zkerr.CodeNone, zkerr.CodeRuntimeInconsistency, zkerr.CodeBadArguments, zkerr.CodeNoNode,
		zkerr.CodeBadVersion,
		zkerr.CodeNoChildrenForEphemerals, zkerr.CodeNodeExists, zkerr.CodeNotEmpty, zkerr.CodeQuotaExceeded:
		return true, true
	}
	return true, false
}

// Pace decides when a session that holds something probes: one interval after its newest
// write, answered or not. With only one probe at a time, the lease would advance just
// once per round trip, and could run out even though every answer arrives.
type Pace struct {
	Interval time.Duration // between two probes
	Timeout  time.Duration // of the session
	Written  time.Time     // when the newest answered write was sent
	Probed   time.Time     // when the newest probe was sent; zero: none yet
	UnderWay int           // unanswered probes
}

// Due returns how long to wait until the next probe. At 0 or less, it is due.
func (p Pace) Due(now time.Time) time.Duration {
	if p.UnderWay >= p.most() {
		return p.Interval // this many are unanswered only after a whole timeout
	}
	newest := p.Written
	if p.Probed.After(newest) {
		newest = p.Probed
	}
	return newest.Add(p.Interval).Sub(now)
}

// most returns the maximum number of probes in progress: those of one timeout.
func (p Pace) most() int { return min(max(int(p.Timeout/p.Interval), 1), mostProbes) }
