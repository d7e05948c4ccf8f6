package lease

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exchange is an answered request.
type exchange struct {
	frame
	op, err int32
}

// naive is the rule of [Lease], with all frames kept.
type naive struct {
	tick, timeout time.Duration
	handshake     time.Time
	all           []exchange
}

func (n *naive) window() time.Duration { return window(n.tick, n.timeout) }

// base returns what is proven without the frames that were answered less than slack
// before they would be useful.
func (n *naive) base(slack time.Duration) time.Time {
	newest := n.handshake
	for _, w := range n.all {
		if _, quorum := evidence(w.op, w.err); quorum && w.sent.After(newest) {
			newest = w.sent
		}
	}
	base := n.handshake
	for _, f := range n.all {
		if noted, _ := evidence(f.op, f.err); noted && !f.answered.After(newest.Add(-n.window()-slack)) && f.sent.After(base) {
			base = f.sent
		}
	}
	return base
}

func TestWhatAnswersProve(t *testing.T) {
	const T, tick = 10 * time.Second, 800 * time.Millisecond // so the window is 500 ms
	type step struct {
		sent, answered time.Duration
		op, err        int32
		base           time.Duration // after it
	}
	const ms = time.Millisecond
	for name, steps := range map[string][]step{
		"a write does not prove itself": {
			{1000 * ms, 1010 * ms, opcode.Multi, 0, 0},
			{1509 * ms, 1520 * ms, opcode.Multi, 0, 0},
			{1510 * ms, 1520 * ms, opcode.Multi, 0, 1000 * ms},
		},
		"pings and reads prove nothing": {
			{1000 * ms, 1010 * ms, opcode.Ping, 0, 0},
			{5000 * ms, 5010 * ms, opcode.Ping, 0, 0},
			{6000 * ms, 6010 * ms, 4, 0, 0},
			{6400 * ms, 6410 * ms, 9, 0, 0}, // a sync
			{6500 * ms, 6510 * ms, opcode.SetWatches, 0, 0},
			{6600 * ms, 6610 * ms, opcode.Multi, 0, 6000 * ms},
		},
		"but they are what is proven": {
			{3300 * ms, 3310 * ms, opcode.Ping, 0, 0},
			{5000 * ms, 5010 * ms, opcode.Delete, 0, 3300 * ms},
		},
		"from the sending, and from the answer": {
			{1000 * ms, 4000 * ms, opcode.Multi, 0, 0}, // the follower may have received it at 3999
			{4499 * ms, 4501 * ms, opcode.Multi, 0, 0},
			{4500 * ms, 9000 * ms, opcode.Multi, 0, 1000 * ms},
		},
		"a write that fails is a write": {
			{1000 * ms, 1010 * ms, opcode.Multi, zkerr.CodeNoNode, 0},
			{2000 * ms, 2010 * ms, opcode.Create, zkerr.CodeNodeExists, 1000 * ms},
			{3000 * ms, 3010 * ms, opcode.Delete, zkerr.CodeBadVersion, 2000 * ms},
			{4000 * ms, 4010 * ms, opcode.Delete, zkerr.CodeNotEmpty, 3000 * ms},
			{5000 * ms, 5010 * ms, opcode.CreateContainer, zkerr.CodeQuotaExceeded, 4000 * ms},
		},
		"unless it was not passed on": {
			{1000 * ms, 1010 * ms, opcode.Ping, 0, 0},
			{2000 * ms, 2010 * ms, opcode.Multi, zkerr.CodeSessionExpired, 0},
			{2100 * ms, 2110 * ms, opcode.Multi, zkerr.CodeSessionMoved, 0},
			{2200 * ms, 2210 * ms, opcode.Multi, zkerr.CodeThrottled, 0},
			{2300 * ms, 2310 * ms, opcode.CreateContainer, zkerr.CodeUnimplemented, 0},
			{2400 * ms, 2410 * ms, opcode.Multi, zkerr.CodeNotReadOnly, 0},
			{2500 * ms, 2510 * ms, opcode.Multi, -4, 0},
			{2600 * ms, 2610 * ms, opcode.SetData, zkerr.CodeNoAuth, 0},
			{2700 * ms, 2710 * ms, opcode.Create, zkerr.CodeInvalidACL, 0},
			// Only the last five of these counted as signs of life.
			{2850 * ms, 2860 * ms, opcode.Multi, 0, 2300 * ms},
		},
		"identities are no signs of life": {
			{1000 * ms, 1010 * ms, opcode.Auth, 0, 0},
			{2000 * ms, 2010 * ms, opcode.Multi, 0, 0},
		},
		"answers out of order": {
			{3000 * ms, 3010 * ms, opcode.Multi, 0, 0},
			{1000 * ms, 3500 * ms, opcode.Multi, 0, 0},
			{2000 * ms, 3900 * ms, opcode.Multi, 0, 0},
			{4500 * ms, 4510 * ms, opcode.Multi, 0, 3000 * ms},
		},
		"a handshake counts with the next write, without a wait": {
			{1000 * ms, 1010 * ms, opcode.Multi, 0, 0},
			{2000 * ms, 2010 * ms, opcode.Multi, 0, 1000 * ms},
			{5000 * ms, 5010 * ms, opcode.Connect, 0, 1000 * ms},
			{5400 * ms, 5410 * ms, opcode.Ping, 0, 1000 * ms},
			{5020 * ms, 5410 * ms, opcode.Multi, 0, 5000 * ms},
			{5950 * ms, 5960 * ms, opcode.Multi, 0, 5400 * ms},
		},
		"handshakes that a deposed leader answers": {
			{1000 * ms, 1010 * ms, opcode.Multi, 0, 0},
			{2000 * ms, 2010 * ms, opcode.Multi, 0, 1000 * ms},
			{3000 * ms, 3010 * ms, opcode.Connect, 0, 1000 * ms},
			{4000 * ms, 4010 * ms, 4, 0, 1000 * ms},
			{5000 * ms, 5010 * ms, opcode.Connect, 0, 1000 * ms},
			{2900 * ms, 5020 * ms, opcode.Multi, 0, 1000 * ms}, // of an earlier connection
			{5030 * ms, 5040 * ms, opcode.Multi, 0, 5000 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Unix(1000, 0)
			l := New(tick)
			eventstest.Expect(t, l.Deadline().IsZero() && l.State().Heard.IsZero(),
				"a lease without a connection has a deadline, want none")
			l.Answered(start, start, opcode.Connect, 0, T)
			for _, s := range steps {
				l.Answered(start.Add(s.sent), start.Add(s.answered), s.op, s.err, T)
				proven := l.Deadline().Sub(start) - T*95/100
				eventstest.Equal(t, proven, s.base, "after what was sent at %v: proven for", s.sent)
			}
		})
	}
}

// A handshake that nothing has proven yet can shorten the lease, but not extend it.
func TestTheTimeoutOfThePresentConnectionCounts(t *testing.T) {
	const s = time.Second
	start := time.Unix(1000, 0)
	l := New(0)
	for i, step := range []struct {
		timeout        time.Duration
		lease, written time.Duration // after the handshake, and after a write that follows it
	}{
		{40 * s, 38 * s, 38 * s},
		{4 * s, 3800 * time.Millisecond, 4800 * time.Millisecond},
		{20 * s, 4800 * time.Millisecond, 21 * s},
		{20 * s, 21 * s, 22 * s},
	} {
		sent := start.Add(time.Duration(i) * s)
		l.Answered(sent, sent, opcode.Connect, 0, step.timeout)
		eventstest.Equal(t, l.Deadline().Sub(start), step.lease,
			"with a timeout of %v, granted at %v, the lease ends at", step.timeout, sent.Sub(start))
		sent = sent.Add(time.Millisecond)
		l.Answered(sent, sent, opcode.Multi, 0, step.timeout)
		eventstest.Equal(t, l.Deadline().Sub(start), step.written,
			"with a timeout of %v, and a write after it, the lease ends at", step.timeout)
	}
}

func TestTheTickUnlessItIsKnown(t *testing.T) {
	for _, c := range []struct{ tick, timeout, window time.Duration }{
		{0, 40 * time.Second, 1250 * time.Millisecond},
		{0, 4 * time.Second, 1250 * time.Millisecond},
		{0, time.Second, 312500 * time.Microsecond},
		{500 * time.Millisecond, 40 * time.Second, 312500 * time.Microsecond},
		{8 * time.Second, 40 * time.Second, 5 * time.Second},
	} {
		eventstest.Equal(t, window(c.tick, c.timeout), c.window, "the window of %v, %v", c.tick, c.timeout)
	}
}

// Frames are omitted to save memory. The result is never later than with all frames, and
// not much earlier, and the memory is bounded.
func TestWhatIsLeftOutIsSafe(t *testing.T) {
	ops := []int32{opcode.Ping, opcode.Multi, opcode.Multi, 4, opcode.Delete, opcode.Auth, 9}
	rapid.Check(t, func(t *rapid.T) {
		T := time.Duration(rapid.IntRange(10, 40_000).Draw(t, "timeout ms")) * time.Millisecond
		tick := time.Duration(rapid.Int64Range(0, int64(T/2)).Draw(t, "tick"))
		// From a stream with many requests per grain to one request every few timeouts.
		pause := rapid.SampledFrom([]time.Duration{T / 2000, T / 300, T / 100, T / 10, T}).Draw(t, "pause")
		latency := rapid.SampledFrom([]time.Duration{T / 1000, T / 50, T / 2}).Draw(t, "latency")
		start := time.Unix(1000, 0)
		n := &naive{tick: tick, timeout: T, handshake: start}
		p := New(tick)
		p.Answered(start, start, opcode.Connect, 0, T)
		now := start
		for i := range rapid.IntRange(1, 400).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(pause)).Draw(t, fmt.Sprint("pause ", i))))
			sent := now.Add(-time.Duration(rapid.Int64Range(0, int64(latency)).Draw(t, "latency")))
			if sent.Before(start) {
				sent = start
			}
			x := exchange{frame{sent, now}, rapid.SampledFrom(ops).Draw(t, "op"), 0}
			n.all = append(n.all, x)
			p.Answered(x.sent, x.answered, x.op, x.err, T)
			if exact := n.base(0); p.base.After(exact) {
				t.Fatalf("the base is %v after the start, want at most %v", p.base.Sub(start), exact.Sub(start))
			}
			least := n.base(T / grains)
			if p.base.Before(least) && least.Add(p.life).After(now) {
				t.Fatalf("base %v after the start, want %v at least", p.base.Sub(start), least.Sub(start))
			}
			if most := 2*grains + 2; len(p.later) > most {
				t.Fatalf("%d frames are remembered, want at most %d", len(p.later), most)
			}
			if !slices.IsSortedFunc(p.later, func(a, b frame) int { return a.sent.Compare(b.sent) }) {
				t.Fatalf("the frames are remembered as %v, want them in the order of sending", p.later)
			}
		}
	})
}
