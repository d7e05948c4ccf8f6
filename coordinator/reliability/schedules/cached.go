package schedules

import (
	"math/rand/v2"
	"path"
	"slices"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// Schedules of cached locks: the acquisitions that share a node hold it in turns. The
// tests check how many turns precede a waiting contender, and which nodes are left when
// the lock is no longer used.

type caching struct {
	size     int
	idle     time.Duration
	handoffs int
	lasts    time.Duration // the time limit for these handoffs
	mixed    bool          // some handles are uncached, and some acquisitions share their node with only some of the others
	closes   bool          // idle nodes are left to Close
}

func newCaching(seed uint64) caching {
	r := newRandom(seed, planning, 2)
	return caching{
		size:     pick(r, 0, 1, 2, 1024, 1024),
		idle:     pick(r, 10*time.Millisecond, time.Second, time.Minute),
		handoffs: pick(r, 0, 1, 3, 64),
		lasts:    pick(r, 0, 50*time.Millisecond, 5*time.Second),
		mixed:    r.oneIn(4),
		closes:   r.oneIn(4),
	}
}

// others reports whether an acquisition differs from most at its path. The virtual time
// decides, as for a multi-lock.
func (w *world) others() bool {
	now := uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	return w.recipe == cached && w.caching.mixed && rand.New(rand.NewPCG(w.seed, now)).IntN(6) == 0
}

func (l *life) cached(path string) *coordinator.Lock {
	w := l.client.world
	options := l.client.options()
	if w.others() {
		return l.Mutex(path, options...)
	}
	return l.Mutex(path, append(options, coordinator.Cached(coordinator.CacheHandoffs(w.caching.handoffs), coordinator.CacheFor(w.caching.lasts)))...)
}

// path picks a path. A client of cached locks stays with one path for a while.
func (k *worker) path() string {
	w := k.world
	anyone := pick(k.random, w.paths...)
	if w.recipe != cached || k.oneIn(4) {
		return anyone
	}
	turn := int(time.Since(w.begun) / (2 * k.client.timeout))
	return w.paths[(k.client.number+turn)%len(w.paths)]
}

func (k *worker) pause() time.Duration {
	d := k.upTo(k.client.timeout / 5)
	if k.world.recipe == cached && !k.oneIn(3) {
		d /= 20
	}
	return time.Millisecond + d
}

// brief returns how long to hold: hold or less.
func (k *worker) brief(hold time.Duration) time.Duration {
	if k.world.recipe == cached && !k.oneIn(4) {
		return min(hold, k.upTo(20*time.Millisecond))
	}
	return hold
}

// passed is a waiting contender, and the node that passed it.
type passed struct{ node, by string }

// passes records which contenders wait at a Grant without a request, unless the Grant was
// read late.
func (t *tenure) passes() {
	w := t.world()
	if t.grant.Turn == 0 || !t.quick {
		return
	}
	w.count("grants of a kept node", 1)
	for _, node := range w.nodes(t.path) {
		if name, ok := events.ParseName(path.Base(node)); !ok || name.Kind == 0 || sequence(node) <= sequence(t.grant.Node) {
			continue
		}
		w.mu.Lock()
		p := passed{node, t.grant.Node}
		if before := w.passed[p]; len(before) == 0 || before[len(before)-1].grant.Turn != t.grant.Turn {
			w.passed[p] = append(before, t)
		}
		w.mu.Unlock()
	}
}

// judgePasses fails if a contender was passed too often or for too long, counted from
// when it must have been known: the answer to a write that was sent within two probe
// intervals arrives after the event of the contender. Both may arrive at the same
// instant, when a connection heals, and the answer may be noticed first, so passes at
// that instant do not count. A client is excused if an event to it was lost but a later
// answer was not. TCP never does that, so the behaviour of such a client proves nothing.
func (w *world) judgePasses() {
	for p, all := range w.passed {
		c := all[0].life.client
		if w.excused(all[0]) || c.deaf.Load() {
			continue
		}
		interval := c.timeout / 10
		if c.probe != 0 {
			interval = min(interval, c.probe)
		}
		slices.SortFunc(all, func(a, b *tenure) int { return a.at.Compare(b.at) })
		known := slices.IndexFunc(all, func(t *tenure) bool { return t.at.Sub(all[0].at) > 2*interval })
		if known < 0 {
			continue
		}
		for at := all[known].at; known < len(all) && all[known].at.Equal(at); {
			known++
		}
		if known == len(all) {
			continue
		}
		w.count("passed when known", len(all)-known)
		took := all[len(all)-1].at.Sub(all[known].at)
		if n := len(all) - known; n > w.caching.handoffs || took > w.caching.lasts {
			w.failf("%s was passed %d times by %s within %v when it was known, want %d times within %v at most",
				p.node, n, p.by, took, w.caching.handoffs, w.caching.lasts)
		}
	}
}

// settleIdle waits for idle nodes to be deleted, and reports whether that happens before
// Close. A path has at most one: any other contender makes it go.
func (w *world) settleIdle() bool {
	for _, p := range w.paths {
		left := w.nodes(p)
		if len(left) == 0 {
			continue
		}
		w.count("nodes kept idle", len(left))
		if marks, _ := events.MarksOf(left[0]); len(left) > 1 || marks&events.MarkCached == 0 {
			w.failf("nodes left: %v, want one that is cached at most", left)
		}
	}
	if w.caching.closes {
		return false
	}
	time.Sleep(w.caching.idle + w.longest())
	synctest.Wait()
	return true
}
