package zktest_test

import (
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"
)

func tryACL(w world) {
	t := w.t
	owner, other, admin := w.connect(t), w.connect(t), w.connect(t)
	if err := owner.AddAuth("digest", []byte("ann:secret")); err != nil {
		t.Fatal(err)
	}
	if err := admin.AddAuth("digest", []byte("ann:secret")); err != nil {
		t.Fatal(err)
	}
	p := w.root + "/private"
	if _, err := owner.Create(p, []byte("x"), 0, zk.AuthACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	list, _, err := owner.GetACL(p)
	if want := zk.DigestACL(zk.PermAll, "ann", "secret"); err != nil || !slices.Equal(list, want) {
		t.Errorf("acl %v, %v; want %v", list, err, want)
	}
	_, _, getErr := other.Get(p)
	_, _, listErr := other.Children(p)
	_, setErr := other.Set(p, nil, -1)
	_, makeErr := other.Create(p+"/c", nil, 0, zk.WorldACL(zk.PermAll))
	_, _, aclErr := other.GetACL(p)
	_, setACLErr := other.SetACL(p, zk.WorldACL(zk.PermAll), -1)
	for what, err := range map[string]error{
		"get": getErr, "children": listErr, "set": setErr, "create": makeErr, "get acl": aclErr, "set acl": setACLErr,
	} {
		if !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("%s by a stranger: %v", what, err)
		}
	}
	if found, _, err := other.Exists(p); err != nil || !found {
		t.Errorf("exists asks for no permission: %v, %v", found, err)
	}
	if _, _, err := admin.Get(p); err != nil {
		t.Errorf("the same credentials on another connection: %v", err)
	}
	if _, err := admin.Create(p+"/c", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if err := other.Delete(p+"/c", -1); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("deletion asks the parent: %v", err)
	}
	// Readable by all from here: a reader does not see the hash.
	open := append(zk.DigestACL(zk.PermAll, "ann", "secret"), zk.WorldACL(zk.PermRead)...)
	if st, err := admin.SetACL(p, open, 0); err != nil || st.Aversion != 1 {
		t.Errorf("set acl: %+v, %v", st, err)
	}
	if _, err := admin.SetACL(p, open, 0); !errors.Is(err, zk.ErrBadVersion) {
		t.Errorf("set acl with an old version: %v", err)
	}
	list, _, err = other.GetACL(p)
	if err != nil || len(list) != 2 || list[0].ID != "ann:x" {
		t.Errorf("a reader sees %v, %v", list, err)
	}
	if err := admin.Delete(p+"/c", -1); err != nil {
		t.Error(err)
	}
	if err := other.Delete(p, -1); err != nil {
		t.Errorf("the parent is open, so anybody may delete: %v", err)
	}
}

func tryACLInMulti(w world) {
	t := w.t
	owner, other := w.connect(t), w.connect(t)
	if err := owner.AddAuth("digest", []byte("ann:secret")); err != nil {
		t.Fatal(err)
	}
	p := w.root + "/private"
	if _, err := owner.Create(p, nil, 0, zk.AuthACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	mine := other.make(w.root+"/mine", 0)
	res, err := other.Multi(
		&zk.DeleteRequest{Path: mine, Version: -1},
		&zk.SetDataRequest{Path: p, Version: -1})
	if !errors.Is(err, zk.ErrNoAuth) || len(res) != 2 || !errors.Is(res[1].Error, zk.ErrNoAuth) {
		t.Errorf("set: %v, %v", res, err)
	}
	if found, _, err := other.Exists(mine); err != nil || !found {
		t.Errorf("the deletion was not undone: %v", err)
	}
	if _, err := other.Multi(&zk.CheckVersionRequest{Path: p, Version: -1}); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("check needs READ: %v", err)
	}
}

func tryInvalidACL(w world) {
	t := w.t
	c := w.connect(t)
	for what, list := range map[string][]zk.ACL{
		"empty":            {},
		"unknown scheme":   {{Perms: zk.PermAll, Scheme: "nobody", ID: "x"}},
		"world, not all":   {{Perms: zk.PermAll, Scheme: "world", ID: "some"}},
		"digest":           {{Perms: zk.PermAll, Scheme: "digest", ID: "ann"}},
		"ip":               {{Perms: zk.PermAll, Scheme: "ip", ID: "1.2.3"}},
		"auth without any": zk.AuthACL(zk.PermAll),
	} {
		if _, err := c.Create(w.root+"/x", nil, 0, list); !errors.Is(err, zk.ErrInvalidACL) {
			t.Errorf("%s: %v", what, err)
		}
	}
	here := []zk.ACL{{Perms: zk.PermRead, Scheme: "ip", ID: "127.0.0.0/8"}}
	p, err := c.Create(w.root+"/ip", nil, 0, here)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Get(p); err != nil {
		t.Errorf("get from a listed address: %v", err)
	}
	if _, err := c.Set(p, nil, -1); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("set with READ only: %v", err)
	}
}

func tryUnknownScheme(w world) {
	t := w.t
	c := w.connect(t)
	from := c.mark()
	if err := c.AddAuth("nobody", []byte("x")); !errors.Is(err, zk.ErrAuthFailed) {
		t.Errorf("auth: %v", err)
	}
	id := c.SessionID()
	c.stateFrom(c.stateFrom(from, zk.StateDisconnected), zk.StateHasSession)
	if c.SessionID() != id {
		t.Errorf("session %#x became %#x", id, c.SessionID())
	}
}
