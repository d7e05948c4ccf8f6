package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRollingUpgrade puts processes of an earlier version and of this one into one queue,
// for each kind of lock, with either as the holder and the other as the waiter.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1)
	present := compile(t, module, "./coordinator/reliability/upgrade/worker")
	for _, v := range versions {
		t.Run(strings.ReplaceAll(v.what, " ", "-"), func(t *testing.T) {
			t.Parallel()
			f := &fleet{
				t: t, servers: e.Connect(), root: "/" + v.commit[:7], inside: t.TempDir(),
				programs: map[string]string{before: v.build(t), after: present},
				raw:      coordtest.RawClient(t, e.Addr(0)),
			}
			for _, roles := range [][2]string{{before, after}, {after, before}} {
				f.upgrade(roles[0], roles[1])
			}
			f.empty(f.root)
		})
	}
}

// upgrade plays every scene with a process of one version that comes first, and a process
// of the other version.
func (f *fleet) upgrade(first, second string) {
	a, b := f.start(first, first, timeout), f.start(second, second, timeout)
	for _, kind := range []string{"mutex", "write", "detect", "revocable"} {
		f.inOrder(a, b, kind, 1)
	}
	f.inOrder(a, b, "permit", 2)
	f.readers(a, b)
	f.kept(a, b)
	f.revoked(a, b)
	f.crashed(first, b)
	if first == before { // both contend on equal terms, so once is enough
		for _, kinds := range [][]string{{"mutex"}, {"cached"}, {"unfair"}, {"detect"}, {"permit"}, {"read", "write"}} {
			f.contend(a, b, kinds)
		}
	}
	f.drained(a, b)
}

func (f *fleet) path(scene string, a *worker) string { return f.root + "/" + scene + "-" + a.name }

// acquired acquires a lock with a worker, and returns its Grant.
func (f *fleet) acquired(w *worker, id, kind, at string) news {
	f.t.Helper()
	w.tell(order{id, "acquire", kind, at})
	return w.hear(id, "granted")
}

// grow checks that the tokens grow.
func (f *fleet) grow(at string, tokens ...int64) {
	f.t.Helper()
	grow := slices.IsSorted(tokens) && len(slices.Compact(slices.Clone(tokens))) == len(tokens)
	eventstest.Expect(f.t, grow, "%s: the tokens are %#x, want them to grow", at, tokens)
}

// inOrder puts six contenders of both versions at one lock, which the given number may
// hold at a time. They are granted the lock in order, and no Grant reports a crash.
func (f *fleet) inOrder(a, b *worker, kind string, holders int) {
	at := f.path("order-"+kind, a)
	dir, nodes := at, 0 // nodes of waiters, and of a mutex's holder
	if kind == "permit" {
		dir, nodes = at+"/locks", -holders
	}
	queue := []*worker{a, b, a, b, b, a}
	var tokens []int64
	granted := func(i int) {
		got := queue[i].hear(fmt.Sprint(kind, i), "granted")
		tokens = append(tokens, got.Token)
		eventstest.Expect(f.t, got.Abandoned == 0, "%s: %+v of %s, want no crash", at, got, queue[i].name)
	}
	for i, w := range queue {
		w.tell(order{fmt.Sprint(kind, i), "acquire", kind, at})
		if nodes++; i < holders {
			granted(i)
		} else {
			coordtest.Queued(f.t, f.raw, dir, nodes)
		}
	}
	for i, w := range queue {
		w.tell(order{ID: fmt.Sprint(kind, i), Do: "release"})
		if i+holders < len(queue) {
			granted(i + holders)
		}
		w.over(fmt.Sprint(kind, i))
	}
	f.grow(at, tokens...)
	f.empty(at)
}

// readers: readers of both versions hold together, and a writer waits for both.
func (f *fleet) readers(a, b *worker) {
	at := f.path("readers", a)
	f.acquired(a, "reader a", "read", at)
	first := f.acquired(b, "reader b", "read", at)
	b.tell(order{"writer b", "acquire", "write", at})
	coordtest.Queued(f.t, f.raw, at, 3)
	a.tell(order{"reader behind", "acquire", "read", at})
	coordtest.Queued(f.t, f.raw, at, 4)
	a.releases("reader a")
	b.releases("reader b")
	writer := b.hear("writer b", "granted")
	b.releases("writer b")
	f.grow(at, first.Token, writer.Token, a.hear("reader behind", "granted").Token)
	a.releases("reader behind")
	f.empty(at)
}

// kept: the node that a cached lock keeps is released for a contender of the other
// version. An earlier version without cached locks uses a mutex.
func (f *fleet) kept(a, b *worker) {
	at := f.path("kept", a)
	var tokens []int64
	for range 2 {
		tokens = append(tokens[:0], f.acquired(a, "kept", "cached", at).Token)
		a.releases("kept")
	}
	tokens = append(tokens, f.acquired(b, "kept", "mutex", at).Token)
	a.tell(order{"kept again", "acquire", "cached", at})
	coordtest.Queued(f.t, f.raw, at, 2)
	b.releases("kept")
	tokens = append(tokens, a.hear("kept again", "granted").Token)
	a.releases("kept again")
	tokens = append(tokens, f.acquired(b, "last", "mutex", at).Token) // the kept node is released for it
	b.releases("last")
	f.grow(at, tokens...)
	f.empty(at)
}

// revoked: a holder of one version loses its lock because the other one revokes it.
func (f *fleet) revoked(a, b *worker) {
	at := f.path("revoked", a)
	f.acquired(a, "revoked", "revocable", at)
	b.tell(order{"wish", "revoke", "", at})
	a.hear("revoked", "lost")
	n := b.hear("wish", "revoked")
	eventstest.Expect(f.t, n.Error == "", "%s: Revoke returned %q, want nil", at, n.Error)
	a.tell(order{ID: "revoked", Do: "release"})
	a.hear("revoked", "done")
	f.empty(at)
}

// crashed: a holder of one version is killed, and the other version's Grants report the
// crash until a holder has released.
func (f *fleet) crashed(version string, b *worker) {
	victim := f.start(version, "victim-"+version, brief)
	at := f.path("crashed", victim)
	held := f.acquired(victim, "victim", "detect", at)
	b.tell(order{"survivor", "acquire", "detect", at})
	coordtest.Queued(f.t, f.raw, at, 2)
	eventstest.Must(f.t, victim.Kill())
	got := b.hear("survivor", "granted")
	f.grow(at, held.Token, got.Token)
	eventstest.Expect(f.t, got.Abandoned == held.Token && got.Data == victim.name,
		"%s: granted %+v, want the holder of %#x and its data %q as the one that crashed",
		at, got, held.Token, victim.name)
	b.releases("survivor")
	got = f.acquired(b, "next", "detect", at)
	eventstest.Expect(f.t, got.Abandoned == 0, "%s: granted %+v after a release, want no crash", at, got)
	b.releases("next")
	f.empty(at)
}

// contend runs two contenders of each version and kind in a loop, until there were enough
// handoffs from each version to the other.
func (f *fleet) contend(a, b *worker, kinds []string) {
	at := f.path("contend-"+kinds[0], a)
	crew, handoffs := []*worker{a, b}, eventstest.Amount(10, 100)
	each := func(do func(w *worker, id, kind string)) {
		for _, w := range crew {
			for _, kind := range kinds {
				for n := range 2 {
					do(w, fmt.Sprint(kind, " loop ", n), kind)
				}
			}
		}
	}
	each(func(w *worker, id, kind string) { w.tell(order{id, "loop", kind, at}) })
	went := map[[2]string]int{}
	eventstest.Eventually(f.t, fmt.Sprintf("%s goes %d times from each version to the other", at, handoffs), func() bool {
		clear(went)
		all := f.grants(at)
		for i := range len(all) - 1 {
			went[[2]string{all[i].name, all[i+1].name}]++
		}
		return min(went[[2]string{a.name, b.name}], went[[2]string{b.name, a.name}]) >= handoffs
	}, func() string { return fmt.Sprint("it went ", went) })
	each(func(w *worker, id, _ string) { w.tell(order{ID: id, Do: "stop"}) })
	each(func(w *worker, id, _ string) {
		n := w.hear(id, "done")
		eventstest.Expect(f.t, n.Error == "", "%s of %s: %s", id, w.name, n.Error)
	})
	f.judge(at, f.grants(at))
	if kinds[0] == "cached" { // a node may still be kept
		for _, w := range crew {
			f.acquired(w, "end of the loops", "mutex", at)
			w.releases("end of the loops")
		}
	}
	f.empty(at)
}

// judge checks that the fences of grants grow. Readers that hold together may come in any
// order, and so may permits.
func (f *fleet) judge(at string, all []grant) {
	f.t.Helper()
	less := func(g, than grant) bool {
		return g.token < than.token || g.token == than.token && g.turn < than.turn
	}
	var latest, writer grant
	for _, g := range all {
		before := latest
		switch g.kind {
		case "permit":
			continue
		case "read":
			before = writer
		}
		eventstest.Expect(f.t, less(before, g), "%s: %+v after %+v, want a greater fence", at, g, before)
		if less(latest, g) {
			latest = g
		}
		if g.kind == "write" {
			writer = g
		}
	}
}

// drained: a process ends, as the last one of a version does, while it holds a lock that
// the other one waits for.
func (f *fleet) drained(a, b *worker) {
	at := f.path("drained", a)
	held := f.acquired(a, "drained", "mutex", at)
	a.tell(order{"drained waiter", "acquire", "mutex", at})
	coordtest.Queued(f.t, f.raw, at, 2)
	b.tell(order{"heir", "acquire", "mutex", at})
	coordtest.Queued(f.t, f.raw, at, 3)
	eventstest.Must(f.t, a.HangUp())
	f.grow(at, held.Token, b.hear("heir", "granted").Token)
	eventstest.Must(f.t, b.HangUp())
	f.empty(at)
}
