package schedules

import (
	"math/rand/v2"
	"time"
)

// plan is what a seed decides in advance.
type plan struct {
	seed      uint64
	kind      kind
	recipe    recipe
	form      form
	detects   bool // the locks report crashes
	size      sizing
	caching   caching
	tick      time.Duration
	followers bool
	paths     []string
	clients   []clientPlan
	length    time.Duration // until everything heals
}

// kind says which faults a schedule may have, and so which checks apply.
type kind string

const (
	ordinary kind = "ordinary" // the faults of a network and an ensemble
	mild     kind = "mild"     // only faults that a lease outlives
	decreed  kind = "decreed"  // live sessions are ended, too
	meddled  kind = "meddled"  // nodes are deleted by another client, too
)

type clientPlan struct {
	timeout time.Duration
	probe   time.Duration // 0: the default
	told    bool          // whether the server's tick is set as an option
	strict  bool          // a lost connection is a loss
	stream  streamPlan
	workers int

	unsteady bool // now and then one of its frames meets a fault
}

type streamPlan uint8

const (
	noStream streamPlan = iota + 1
	quickStream
	slowStream
)

type random struct{ *rand.Rand }

// newRandom returns the random source of one part of a schedule.
func newRandom(seed uint64, p part, number int) random {
	return random{rand.New(rand.NewPCG(seed, uint64(p)<<32+uint64(number)))}
}

// part is a part of the schedule. Each part has its own random source, so its decisions
// do not change those of the others.
type part uint64

const (
	planning part = iota + 1
	disturbing
	losing // replies to creates
	framing
	reading
	working
)

// oneIn returns true with probability 1/n.
func (r random) oneIn(n int) bool { return r.IntN(n) == 0 }

func (r random) upTo(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// pick returns one of the choices.
func pick[T any](r random, choices ...T) T { return choices[r.IntN(len(choices))] }

func allPaths() []string { return []string{"/locks/a", "/b", "/locks/deep/c"} }

func newPlan(seed uint64) plan {
	r := newRandom(seed, planning, 0)
	p := plan{
		seed:      seed,
		recipe:    recipeOf(seed),
		form:      formOf(seed),
		detects:   detectsOf(seed),
		size:      newSizing(seed),
		caching:   newCaching(seed),
		kind:      pick(r, ordinary, ordinary, ordinary, ordinary, mild, mild, decreed, meddled),
		tick:      pick(r, time.Second/2, time.Second, 2*time.Second),
		followers: r.oneIn(2),
		paths:     allPaths()[:1+r.IntN(3)],
	}
	if p.recipe == several || p.recipe == cached {
		p.paths = allPaths()
	}
	for range 2 + r.IntN(3) {
		c := clientPlan{
			timeout: p.tick * pick[time.Duration](r, 2, 2, 3, 4, 6, 10, 20, 20),
			told:    r.oneIn(2),
			stream:  pick(r, noStream, noStream, quickStream, slowStream),
			workers: 1 + r.IntN(3),
		}
		if p.recipe == cached {
			c.workers += 2 // they share a node
		}
		if p.kind == mild {
			c.timeout = p.tick * pick[time.Duration](r, 10, 15, 20)
		} else {
			c.strict, c.unsteady = r.oneIn(6), r.oneIn(4)
			if r.oneIn(4) {
				c.probe = c.timeout / time.Duration(4+r.IntN(20))
			}
		}
		p.clients = append(p.clients, c)
	}
	p.length = 2*p.longest() + r.upTo(3*p.longest())
	return p
}

// longest returns the longest session timeout.
func (p plan) longest() time.Duration {
	longest := time.Duration(0)
	for _, c := range p.clients {
		longest = max(longest, c.timeout)
	}
	return longest
}

// outage returns how long a fault may last. In a mild schedule, a lease outlives it. That
// includes the lease of a lock just granted after a long wait with only a ping per third
// of the timeout: it counts from the newest ping that was five eighths of a tick older
// than the claim. By then, the next connection may be a second away, and slow.
func (p plan) outage(r random, timeout time.Duration) time.Duration {
	if p.kind == mild {
		window := min(2*time.Second, timeout/2) * 5 / 8 // of a tick that the client is not told
		outlived := timeout*19/20 - timeout/3 - window - time.Second - timeout/20
		return time.Millisecond + r.upTo(min(outlived, timeout*2/5))
	}
	switch r.IntN(4) {
	case 0:
		return time.Millisecond + r.upTo(timeout/10)
	case 1:
		return r.upTo(timeout)
	case 2:
		return timeout*4/5 + r.upTo(timeout*2/3)
	default:
		return timeout + r.upTo(2*timeout)
	}
}
