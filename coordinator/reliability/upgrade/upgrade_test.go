package upgrade

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestRollingUpgrade has processes of an earlier version and of this one in one queue, for each kind of lock, with either as the
// holder and the other one as the waiter.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1)
	present := compile(t, module, "./coordinator/reliability/upgrade/worker")
	for _, v := range versions {
		t.Run(strings.ReplaceAll(v.what, " ", "-"), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, e.Connect(), "/"+v.commit[:7], v.build(t), present)
			for _, roles := range [][2]string{{before, after}, {after, before}} {
				f.upgrade(roles[0], roles[1])
			}
			f.empty(f.root)
		})
	}
}

func newFleet(t *testing.T, servers, root, earlier, present string) *fleet {
	t.Helper()
	f := &fleet{t: t, servers: servers, root: root, inside: t.TempDir(), programs: map[string]string{before: earlier, after: present}}
	conn, events, err := zk.Connect([]string{servers}, timeout, zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	f.raw = conn
	t.Cleanup(func() {
		conn.Close()
		for range events { // until the client's goroutines have ended
		}
	})
	return f
}

// upgrade plays every scene with a process of one version that comes first and a process of the other version.
func (f *fleet) upgrade(first, second string) {
	a, b := f.start(first, first, timeout), f.start(second, second, timeout)
	for _, kind := range []string{"mutex", "write", "detect", "revocable"} {
		f.inOrder(a, b, kind)
	}
	f.readers(a, b)
	f.permits(a, b)
	f.kept(a, b)
	f.revoked(a, b)
	f.crashed(first, b)
	if first == before { // they contend on equal terms: once is enough
		for _, kinds := range [][]string{{"mutex"}, {"cached"}, {"unfair"}, {"detect"}, {"permit"}, {"read", "write"}} {
			f.contend(a, b, kinds)
		}
	}
	f.drained(a, b)
}

func (f *fleet) path(scene string, a *worker) string { return f.root + "/" + scene + "-" + a.name }

// acquired is a lock that a worker has.
func (f *fleet) acquired(w *worker, id, kind, at string) news {
	f.t.Helper()
	w.tell(order{id, "acquire", kind, at})
	return w.hear(id, "granted")
}

// inOrder has six contenders of both versions at one lock. Each is granted the lock after the one before.
func (f *fleet) inOrder(a, b *worker, kind string) {
	at := f.path("order-"+kind, a)
	last := f.acquired(a, kind+"0", kind, at)
	queue := []*worker{a, b, a, b, b, a}
	for i, w := range queue[1:] {
		w.tell(order{fmt.Sprint(kind, i+1), "acquire", kind, at})
		f.queued(at, i+2)
	}
	for i, w := range queue {
		id := fmt.Sprint(kind, i)
		w.tell(order{ID: id, Do: "release"})
		if i+1 < len(queue) {
			next := queue[i+1].hear(fmt.Sprint(kind, i+1), "granted")
			if next.Token <= last.Token || next.Abandoned != 0 {
				f.t.Errorf("%s: after %+v of %s comes %+v of %s; want a greater token, and no crash", at, last, w.name, next, queue[i+1].name)
			}
			last = next
		}
		w.over(id)
	}
	f.empty(at)
}

// readers: one of each version hold together, and a writer waits for both.
func (f *fleet) readers(a, b *worker) {
	at := f.path("readers", a)
	f.acquired(a, "reader a", "read", at)
	first := f.acquired(b, "reader b", "read", at)
	b.tell(order{"writer b", "acquire", "write", at})
	f.queued(at, 3)
	a.tell(order{"reader behind", "acquire", "read", at})
	f.queued(at, 4)
	a.tell(order{ID: "reader a", Do: "release"})
	a.over("reader a")
	b.tell(order{ID: "reader b", Do: "release"})
	b.over("reader b")
	writer := b.hear("writer b", "granted")
	b.tell(order{ID: "writer b", Do: "release"})
	b.over("writer b")
	last := a.hear("reader behind", "granted")
	if first.Token >= writer.Token || writer.Token >= last.Token {
		f.t.Errorf("%s: the tokens of reader, writer and reader are %#x, %#x and %#x; want them to grow", at, first.Token, writer.Token, last.Token)
	}
	a.tell(order{ID: "reader behind", Do: "release"})
	a.over("reader behind")
	f.empty(at)
}

// permits: a semaphore's two are taken by both versions, and a returned one goes to the first in the queue.
func (f *fleet) permits(a, b *worker) {
	at := f.path("permits", a)
	f.acquired(a, "permit 0", "permit", at)
	last := f.acquired(b, "permit 1", "permit", at)
	queue := []*worker{a, b, a, b}
	for i, w := range queue[2:] {
		w.tell(order{fmt.Sprint("permit ", i+2), "acquire", "permit", at})
		f.queued(at+"/locks", i+1)
	}
	for i, w := range queue {
		id := fmt.Sprint("permit ", i)
		w.tell(order{ID: id, Do: "release"})
		w.over(id)
		if i+2 < len(queue) {
			next := queue[i+2].hear(fmt.Sprint("permit ", i+2), "granted")
			if next.Token <= last.Token {
				f.t.Errorf("%s: token %#x of %s comes after %#x, want it greater", at, next.Token, queue[i+2].name, last.Token)
			}
			last = next
		}
	}
	f.empty(at)
}

// kept: the node that a cached lock keeps is given up for a contender of the other version. For an earlier version without such
// locks it is a mutex.
func (f *fleet) kept(a, b *worker) {
	at := f.path("kept", a)
	var last news
	for i := range 2 {
		id := fmt.Sprint("kept ", i)
		last = f.acquired(a, id, "cached", at)
		a.tell(order{ID: id, Do: "release"})
		a.over(id)
	}
	next := f.acquired(b, "kept", "mutex", at)
	if next.Token <= last.Token {
		f.t.Errorf("%s: token %#x comes after %#x, want it greater", at, next.Token, last.Token)
	}
	a.tell(order{"kept again", "acquire", "cached", at})
	f.queued(at, 2)
	b.tell(order{ID: "kept", Do: "release"})
	b.over("kept")
	if again := a.hear("kept again", "granted"); again.Token <= next.Token {
		f.t.Errorf("%s: token %#x comes after %#x, want it greater", at, again.Token, next.Token)
	}
	a.tell(order{ID: "kept again", Do: "release"})
	a.over("kept again")
	b.tell(order{"last", "acquire", "mutex", at}) // the node that is kept goes for it
	b.hear("last", "granted")
	b.tell(order{ID: "last", Do: "release"})
	b.over("last")
	f.empty(at)
}

// revoked: a holder of one version loses its lock because the other one asks for it.
func (f *fleet) revoked(a, b *worker) {
	at := f.path("revoked", a)
	f.acquired(a, "revoked", "revocable", at)
	b.tell(order{"wish", "revoke", "", at})
	a.hear("revoked", "lost")
	if n := b.hear("wish", "revoked"); n.Error != "" {
		f.t.Errorf("%s: Revoke returned %q, want nil", at, n.Error)
	}
	a.tell(order{ID: "revoked", Do: "release"})
	a.hear("revoked", "done")
	f.empty(at)
}

// crashed: a holder of one version is killed, and the other one is told of it, until it has released.
func (f *fleet) crashed(version string, b *worker) {
	victim := f.start(version, "victim-"+version, brief)
	at := f.path("crashed", victim)
	held := f.acquired(victim, "victim", "detect", at)
	b.tell(order{"survivor", "acquire", "detect", at})
	f.queued(at, 2)
	if err := victim.Kill(); err != nil {
		f.t.Fatal(err)
	}
	got := b.hear("survivor", "granted")
	if got.Token <= held.Token || got.Abandoned != held.Token || got.Data != victim.name {
		f.t.Errorf("%s: granted %+v, want a token greater than %#x, and that holder and its data %q as the one that crashed", at, got, held.Token, victim.name)
	}
	b.tell(order{ID: "survivor", Do: "release"})
	b.over("survivor")
	if got = f.acquired(b, "next", "detect", at); got.Abandoned != 0 {
		f.t.Errorf("%s: granted %+v after a release, want no crash", at, got)
	}
	b.tell(order{ID: "next", Do: "release"})
	b.over("next")
	f.empty(at)
}

// handoffs is how many handoffs there have to be from either version to the other one.
func handoffs() int { return eventstest.Amount(10, 100) }

// contend has two contenders of each version and kind in a loop, until there were enough handoffs from either to the other one.
func (f *fleet) contend(a, b *worker, kinds []string) {
	at := f.path("contend-"+kinds[0], a)
	crew := []*worker{a, b}
	each := func(do string) {
		for _, w := range crew {
			for _, kind := range kinds {
				for n := range 2 {
					w.tell(order{fmt.Sprint(kind, " loop ", n), do, kind, at})
				}
			}
		}
	}
	each("loop")
	there, back := 0, 0
	eventstest.Eventually(f.t, fmt.Sprintf("%s goes %d times from each version to the other one", at, handoffs()), func() bool {
		there, back = 0, 0
		all := f.grants(at)
		for i := range len(all) - 1 {
			switch from, to := all[i].name, all[i+1].name; {
			case from == a.name && to == b.name:
				there++
			case from == b.name && to == a.name:
				back++
			}
		}
		return min(there, back) >= handoffs()
	}, func() string { return fmt.Sprintf("it went %d times there and %d times back", there, back) })
	each("stop")
	for _, w := range crew {
		for _, kind := range kinds {
			for n := range 2 {
				if n := w.hear(fmt.Sprint(kind, " loop ", n), "done"); n.Error != "" {
					f.t.Errorf("%s of %s: %s", n.ID, w.name, n.Error)
				}
			}
		}
	}
	f.judge(at, f.grants(at))
	if kinds[0] == "cached" { // a node may be kept
		for _, w := range crew {
			f.acquired(w, "end of the loops", "mutex", at)
			w.tell(order{ID: "end of the loops", Do: "release"})
			w.over("end of the loops")
		}
	}
	f.empty(at)
}

// judge checks that the fences of grants grow. Readers that hold together may come in any order, and so may permits.
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
		if !less(before, g) {
			f.t.Errorf("%s: %+v comes after %+v, want a greater fence", at, g, before)
		}
		if less(latest, g) {
			latest = g
		}
		if g.kind == "write" {
			writer = g
		}
	}
}

// drained: a process ends while it holds a lock that the other one waits for, as the last one of a version does.
func (f *fleet) drained(a, b *worker) {
	at := f.path("drained", a)
	held := f.acquired(a, "drained", "mutex", at)
	a.tell(order{"drained waiter", "acquire", "mutex", at})
	f.queued(at, 2)
	b.tell(order{"heir", "acquire", "mutex", at})
	f.queued(at, 3)
	if err := a.HangUp(); err != nil {
		f.t.Fatal(err)
	}
	if got := b.hear("heir", "granted"); got.Token <= held.Token {
		f.t.Errorf("%s: token %#x comes after %#x, want it greater", at, got.Token, held.Token)
	}
	if err := b.HangUp(); err != nil {
		f.t.Fatal(err)
	}
	f.empty(at)
}
