package schedules

import (
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// Schedules of multi-locks: a worker acquires its path together with some others, or
// alone, as a mutex or as a multi-lock of one. What holds for a path holds for each
// member, so a Grant is a tenure of each path.

// several returns a lock whose first member is at the path. The virtual time decides the
// other members, not the worker's random source, so that its decisions are the same as
// for every other kind of lock.
func (l *life) several(first string) *coordinator.Lock {
	w := l.client.world
	r := rand.New(rand.NewPCG(w.seed, uint64(time.Now().UnixNano())))
	if r.IntN(3) == 0 {
		return l.Mutex(first)
	}
	others := slices.DeleteFunc(slices.Clone(w.paths), func(p string) bool { return p == first })
	r.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	locks := []*coordinator.Lock{l.Mutex(first)}
	for _, p := range others[:r.IntN(len(others)+1)] {
		locks = append(locks, l.Mutex(p))
	}
	w.count("multi-locks", 1)
	return l.Multi(locks...)
}

// addOthers creates the tenures of a multi-lock's other members.
func (t *tenure) addOthers() {
	for _, m := range t.grant.Members[min(1, len(t.grant.Members)):] {
		other := *t
		other.path, other.others = m.Path, nil
		other.grant.Path, other.grant.Node, other.grant.Members = m.Path, m.Node, nil
		t.others = append(t.others, &other)
	}
}

// beginOthers is begin for the other members.
func (t *tenure) beginOthers() {
	w := t.world()
	for _, other := range t.others {
		other.quick = t.quick
		member := path.Dir(other.grant.Node) == other.path && nameOf(other.grant.Node) == nameOf(t.grant.Node)
		w.expect(member, "%s is no member's of %s", other.grant.Node, t.grant.Node)
		w.mu.Lock()
		before := slices.Clone(w.tenures[other.path])
		w.tenures[other.path] = append(w.tenures[other.path], other)
		w.mu.Unlock()
		for _, b := range before {
			w.exclusive(b, other)
		}
		other.first()
	}
}
