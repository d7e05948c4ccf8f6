package lease

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

// TestWhenAProbeIsDue: an interval after the newest write, answered or not, but not while
// the probes of a whole timeout are in progress.
func TestWhenAProbeIsDue(t *testing.T) {
	const T, p = 10 * time.Second, time.Second
	start := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	for name, c := range map[string]struct {
		pace Pace
		want time.Duration // at 5 s
	}{
		"nothing was probed":           {Pace{Written: at(4500 * time.Millisecond)}, p / 2},
		"and long ago written":         {Pace{Written: at(0)}, -4 * p},
		"the probe before is answered": {Pace{Written: at(4 * p), Probed: at(4 * p)}, 0},
		"it is not answered":           {Pace{Written: at(p), Probed: at(4 * p), UnderWay: 1}, 0},
		"it was sent just now":         {Pace{Written: at(p), Probed: at(5 * p), UnderWay: 3}, p},
		"another write was since":      {Pace{Written: at(9 * p / 2), Probed: at(4 * p), UnderWay: 1}, p / 2},
		"nine are under way":           {Pace{Written: at(0), Probed: at(4 * p), UnderWay: 9}, 0},
		"ten are under way":            {Pace{Written: at(0), Probed: at(4 * p), UnderWay: 10}, p},
	} {
		c.pace.Interval, c.pace.Timeout = p, T
		eventstest.Equal(t, c.pace.Due(at(5*p)), c.want, "%s: until the next probe is due", name)
	}
	for interval, want := range map[time.Duration]int{T / 4: 4, T / 10: 10, T / 50: 50, T / 100: mostProbes, 20 * T: 1} {
		got := Pace{Interval: interval, Timeout: T}.most()
		eventstest.Equal(t, got, want, "the most probes that are under way, %v apart", interval)
	}
}

// bears returns the largest constant latency with which a lease never runs out, for a
// session that probes once per interval. The worst case:
//
//  1. Request f is answered a latency after it was sent.
//  2. The first write that is sent a window or more after that, up to an interval later,
//     is answered a latency after it was sent. Until then, the lease counts from the
//     request before f.
//  3. The request before f was sent up to an interval before it.
//
// So 2 latencies + window + 2 intervals must be less than the lifetime.
func bears(timeout, interval, tick time.Duration) time.Duration {
	return max(0, (lifetime(timeout)-window(tick, timeout)-2*interval)/2)
}

// outlives reports whether a lease never runs out, and the maximum number of probes in
// progress. Answers are quick at first. From the phase on, each takes as long as latency
// returns.
func outlives(timeout, interval, tick, phase time.Duration, latency func() time.Duration) (ok bool, most int) {
	const step = time.Millisecond
	start := time.Unix(1000, 0)
	l := New(tick)
	l.Answered(start, start, opcode.Connect, 0, timeout)
	type probe struct{ sent, due time.Time }
	var underWay []probe
	var probed time.Time
	for now := start; now.Before(start.Add(8 * timeout)); now = now.Add(step) {
		for len(underWay) > 0 && !now.Before(underWay[0].due) { // in order
			if l.Answered(underWay[0].sent, now, opcode.Multi, 0, timeout) {
				return false, most
			}
			underWay = underWay[1:]
		}
		if !now.Before(l.Deadline()) {
			return false, most
		}
		pace := Pace{Interval: interval, Timeout: timeout, Written: l.State().Written, Probed: probed, UnderWay: len(underWay)}
		if pace.Due(now) <= 0 {
			took := step
			if now.Sub(start) >= 3*timeout+phase {
				took = latency()
			}
			underWay, probed = append(underWay, probe{now, now.Add(took)}), now
			most = max(most, len(underWay))
		}
	}
	return true, most
}

// TestTheLargestLatencyThatALeaseBears: with that latency, constant or changing, no lease
// runs out, in whatever phase it begins. With an interval more, every lease does.
func TestTheLargestLatencyThatALeaseBears(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const part = 10 // of the timeout
	for _, c := range []struct{ timeout, interval, tick time.Duration }{
		{10 * time.Second, time.Second, 0},
		{10 * time.Second, time.Second, 500 * time.Millisecond},
		{10 * time.Second, 300 * time.Millisecond, 2 * time.Second},
		{4 * time.Second, 400 * time.Millisecond, 2 * time.Second}, // two ticks
		{6 * time.Second, 1500 * time.Millisecond, 500 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("T = %v, probes %v apart, tick %v", c.timeout, c.interval, c.tick), func(t *testing.T) {
			bearable := bears(c.timeout, c.interval, c.tick).Truncate(time.Millisecond) - 5*time.Millisecond // the steps of a clock
			for i := range part {
				phase := c.interval*time.Duration(i)/part + 7*time.Millisecond
				ok, most := outlives(c.timeout, c.interval, c.tick, phase, func() time.Duration { return bearable })
				if !ok || most > int(bearable/c.interval)+1 {
					t.Errorf("answers take %v from phase %v on: kept %v with %d probes under way, want it kept, with %d at most",
						bearable, phase, ok, most, bearable/c.interval+1)
				}
				changing := func() time.Duration { return time.Duration(rng.Int64N(int64(bearable)) + 1) }
				ok, _ = outlives(c.timeout, c.interval, c.tick, phase, changing)
				eventstest.Equal(t, ok, true, "answers take up to %v from phase %v on: kept", bearable, phase)
				late := bearable + c.interval + 20*time.Millisecond
				ok, _ = outlives(c.timeout, c.interval, c.tick, phase, func() time.Duration { return late })
				eventstest.Equal(t, ok, false, "answers take %v from phase %v on: kept", late, phase)
			}
		})
	}
}

// TestHowLongTheNewestWriteTook: reads and pings do not count.
func TestHowLongTheNewestWriteTook(t *testing.T) {
	start := time.Unix(1000, 0)
	l := New(0)
	l.Answered(start, start, opcode.Connect, 0, 10*time.Second)
	l.Answered(start, start.Add(3*time.Second), opcode.Multi, 0, 10*time.Second)
	l.Answered(start, start.Add(4*time.Second), opcode.Ping, 0, 10*time.Second)
	eventstest.Equal(t, l.State().Took, 3*time.Second, "how long the newest write took")
}
