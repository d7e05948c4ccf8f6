package coordinator_test

import (
	"errors"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// A real server executes a holder's transactions, and none of a past holder's.
func TestRealGuard(t *testing.T) {
	t.Parallel()
	e := ensemble.Start(t, 1)
	raw := coordtest.RawClient(t, e.Addr(0))
	for _, path := range []string{"/app", "/app/ledger"} {
		if _, err := raw.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	c := coordtest.ConnectReal(t, e.Connect()+"/app")
	a := c.Mutex("/locks/guard").Acquire(t.Context())
	grant := coordtest.GrantOf(t, a)
	res, err := a.Txn(t.Context(), write("one"), &zk.CreateRequest{Path: "/job-", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence})
	if err != nil || len(res) != 2 || res[0].Stat == nil || res[1].String == "" {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err := a.Txn(t.Context(), write("two"), &zk.DeleteRequest{Path: "/none"}); !errors.Is(err, zk.ErrNoNode) || len(res) != 2 {
		t.Errorf("with one that fails: %+v, %v", res, err)
	}
	guard := a.Guard()
	if guard.Path != "/app"+grant.Node {
		t.Errorf("%+v of %+v", guard, grant)
	}
	onlyTheHolder := func(when string, want error) {
		t.Helper()
		if _, err := raw.Multi(guard, &zk.SetDataRequest{Path: "/app/ledger", Data: []byte(when), Version: -1}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	onlyTheHolder("held", nil)
	if err := raw.Delete(guard.Path, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Txn(t.Context(), write("three")); !errors.Is(err, coordinator.ErrNodeRemoved) {
		t.Errorf("without a node: %v", err)
	}
	onlyTheHolder("removed", zk.ErrNoNode)
	if data, _, err := raw.Get("/app/ledger"); string(data) != "held" || err != nil {
		t.Errorf("written: %q, %v", data, err)
	}
}
