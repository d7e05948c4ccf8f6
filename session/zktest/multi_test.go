package zktest_test

import (
	"errors"
	"path"
	"strings"

	"github.com/go-zookeeper/zk"
)

func tryMulti(w world) {
	t := w.t
	c := w.connect(t)
	open := zk.WorldACL(zk.PermAll)
	old := c.make(w.root+"/old", 0)
	res, err := c.Multi(
		&zk.DeleteRequest{Path: old, Version: 0},
		&zk.CreateRequest{Path: w.root + "/lock-", Flags: zk.FlagEphemeral | zk.FlagSequence, Acl: open},
		&zk.SetDataRequest{Path: w.root, Data: []byte("m"), Version: -1},
		&zk.CheckVersionRequest{Path: w.root + "/lock-0000000001", Version: 0},
		&zk.CreateRequest{Path: w.root + "/lock-", Flags: zk.FlagSequence, Acl: open},
	)
	if err != nil || len(res) != 5 {
		t.Fatalf("multi: %v, %v", res, err)
	}
	if res[1].String != w.root+"/lock-0000000001" || res[4].String != w.root+"/lock-0000000002" {
		t.Errorf("names %q, %q", res[1].String, res[4].String)
	}
	_, node, err := c.Exists(res[1].String)
	if err != nil {
		t.Fatal(err)
	}
	// The Stat is the one at that point: the old node gone, the second not there yet.
	if dir := res[2].Stat; dir.NumChildren != 1 || dir.Mzxid != node.Czxid || dir.Pzxid != node.Czxid {
		t.Errorf("stat of the directory %+v, of the node %+v", dir, node)
	}
}

func tryMultiFails(w world) {
	t := w.t
	c := w.connect(t)
	open := zk.WorldACL(zk.PermAll)
	keep := c.make(w.root+"/keep", 0)
	_, before, err := c.Exists(w.root)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Multi(
		&zk.CreateRequest{Path: w.root + "/a", Acl: open},
		&zk.DeleteRequest{Path: keep, Version: -1},
		&zk.SetDataRequest{Path: w.root, Data: []byte("x"), Version: -1},
		&zk.CheckVersionRequest{Path: w.root + "/none", Version: -1},
		&zk.CreateRequest{Path: w.root + "/b", Acl: open},
	)
	if !errors.Is(err, zk.ErrNoNode) || len(res) != 5 {
		t.Fatalf("multi: %v, %v", res, err)
	}
	for i, r := range res {
		switch {
		case i < 3 && r.Error != nil:
			t.Errorf("part %d before the failure: %v", i, r.Error)
		case i == 3 && !errors.Is(r.Error, zk.ErrNoNode):
			t.Errorf("the failure: %v", r.Error)
		case i == 4 && (r.Error == nil || !strings.HasSuffix(r.Error.Error(), " -2")):
			t.Errorf("part after the failure: %v", r.Error)
		}
	}
	_, after, err := c.Exists(w.root)
	if err != nil || *after != *before {
		t.Errorf("a failed multi left %+v, before %+v (%v)", after, before, err)
	}
	if _, err := c.Multi(
		&zk.DeleteRequest{Path: keep, Version: -1},
		&zk.CheckVersionRequest{Path: keep, Version: -1},
	); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("check of what the same multi has deleted: %v", err)
	}
	_, after, err = c.Exists(w.root)
	if err != nil || *after != *before {
		t.Errorf("a failed deletion left %+v, before %+v (%v)", after, before, err)
	}
	if found, _, err := c.Exists(keep); err != nil || !found {
		t.Errorf("the deletion was not undone: %v", err)
	}
	if p := c.make(w.root+"/s-", zk.FlagSequence); path.Base(p) != "s-0000000001" {
		t.Errorf("a failed multi moved the counter: %s", p)
	}
	if _, err := c.Multi(&zk.CheckVersionRequest{Path: keep, Version: 3}); !errors.Is(err, zk.ErrBadVersion) {
		t.Errorf("check of a wrong version: %v", err)
	}
}
