// Package lease tells until when a session can be believed alive, from what its servers have answered.
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
	// grains is the number of parts of a timeout by which to thin out what a lease remembers.
	grains = 128
)

// frame is when a request was sent and when it was answered.
type frame struct{ sent, answered time.Time }

// proof is what the answers on one connection prove about the session's life.
//
// The leader expires the session, and it counts from when it last heard of it. It hears of a client that is connected to a follower in two
// ways. When a connection is made the follower asks the leader about the session. So the answer to a handshake proves that a leader heard
// of the session after the handshake was sent. The follower keeps everything else to itself until the leader asks which sessions are alive,
// every half tick; not even a write renews the session. But a write is answered by a quorum, and what passes between a follower and its
// leader stays in order:
//
//  1. Request f is sent, and answered: the follower has noted it.
//  2. At least half a tick passes, so the leader asks, and the follower tells it.
//  3. Write w is sent, and the follower passes it on, behind what it told.
//  4. w is answered: the leader has got it, and all that came before.
//
// So the leader heard of the session no earlier than f was sent. base is the time of the newest such f. A single server, and a leader, hear
// sooner.
//
// A leader that has been deposed may not know it. It answers the handshake of a session that is resumed, also for the observers and the
// followers that it has left, while the new leader counts the session's time for itself. Hence such a handshake is one more f, without step
// 2: a write on the same connection proves what the leader has done. The handshake that makes the session is a write.
//
// Assumption: the leader's question in 2 has reached the follower when w does. It fails if the way from the leader stalled for more than
// the eighth of a tick that is allowed for, and the question came only just ahead of w's commit. Then the follower's reply is still on its
// way when w is answered. The reply gets there, unless the way back breaks in that very moment. These are two faults within one round trip,
// and either of them alone does no harm.
//
// The methods take times in any order. A time that is too early for what it says makes base earlier, and never later.
type proof struct {
	tick    time.Duration // as configured; 0: unknown
	timeout time.Duration // of this connection; another server may have clamped it
	base    time.Time
	written time.Time // when the newest of the answered writes was sent
	heard   time.Time // when the newest of all answered requests was sent
	later   []frame   // newer than base and not proven yet; each later than the one before it in both times
}

// connected starts over with a new connection. What was proven before stays proven, for the shorter one of the two timeouts, until a write
// proves the handshake.
func (p *proof) connected(sent time.Time, timeout time.Duration) {
	made, base := p.base.IsZero(), p.base.Add(min(0, lifetime(p.timeout)-lifetime(timeout)))
	*p = proof{tick: p.tick, timeout: timeout, base: base, written: sent, heard: sent, later: p.later[:0]}
	if made {
		p.base = sent
	} else {
		p.later = append(p.later, frame{sent, sent.Add(-p.window())}) // the leader need not ask
	}
}

// noted takes an answered request that the server has noted as a sign of life.
//
// It remembers some of many. To leave one out can only make base earlier. A frame is replaced by the next one if that was answered within a
// grain of the frame before it. So of any three neighbours the first and the last are a grain apart, and a replaced frame would have been
// of use for less than a grain.
func (p *proof) noted(f frame) {
	expired := 0
	for expired < len(p.later) && !p.trusted(p.later[expired].sent).After(f.answered) {
		expired++ // even if it is proven, the lease is over
	}
	p.later = slices.Delete(p.later, 0, expired)
	newest := p.base
	n := len(p.later)
	if n > 0 {
		newest = p.later[n-1].sent
	}
	if f.sent.After(p.heard) {
		p.heard = f.sent
	}
	switch {
	case !f.sent.After(newest): // proves nothing that the newest does not prove as soon
	case n > 1 && f.answered.Sub(p.later[n-2].answered) < p.timeout/grains:
		p.later[n-1] = f
	default:
		p.later = append(p.later, f)
	}
}

// answeredByQuorum takes a write that was sent at the given time.
func (p *proof) answeredByQuorum(sent time.Time) {
	if sent.Before(p.written) {
		return
	}
	p.written = sent
	told := sent.Add(-p.window()) // until then the leader has asked
	for i := len(p.later) - 1; i >= 0; i-- {
		if !p.later[i].answered.After(told) {
			p.base = p.later[i].sent
			p.later = slices.Delete(p.later, 0, i+1)
			return
		}
	}
}

// window is how long it takes until the leader has asked for certain: half a tick, and an eighth because it may be a little late.
func (p *proof) window() time.Duration {
	tick := Tick(p.tick, p.timeout)
	return tick/2 + tick/8
}

// Tick returns the tick that a lease goes by: the configured one, if there is one.
func Tick(configured, timeout time.Duration) time.Duration {
	if configured != 0 {
		return configured
	}
	return min(tickMax, timeout/2) // servers allow no timeout below two ticks by default
}

// trusted is until when the session can be believed alive if the leader heard of it at the given time.
func (p *proof) trusted(heard time.Time) time.Time { return heard.Add(lifetime(p.timeout)) }

// lifetime is for how long a session can be believed alive. A twentieth of the timeout is held back for clocks that do not run at the same
// rate.
func lifetime(timeout time.Duration) time.Duration { return timeout - timeout/20 }

// Lease is the proof of one client's present connection. Its times are those of a clock that goes on while the machine is suspended. It is
// safe for concurrent use.
type Lease struct {
	mu    sync.Mutex
	proof proof
	write time.Duration // how long the newest of the answered writes took, on whichever connection
	told  time.Time     // see Moved
	late  bool          // see Late
}

// New returns the lease of a client that has not been connected yet. The tick is 0 if it is not known.
func New(tick time.Duration) *Lease { return &Lease{proof: proof{tick: tick}} }

// Answered notes an answered request. It reports whether the lease had run out by then; the request may have renewed it.
func (l *Lease) Answered(sent, answered time.Time, op, zkErr int32, timeout time.Duration) (out bool) {
	f := frame{sent, answered}
	l.mu.Lock()
	defer l.mu.Unlock()
	out = !l.proof.base.IsZero() && !f.answered.Before(l.proof.trusted(l.proof.base))
	l.late = l.late || out
	switch {
	case op == opcode.Connect:
		l.proof.connected(f.sent, timeout)
	case isNoted(op, zkErr):
		l.proof.noted(f)
		if isQuorumAnswer(op, zkErr) {
			l.proof.answeredByQuorum(f.sent)
			l.write = f.answered.Sub(f.sent)
		}
	}
	return out
}

// Noticed notes that the end of the lease is told.
func (l *Lease) Noticed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = false
}

// Deadline returns until when the session can be believed alive. It returns the zero time if nothing was answered yet.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.proof.base.IsZero() {
		return time.Time{}
	}
	return l.proof.trusted(l.proof.base)
}

// Moved returns the deadline, and whether it has changed since the last call.
func (l *Lease) Moved() (deadline time.Time, moved bool) {
	deadline = l.Deadline()
	l.mu.Lock()
	defer l.mu.Unlock()
	moved = !deadline.Equal(l.told)
	l.told = deadline
	return deadline, moved
}

// Written returns when the newest of the writes that a quorum has answered, or the handshake, was sent.
func (l *Lease) Written() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proof.written
}

// Took returns how long the newest of the answered writes took; 0 if there was none.
func (l *Lease) Took() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write
}

// Heard returns when the newest of all answered requests was sent.
func (l *Lease) Heard() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proof.heard
}

// Optimistic returns until when the session would be believed alive if every answer were a proof. It returns the zero time if nothing was
// answered yet.
func (l *Lease) Optimistic() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.proof.heard.IsZero() {
		return time.Time{}
	}
	return l.proof.trusted(l.proof.heard)
}

// Window returns after what time a write proves what was answered before it.
func (l *Lease) Window() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proof.window()
}

// isNoted reports whether a server has noted the request as a sign of the session's life. A server does so when it queues a request; it
// never queues requests that carry an identity. Some errors are answered before that, or say that there is no such session.
func isNoted(op, zkErr int32) bool {
	switch zkErr {
	case zkerr.CodeSessionExpired, zkerr.CodeSessionMoved, zkerr.CodeAuthFailed, zkerr.CodeSASLRequired, zkerr.CodeThrottled:
		return false
	}
	return op != opcode.Auth && op != opcode.SASL
}

// isQuorumAnswer reports whether the answer to a request came from the leader and a quorum: the request was a write, and it was executed,
// or failed for a reason that the leader finds. A failed one is a transaction like any other. Other errors may be a follower's own. With
// enableEagerACLCheck, so are those about access.
func isQuorumAnswer(op, zkErr int32) bool {
	switch op {
	case opcode.Create, opcode.Delete, opcode.SetData, opcode.SetACL, opcode.Multi, opcode.Create2, opcode.Reconfig, opcode.CreateContainer, opcode.CreateTTL, opcode.CloseSession:
	default: // a ping or a read, which any server answers; sync, which a deposed leader answers
		return false
	}
	switch zkErr {
	case zkerr.CodeNone, zkerr.CodeRuntimeInconsistency, zkerr.CodeBadArguments, zkerr.CodeNoNode, zkerr.CodeBadVersion, zkerr.CodeNoChildrenForEphemerals,
		zkerr.CodeNodeExists, zkerr.CodeNotEmpty, zkerr.CodeQuotaExceeded:
		return true
	}
	return false
}
