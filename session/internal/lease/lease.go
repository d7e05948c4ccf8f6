// Package lease computes until when a session can be believed alive, from what its
// servers have answered.
package lease

import (
	"slices"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

const (
	// tickMax is the tick that servers are taken to use if no tick is configured.
	tickMax = 2 * time.Second
	// grains is the number of parts of a timeout by which to thin out what is remembered.
	grains = 128
	// mostProbes bounds the probes in progress where the interval is very short: each
	// takes a goroutine, and a place among the requests.
	mostProbes = 64
)

// Lease is what the answers on a client's connections prove about the life of its
// session.
//
// The leader expires the session, and it counts from when it last learned of it. It
// learns of a client that is connected to a follower in two ways. When a connection is
// made the follower asks the leader about the session. So the answer to a handshake
// proves that a leader learned of the session after the handshake was sent. The follower
// keeps everything else to itself until the leader asks which sessions are alive, every
// half tick; not even a write renews the session. But a write is answered by a quorum,
// and what passes between a follower and its leader stays in order:
//
//  1. Request f is sent, and answered: the follower has noted it.
//  2. At least half a tick passes, so the leader asks, and the follower answers.
//  3. Write w is sent, and the follower passes it on, after that answer.
//  4. w is answered: the leader has got it, and all that came before.
//
// So the leader learned of the session no earlier than f was sent. base is the time of
// the newest such f. A single server, and a leader, hear earlier.
//
// A leader that has been deposed may not know it. It answers the handshake of a session
// that is resumed, also for the observers and the followers that it has left, while the
// new leader counts the session's time for itself. Hence such a handshake is one more f,
// without step 2: a write on the same connection proves what the leader has done. The
// handshake that makes the session is a write.
//
// Assumption: the leader's question in 2 has reached the follower when w does. It fails
// if the way from the leader stalled for more than the eighth of a tick that is allowed
// for, and the question came only just ahead of w's commit. Then the follower's reply is
// still on its way when w is answered. The reply gets there, unless the way back breaks
// in that very moment. These are two faults within one round trip, and either of them
// alone does no harm.
//
// Times are those of a clock that continues while the machine is suspended. They may come
// in any order: a time that is too early for what it says makes base earlier, and never
// later. A Lease is safe for concurrent use.
type Lease struct {
	tick time.Duration // as configured; 0: unknown

	mu      sync.Mutex
	timeout time.Duration // of the connection; another server may have clamped it
	life    time.Duration // by that, for how long the session can be believed alive
	window  time.Duration // by that, after what time the leader has asked
	base    time.Time     // zero: nothing was answered yet
	later   []frame       // newer than base and not proven; each later than the one before in both times
	written time.Time
	heard   time.Time
	took    time.Duration
}

// frame is when a request was sent and when it was answered.
type frame struct{ sent, answered time.Time }

// New returns the lease of a client that has not been connected yet. The tick is 0 if it
// is not known.
func New(tick time.Duration) *Lease { return &Lease{tick: tick} }

// Answered notes an answered request; timeout is what a handshake granted. It reports
// whether the lease had run out by then; the request may have renewed it.
func (l *Lease) Answered(sent, answered time.Time, op, zkErr int32, timeout time.Duration) (out bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out = !l.base.IsZero() && !answered.Before(l.base.Add(l.life))
	if op == opcode.Connect {
		// A new connection. What was proven before stays proven, for the shorter one of
		// the two timeouts, until a write proves the handshake.
		l.base = l.base.Add(min(0, l.life-lifetime(timeout)))
		made := l.written.IsZero()
		l.timeout, l.life, l.window = timeout, lifetime(timeout), window(l.tick, timeout)
		l.written, l.heard, l.later = sent, sent, l.later[:0]
		if made {
			l.base = sent
		} else {
			l.later = append(l.later, frame{sent, sent.Add(-l.window)}) // the leader need not ask
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

	// Some of many requests are remembered. To leave one out can only make base earlier.
	// One is replaced by the next if that was answered within a grain of the one before
	// it. So of any three neighbours the first and the last are a grain apart, and a
	// replaced one would have been of use for less than a grain.
	expired := 0
	for expired < len(l.later) && !l.later[expired].sent.Add(l.life).After(answered) {
		expired++ // even if it is proven, the lease is over
	}
	l.later = slices.Delete(l.later, 0, expired)
	newest, n := l.base, len(l.later)
	if n > 0 {
		newest = l.later[n-1].sent
	}
	switch {
	case !sent.After(newest): // proves nothing that the newest does not prove as soon
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
	l.written = sent
	told := sent.Add(-l.window) // until then the leader has asked
	for i := len(l.later) - 1; i >= 0; i-- {
		if !l.later[i].answered.After(told) {
			l.base = l.later[i].sent
			l.later = slices.Delete(l.later, 0, i+1)
			break
		}
	}
	return out
}

// State is what a lease knows beside its deadline.
type State struct {
	Written time.Time     // when the newest of the answered writes, or the handshake, was sent
	Heard   time.Time     // when the newest of all answered requests was sent
	Took    time.Duration // how long the newest of the answered writes took; 0: none was answered
	// Optimistic is until when the session would be believed alive if every answer were a
	// proof; zero if nothing was answered yet.
	Optimistic time.Time
}

// State returns what the lease knows now.
func (l *Lease) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{Written: l.written, Heard: l.heard, Took: l.took}
	if !l.heard.IsZero() {
		s.Optimistic = l.heard.Add(l.life)
	}
	return s
}

// Deadline returns until when the session can be believed alive. It returns the zero time
// if nothing was answered yet.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.base.IsZero() {
		return time.Time{}
	}
	return l.base.Add(l.life)
}

// Window returns after what time a write proves what was answered before it.
func (l *Lease) Window() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.window
}

// window is how long it takes until the leader has asked for certain: half a tick, and an
// eighth because it may be a little late.
func window(tick, timeout time.Duration) time.Duration {
	tick = Tick(tick, timeout)
	return tick/2 + tick/8
}

// Tick returns the tick that a lease goes by: the configured one, if there is one.
func Tick(configured, timeout time.Duration) time.Duration {
	if configured != 0 {
		return configured
	}
	return min(tickMax, timeout/2) // servers allow no timeout below two ticks by default
}

// lifetime is for how long a session can be believed alive. A twentieth of the timeout is
// held back for clocks that do not run at the same rate.
func lifetime(timeout time.Duration) time.Duration { return timeout - timeout/20 }

// evidence reports what an answer is a sign of. noted: a server has noted the request as
// a sign of the session's life. A server does so when it queues a request; it never
// queues requests that carry an identity. Some errors are answered before that, or say
// that there is no such session.
//
// quorum: the answer came from the leader and a quorum. The request was a write, and it
// was executed, or failed for a reason that the leader finds. A failed one is a
// transaction like any other. Other errors may be a follower's own. With
// enableEagerACLCheck, so are those about access.
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

// Pace decides when a session that holds something probes: an interval after the newest
// write that is known, whether that was answered or not. With one probe at a time the
// lease would advance once a round trip, and run out although every answer comes.
type Pace struct {
	Interval time.Duration // between two probes
	Timeout  time.Duration // of the session
	Written  time.Time     // when the newest of the answered writes was sent
	Probed   time.Time     // when the newest probe was sent; zero: none was
	UnderWay int           // probes that are not answered
}

// Due returns how long to wait for the next probe. At 0 or less it is due.
func (p Pace) Due(now time.Time) time.Duration {
	if p.UnderWay >= p.most() {
		return p.Interval // the answers to as many have taken a whole timeout
	}
	newest := p.Written
	if p.Probed.After(newest) {
		newest = p.Probed
	}
	return newest.Add(p.Interval).Sub(now)
}

// most returns how many probes may be in progress: those of one timeout.
func (p Pace) most() int { return min(max(int(p.Timeout/p.Interval), 1), mostProbes) }
