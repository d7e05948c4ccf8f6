package zktest_test

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// world is a server the behaviours are tried on.
type world struct {
	t       *testing.T
	root    string // an empty node of this behaviour's own
	connect func(*testing.T) *client
}

// behaviours are what a client can observe of any ZooKeeper server. They know
// nothing of the implementation, so that a real server can be held against them.
var behaviours = []struct {
	name string
	try  func(world)
}{
	{"sequence", trySequence},
	{"stat", tryStat},
	{"errors", tryErrors},
	{"null data", tryNullData},
	{"multi succeeds", tryMulti},
	{"multi fails", tryMultiFails},
	{"one-shot watches", tryWatches},
	{"watch on a missing node", tryMissingWatch},
	{"deletion is told once", tryDeletionOnce},
	{"watches and multi", tryMultiWatches},
	{"ephemerals end with the session", tryEphemerals},
	{"access lists", tryACL},
	{"access lists in multi", tryACLInMulti},
	{"invalid access lists", tryInvalidACL},
	{"unknown auth scheme", tryUnknownScheme},
	{"container", tryContainer},
	{"ttl", tryTTL},
	{"oversized frame", tryOversized},
}

func TestBehaviourOverTCP(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			s := zktest.Start(t)
			b.try(newWorld(t, s.Addr(), overTCP))
		})
	}
}

func TestBehaviourInBubble(t *testing.T) {
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				s := zktest.Start(t)
				b.try(newWorld(t, s.Addr(), inMemory(s)))
			})
		})
	}
}

func newWorld(t *testing.T, addr string, dial zk.Dialer) world {
	t.Helper()
	w := world{t: t, connect: func(t *testing.T) *client {
		t.Helper()
		return connect(t, addr, 10*time.Second, dial)
	}}
	w.root = w.connect(t).make("/behaviour-", zk.FlagSequence)
	return w
}

func trySequence(w world) {
	t := w.t
	c := w.connect(t)
	c.make(w.root+"/plain", 0)
	var got []string
	for range 2 {
		got = append(got, path.Base(c.make(w.root+"/a-", zk.FlagSequence)))
	}
	if err := c.Delete(w.root+"/a-0000000002", -1); err != nil {
		t.Fatal(err)
	}
	got = append(got, path.Base(c.make(w.root+"/b-", zk.FlagSequence|zk.FlagEphemeral)))
	if want := []string{"a-0000000001", "a-0000000002", "b-0000000003"}; !slices.Equal(got, want) {
		t.Errorf("every creation counts and deletions do not: got %v, want %v", got, want)
	}
	names, _, err := c.Children(w.root)
	slices.Sort(names)
	if want := []string{"a-0000000001", "b-0000000003", "plain"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("children %v, %v; want %v", names, err, want)
	}
	// Created in the root, whose counter other tests may have moved on a real server.
	if p := c.make("/", zk.FlagSequence|zk.FlagEphemeral); len(p) != 11 {
		t.Errorf("a sequential node without a name became %q", p)
	}
}

func tryStat(w world) {
	t := w.t
	c := w.connect(t)
	stat := func(p string) *zk.Stat {
		t.Helper()
		found, st, err := c.Exists(p)
		if err != nil || !found {
			t.Fatalf("exists %s: %v, %v", p, found, err)
		}
		return st
	}
	dir := w.root
	before := stat(dir)
	if before.Version != 0 || before.Cversion != 0 || before.Pzxid != before.Czxid || before.Mzxid != before.Czxid {
		t.Errorf("fresh node has %+v", before)
	}
	node := c.make(dir+"/n", zk.FlagEphemeral)
	st := stat(node)
	if st.EphemeralOwner != c.SessionID() || st.Czxid <= before.Czxid || st.Ctime < before.Ctime {
		t.Errorf("ephemeral has %+v, session %d", st, c.SessionID())
	}
	if d := stat(dir); d.Pzxid != st.Czxid || d.Cversion != 1 || d.NumChildren != 1 || d.Mzxid != before.Mzxid {
		t.Errorf("after a creation the parent has %+v", d)
	}
	set, err := c.Set(node, []byte("12345"), 0)
	if err != nil || set.Version != 1 || set.DataLength != 5 || set.Mzxid <= st.Mzxid || set.Czxid != st.Czxid {
		t.Errorf("set gave %+v, %v", set, err)
	}
	if err := c.Delete(node, 1); err != nil {
		t.Fatal(err)
	}
	if d := stat(dir); d.Pzxid <= set.Mzxid || d.Cversion != 2 || d.NumChildren != 0 {
		t.Errorf("after a deletion the parent has %+v", d)
	}
	// A failed write uses up a zxid.
	if _, err := c.Set(dir, nil, 99); !errors.Is(err, zk.ErrBadVersion) {
		t.Errorf("set with a wrong version: %v", err)
	}
	if again, err := c.Set(dir, nil, -1); err != nil || again.Mzxid != stat(dir).Pzxid+2 {
		t.Errorf("zxids are not consecutive: %+v, %v", again, err)
	}
}

func tryErrors(w world) {
	t := w.t
	c := w.connect(t)
	open := zk.WorldACL(zk.PermAll)
	node := c.make(w.root+"/node", 0)
	c.make(node+"/child", 0)
	eph := c.make(w.root+"/eph", zk.FlagEphemeral)
	create := func(p string) error { _, err := c.Create(p, nil, 0, open); return err }
	set := func(p string, v int32) error { _, err := c.Set(p, nil, v); return err }
	get := func(p string) error { _, _, err := c.Get(p); return err }
	children := func(p string) error { _, _, err := c.Children(p); return err }
	for _, test := range []struct {
		what string
		err  error
		want error
	}{
		{"create twice", create(node), zk.ErrNodeExists},
		{"create the root", create("/"), zk.ErrNodeExists},
		{"create without parent", create(w.root + "/no/node"), zk.ErrNoNode},
		{"create below an ephemeral", create(eph + "/child"), zk.ErrNoChildrenForEphemerals},
		{"delete with children", c.Delete(node, -1), zk.ErrNotEmpty},
		{"delete a wrong version", c.Delete(node, 7), zk.ErrBadVersion},
		{"delete nothing", c.Delete(w.root+"/none", -1), zk.ErrNoNode},
		{"delete the root", c.Delete("/", -1), zk.ErrBadArguments},
		{"delete a system node", c.Delete("/zookeeper/quota", -1), zk.ErrBadArguments},
		{"set a wrong version", set(node, 7), zk.ErrBadVersion},
		{"set nothing", set(w.root+"/none", -1), zk.ErrNoNode},
		{"get nothing", get(w.root + "/none"), zk.ErrNoNode},
		{"children of nothing", children(w.root + "/none"), zk.ErrNoNode},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: %v, want %v", test.what, test.err, test.want)
		}
	}
	if p, err := c.Sync(w.root + "/none"); err != nil || p != w.root+"/none" {
		t.Errorf("sync of a missing node: %q, %v", p, err)
	}
}

func tryNullData(w world) {
	t := w.t
	c := w.connect(t)
	for name, data := range map[string][]byte{"nil": nil, "empty": {}, "some": []byte("x")} {
		p, err := c.Create(w.root+"/"+name, data, 0, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		got, st, err := c.Get(p)
		if err != nil || (got == nil) != (data == nil) || string(got) != string(data) || int(st.DataLength) != len(data) {
			t.Errorf("%s: stored %#v, got %#v (%v)", name, data, got, err)
		}
	}
}

func tryEphemerals(w world) {
	t := w.t
	a, b := w.connect(t), w.connect(t)
	e1, e2 := a.make(w.root+"/e1", zk.FlagEphemeral), a.make(w.root+"/e2", zk.FlagEphemeral)
	a.make(w.root+"/p", 0)
	if _, _, _, err := b.GetW(e1); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := b.GetW(e2); err != nil {
		t.Fatal(err)
	}
	_, before, err := b.Exists(w.root)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	for _, p := range []string{e1, e2} {
		b.await(0, "deletion", func(e zk.Event) bool { return e.Type == zk.EventNodeDeleted && e.Path == p })
	}
	names, after, err := b.Children(w.root)
	if err != nil || !slices.Equal(names, []string{"p"}) || after.Pzxid <= before.Pzxid {
		t.Errorf("left %v (%+v, %v)", names, after, err)
	}
	if after.Cversion != before.Cversion+2 {
		t.Errorf("cversion %d, before %d", after.Cversion, before.Cversion)
	}
}

func tryContainer(w world) {
	t := w.t
	c := w.connect(t)
	p, err := c.CreateContainer(w.root+"/box", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	if err != nil || p != w.root+"/box" {
		t.Fatal(p, err)
	}
	_, st, err := c.Exists(p)
	if err != nil || st.EphemeralOwner != 0 {
		t.Errorf("container has %+v, %v", st, err)
	}
	c.make(p+"/child", zk.FlagEphemeral)
	if err := c.Delete(p, -1); !errors.Is(err, zk.ErrNotEmpty) {
		t.Errorf("delete: %v", err)
	}
}

func tryTTL(w world) {
	t := w.t
	c := w.connect(t)
	_, err := c.CreateTTL(w.root+"/t", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), time.Second)
	if err == nil || !strings.HasSuffix(err.Error(), " -6") {
		t.Errorf("a server without extended types answers unimplemented, got %v", err)
	}
	c.settle()
}

func tryOversized(w world) {
	t := w.t
	c := w.connect(t)
	from := c.mark()
	if _, err := c.Set(w.root, make([]byte, 1<<20), -1); err == nil {
		t.Error("a megabyte was stored")
	}
	c.stateFrom(c.stateFrom(from, zk.StateDisconnected), zk.StateHasSession)
	if _, err := c.Set(w.root, make([]byte, 1<<20-200), -1); err != nil {
		t.Errorf("a little less than a megabyte: %v", err)
	}
}
