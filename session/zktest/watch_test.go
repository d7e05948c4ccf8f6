package zktest_test

import (
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"
)

func tryWatches(w world) {
	t := w.t
	a, b := w.connect(t), w.connect(t)
	node := a.make(w.root+"/n", 0)
	if _, _, _, err := a.GetW(node); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := a.ChildrenW(node); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nobody watches
		if _, err := b.Set(node, nil, -1); err != nil {
			t.Fatal(err)
		}
	}
	b.make(node+"/c", 0)
	b.make(node+"/d", 0)
	a.settle()
	want := []string{"EventNodeDataChanged " + node, "EventNodeChildrenChanged " + node}
	if got := a.watched(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// A grandchild is nobody's child here, and reading without a watch arms none.
	if _, _, _, err := a.ChildrenW(node); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Get(node); err != nil {
		t.Fatal(err)
	}
	b.make(node+"/c/e", 0)
	if _, err := b.Set(node+"/c", nil, -1); err != nil {
		t.Fatal(err)
	}
	a.settle()
	if got := a.watched(); len(got) != 2 {
		t.Errorf("unexpected %v", got[2:])
	}
	if got := b.watched(); len(got) != 0 {
		t.Errorf("the one who did not watch was told %v", got)
	}
}

func tryMissingWatch(w world) {
	t := w.t
	a, b := w.connect(t), w.connect(t)
	p := w.root + "/later"
	if _, _, _, err := a.GetW(p); !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	if _, _, _, err := a.ChildrenW(p); !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	b.make(p, 0)
	if err := b.Delete(p, -1); err != nil {
		t.Fatal(err)
	}
	a.settle()
	if got := a.watched(); len(got) != 0 {
		t.Errorf("get and children on a missing node armed %v", got)
	}
	if found, _, _, err := a.ExistsW(p); err != nil || found {
		t.Fatal(found, err)
	}
	b.make(p, 0)
	a.settle()
	if got, want := a.watched(), []string{"EventNodeCreated " + p}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func tryDeletionOnce(w world) {
	t := w.t
	a, b := w.connect(t), w.connect(t)
	p := a.make(w.root+"/n", 0)
	if _, _, _, err := a.GetW(p); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := a.ExistsW(p); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := a.ChildrenW(p); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := a.ChildrenW(w.root); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(p, -1); err != nil {
		t.Fatal(err)
	}
	a.settle()
	want := []string{"EventNodeDeleted " + p, "EventNodeChildrenChanged " + w.root}
	if got := a.watched(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func tryMultiWatches(w world) {
	t := w.t
	a, b := w.connect(t), w.connect(t)
	p, q := a.make(w.root+"/p", 0), w.root+"/q"
	for _, path := range []string{p, w.root} {
		if _, _, _, err := a.GetW(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, _, err := a.ExistsW(q); err != nil {
		t.Fatal(err)
	}
	ops := []any{
		&zk.CreateRequest{Path: q, Acl: zk.WorldACL(zk.PermAll)},
		&zk.SetDataRequest{Path: w.root, Version: -1},
		&zk.DeleteRequest{Path: p, Version: -1},
	}
	if _, err := b.Multi(append(ops, &zk.CheckVersionRequest{Path: p, Version: -1})...); !errors.Is(err, zk.ErrNoNode) {
		t.Fatalf("multi: %v", err)
	}
	a.settle()
	if got := a.watched(); len(got) != 0 {
		t.Errorf("a multi that failed fired %v", got)
	}
	if _, err := b.Multi(ops...); err != nil {
		t.Fatal(err)
	}
	a.settle()
	want := []string{"EventNodeCreated " + q, "EventNodeDataChanged " + w.root, "EventNodeDeleted " + p}
	if got := a.watched(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
