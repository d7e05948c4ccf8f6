package schedules

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A semaphore's permits: how many are held at one instant, according to the holders and
// to the server; that an acquisition has all of its permits or none; and that only the
// first in the queue takes permits.

const (
	queueOf  = "/locks"
	leasesOf = "/leases"
)

// sizing says how many permits a semaphore has.
type sizing struct {
	first   int // the size with which every handle begins
	most    int // the greatest size so far
	resizes bool
}

func newSizing(seed uint64) sizing {
	r := newRandom(seed, planning, 1)
	s := sizing{first: 1 + r.IntN(4), resizes: r.oneIn(3)}
	if s.most = s.first; s.resizes {
		s.most += 2
	}
	return s
}

// permits picks how many permits to acquire: never more than the size is at any time.
func (k *worker) permits() int {
	if k.world.recipe != semaphore {
		return 1
	}
	return 1 + k.IntN(k.world.size.first)
}

func (l *life) semaphore(path string) *coordinator.Semaphore {
	size := l.client.world.size
	options := l.client.options()
	if size.resizes {
		options = append(options, coordinator.AdoptSize())
	}
	return l.Semaphore(path, size.first, options...)
}

// resize changes the size, but never to less than the first one.
func (w *world) resize(r random) {
	life, lock := w.victim(r).get(), pick(r, w.paths...)
	permits := w.size.first + r.IntN(w.size.most-w.size.first+1)
	if life == nil {
		return
	}
	w.logf("%s: resizes %s to %d", life.client.name, lock, permits)
	w.crew.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), life.client.timeout)
		defer cancel()
		err := life.semaphore(lock).Resize(ctx, permits)
		w.logf("%s: resized %s: %v", life.client.name, lock, err)
		switch {
		case err == nil:
			w.count("resized", 1)
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, coordinator.ErrClosed) && life.closing.Load() != nil:
		default:
			w.failf("%s: resizing %s: %v", life.client.name, lock, err)
		}
	})
}

// enters checks a request that trades a place in the queue for leases, or takes leases at
// once, before it is executed.
func (w *world) enters(q zktest.Request) {
	place, leases, left, first := "", 0, 0, ""
	for _, part := range q.Parts {
		switch dir := path.Base(path.Dir(part.Path)); {
		case part.Op == zktest.OpDelete && dir == path.Base(queueOf):
			place = part.Path
		case part.Op == zktest.OpDelete && dir == path.Base(leasesOf):
			left++
		case part.Op == zktest.OpCreate && dir == path.Base(leasesOf):
			leases++
			first = part.Path
		}
	}
	if place == "" && leases > 0 {
		w.entersAtOnce(first, leases, left)
		return
	}
	if _, found := guid(place); !found || leases == 0 {
		return
	}
	w.count("entered", 1)
	if !w.srv.Exists(place) {
		return // it will be refused
	}
	for _, other := range w.srv.Children(path.Dir(place)) {
		w.expect(sequence(other) >= sequence(place), "%s enters before %s", place, other)
	}
}

// entersAtOnce records whether leases that are taken without a place in the queue must be
// returned.
func (w *world) entersAtOnce(lease string, leases, left int) {
	id, found := guid(lease)
	if !found {
		return
	}
	dir := path.Dir(lease)
	lock := path.Dir(dir)
	data, _ := w.srv.Data(path.Join(lock, session.SizeNode))
	size := int(session.ParseSize(data))
	spare := len(w.srv.Children(lock+queueOf)) > 0 || len(w.srv.Children(dir))+leases-left > size
	w.mu.Lock()
	w.spare[id] = spare
	w.mu.Unlock()
	if w.count("entered at once", 1); spare {
		w.count("gave permits back", 1)
	}
}

// crowd fails if more permits of a path are held at one instant than the greatest size.
func (w *world) crowd(lock string) {
	if w.recipe != semaphore {
		return
	}
	w.mu.Lock()
	all := slices.Clone(w.tenures[lock])
	w.mu.Unlock()
	all = slices.DeleteFunc(all, func(t *tenure) bool { return !t.valid() || w.excused(t) })
	permits := 0
	for _, t := range all {
		if t.valid() { // so all of these were valid when the last of them was checked above
			permits += t.permits
		}
	}
	if permits > w.size.most {
		w.count("two holders", 1)
		w.failf("%d permits of %s are held, and there are %d", permits, lock, w.size.most)
	}
	if permits > 1 && len(all) > 1 {
		w.count("permits held by several", 1)
	}
	w.checkLeases(lock, all)
}

// checkLeases fails if the server has more leases than the greatest size, or if it lacks
// one of a holder's. A contender that does not hold may be giving its leases back one
// after the other.
func (w *world) checkLeases(lock string, holders []*tenure) {
	leases := w.srv.Children(lock + leasesOf)
	have := map[string]int{}
	for _, lease := range leases {
		have[nameOf(lease)]++
	}
	for _, t := range holders {
		if n := have[nameOf(t.grant.Node)]; n != t.permits && t.valid() && !w.excused(t) {
			w.failf("%s holds %d permits, and has %d of these: %v", t.grant.Node, t.permits, n, leases)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	held := 0
	for id, n := range have {
		if !w.spare[id] {
			held += n
		}
	}
	if held > w.size.most {
		w.failures = append(w.failures, fmt.Sprintf("%d leases in %s: %v", held, lock, leases))
	}
}
