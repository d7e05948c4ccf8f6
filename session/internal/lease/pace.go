package lease

import "time"

// mostProbes bounds the probes under way where the interval is very short: each takes a
// goroutine, and a place among the requests.
const mostProbes = 64

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

// most returns how many probes may be under way: those of one timeout.
func (p Pace) most() int { return min(max(int(p.Timeout/p.Interval), 1), mostProbes) }

// Bears returns the largest latency of all answers with which a lease never runs out, for
// a session that probes once an interval. The worst case:
//
//  1. Request f is answered a latency after it was sent.
//  2. The first write that is sent a window after that, up to an interval later, is
//     answered a latency after its sending. Until then the lease counts from before f.
//  3. The request before f was sent up to an interval before it.
//
// So 2 latencies + window + 2 intervals have to be less than the lifetime.
func Bears(timeout, interval, tick time.Duration) time.Duration {
	p := proof{tick: tick, timeout: timeout}
	return max(0, (lifetime(timeout)-p.window()-2*interval)/2)
}
