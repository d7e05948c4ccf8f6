package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// Where multi-locks meet.
const accountA, accountB, accountC = "/accounts/a", "/accounts/b", "/accounts/c"

// mutexes returns a multi-lock of mutexes.
func mutexes(c *coordinator.Coordinator, paths ...string) *coordinator.Lock {
	locks := make([]*coordinator.Lock, len(paths))
	for i, p := range paths {
		locks[i] = c.Mutex(p)
	}
	return c.Multi(locks...)
}

// pathsOf returns n paths.
func pathsOf(n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("/many/%d", i)
	}
	return paths
}

// nodesBelow returns the contenders of all paths.
func nodesBelow(srv *zktest.Server, paths ...string) (nodes []string) {
	for _, p := range paths {
		nodes = append(nodes, srv.Children(p)...)
	}
	return nodes
}

// What goes wrong with multi-locks: bad input, lost requests and replies, sessions that
// end.

func TestBadMultiLocksEndAtOnceAndSendNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		long := make([]string, 5)
		for i := range long {
			long[i] = fmt.Sprintf("/%d%s", i, strings.Repeat("a", 1<<18))
		}
		coordtest.Hold(t, c.Mutex(accountC))
		synctest.Wait()
		sent := coordtest.Traffic(srv)
		members := map[string]string{ // that are to blame
			"unfair": accountB, "reentrant": accountA, "tells of crashes": accountA, "kazoo's": accountA,
			"bad option": accountB, "no path": "b", "the servers' own": "/zookeeper/config", "as another kind here": accountC,
		}
		for name, tt := range map[string]struct {
			lock    *coordinator.Lock
			options []coordinator.AcquireOption
			want    []error
		}{
			"none at all":          {c.Multi(), nil, []error{coordinator.ErrMembers}},
			"nil":                  {c.Multi(c.Mutex(accountA), nil), nil, []error{coordinator.ErrMembers}},
			"another coordinator":  {c.Multi(c.Mutex(accountA), other.Mutex(accountB)), nil, []error{coordinator.ErrMembers}},
			"twice":                {mutexes(c, accountA, accountB, accountA), nil, []error{coordinator.ErrDuplicate}},
			"twice, cleaned":       {mutexes(c, accountA, "/accounts//a"), nil, []error{coordinator.ErrDuplicate, coordinator.ErrPath}},
			"twice, with a slash":  {mutexes(c, accountA+"/", accountA), nil, []error{coordinator.ErrDuplicate}},
			"both sides":           {c.Multi(c.ReadWrite(accountA).Read(), c.ReadWrite(accountA).Write()), nil, []error{coordinator.ErrDuplicate}},
			"nested":               {c.Multi(c.Mutex(accountA), mutexes(c, accountB)), nil, []error{coordinator.ErrKind}},
			"nested nonsense":      {c.Multi(c.Multi()), nil, []error{coordinator.ErrKind}},
			"unfair":               {c.Multi(c.Mutex(accountA), c.Unfair(accountB)), nil, []error{coordinator.ErrKind}},
			"reentrant":            {c.Multi(c.Mutex(accountA, coordinator.Reentrant())), nil, []error{coordinator.ErrKind}},
			"tells of crashes":     {c.Multi(c.Mutex(accountA, coordinator.DetectCrash())), nil, []error{coordinator.ErrKind}},
			"kazoo's":              {c.Multi(c.Mutex(accountA, coordinator.AsKazoo())), nil, []error{coordinator.ErrKind}},
			"bad option":           {c.Multi(c.Mutex(accountA), c.Mutex(accountB, coordinator.ACL([]zk.ACL{}))), nil, []error{coordinator.ErrInvalid}},
			"no path":              {mutexes(c, accountA, "b"), nil, []error{coordinator.ErrPath}},
			"the servers' own":     {mutexes(c, "/zookeeper/config"), nil, []error{coordinator.ErrPath}},
			"a megabyte of paths":  {mutexes(c, long...), nil, []error{coordinator.ErrTooLarge}},
			"one path too long":    {mutexes(c, "/"+strings.Repeat("a", 1<<20)), nil, []error{coordinator.ErrTooLarge, coordinator.ErrPath}},
			"data for each":        {mutexes(c, pathsOf(32)...), []coordinator.AcquireOption{coordinator.Data(make([]byte, 1<<15))}, []error{coordinator.ErrTooLarge}},
			"permits":              {mutexes(c, accountA), []coordinator.AcquireOption{coordinator.Permits(1)}, []error{coordinator.ErrKind}},
			"no time":              {mutexes(c, accountA), []coordinator.AcquireOption{coordinator.MaxWait(-1)}, []error{coordinator.ErrTimeout}},
			"many, and one too":    {mutexes(c, append(pathsOf(20000), accountA)...), nil, []error{coordinator.ErrTooLarge}},
			"as another kind here": {c.Multi(c.Mutex(accountB), c.ReadWrite(accountC).Read()), nil, []error{coordinator.ErrKind}},
		} {
			a := tt.lock.Acquire(t.Context(), tt.options...)
			for _, want := range tt.want {
				if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), want) {
					t.Errorf("%s: done %v, Err = %v, want %v", name, coordtest.IsClosed(a.Done()), a.Err(), want)
				}
			}
			at := (*coordinator.MemberError)(nil)
			if member := members[name]; member != "" && (!errors.As(a.Err(), &at) || at.Path != member) {
				t.Errorf("%s: Err = %v, want a MemberError of %s", name, a.Err(), member)
			}
			if tt.lock.Path() != "" {
				continue
			}
			if _, err := tt.lock.Queue(t.Context()); !errors.Is(err, tt.want[0]) || name != "none at all" && name != "nested nonsense" {
				t.Errorf("%s: the lock has no path, and Queue says %v; want a path, or %v",
					name, err, tt.want[0])
			}
		}
		synctest.Wait()
		if n := sent.Load(); n > 0 {
			t.Errorf("%d requests were sent for locks that are refused, want none", n)
		}
		// Nothing of those that were refused stands in the way of another kind of lock.
		coordtest.Soon(t, c.ReadWrite(accountB).Write().Acquire(t.Context()))
	})
}

// TestAMultiLockThatLosesANodeInTheLastMoment is not granted, and all are queued anew:
// the claim, which is one transaction with a check of each node, is refused.
func TestAMultiLockThatLosesANodeInTheLastMoment(t *testing.T) {
	for i := range 2 {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			first, _ := coordtest.Hold(t, a.Mutex(accountA))
			waits := coordtest.Queue(mutexes(b, accountA, accountB))
			var claims [][]zktest.Part
			srv.Intercept(func(r zktest.Request) zktest.Action {
				if r.Session != b.SessionID() || r.Op != zktest.OpMulti || r.Parts[0].Op != zktest.OpCheck {
					return zktest.Pass()
				}
				if claims = append(claims, r.Parts); len(claims) == 1 {
					go func() { _ = srv.Delete(r.Parts[i].Path) }() // when the server has done with this
					return zktest.Fail(zktest.Throttled)
				}
				return zktest.Pass()
			})
			first.Release()
			grant := coordtest.Soon(t, waits)
			for _, claim := range claims {
				if len(claim) != 2 || path.Dir(claim[0].Path) != accountA || path.Dir(claim[1].Path) != accountB {
					t.Errorf("a claim checks %+v, want one node at each path", claim)
				}
			}
			if len(claims) < 2 || grant.Members[i].Node == claims[0][i].Path {
				t.Errorf("%+v is granted after the claims %+v, want a second claim and another node", grant, claims)
			}
		})
	}
}

// TestMultiLocksBelowAChroot: the nodes are named as the caller's paths are.
func TestMultiLocksBelowAChroot(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, grant := coordtest.Hold(t, mutexes(connectBelow(t, srv, "/app"), "/", accountB))
		for i, m := range grant.Members {
			if m.Path != []string{"/", accountB}[i] || !strings.HasPrefix(m.Node, m.Path) || strings.Contains(m.Node, "//") || !srv.Exists("/app"+m.Node) {
				t.Errorf("below a chroot member %d is %+v, want its node named as the caller names its path", i, m)
			}
		}
	})
}

// What multi-locks cost.

// TestThirtyTwoFreeLocksCostTwoRequests: one to acquire all of them, one to give all
// back.
func TestThirtyTwoFreeLocksCostTwoRequests(t *testing.T) {
	const paths, cycles = 32, 20
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		all := mutexes(cs[0], pathsOf(paths)...)
		cycle := func() {
			a, grant := coordtest.Hold(t, all)
			if len(grant.Members) != paths {
				t.Fatalf("%+v is granted, want %d members", grant, paths)
			}
			coordtest.End(a)
		}
		for range 2 { // the directories are made, and known to be ours
			cycle()
		}
		before := coordtest.Total(ms)
		for range cycles {
			cycle()
		}
		if n := coordtest.Total(ms).Minus(before); n.Requests != 2*cycles || n.Events != 0 {
			t.Errorf("%d cycles took %+v, want 2 requests each and no event", cycles, n)
		}
		held, _ := coordtest.Hold(t, all)
		before = coordtest.Total(ms)
		time.Sleep(5 * time.Minute)
		if n := coordtest.Total(ms).Minus(before); n.Requests > 5*60+paths { // a probe a second, and each node is watched once
			t.Errorf("to hold it for five minutes took %+v, want at most %d requests", n, 5*60+paths)
		}
		held.Release()
	})
}

// TestRealMultiLockAsLargeAsARequestMayBe: what a real server makes of the largest
// transaction.
func TestRealMultiLockAsLargeAsARequestMayBe(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	e := coordtest.Servers(t, 1)
	const each = 1 << 12
	var paths []string
	for i := range 240 {
		paths = append(paths, fmt.Sprintf("/large/%0*d", each-7, i))
	}
	a := mutexes(coordtest.ConnectReal(t, e.Connect()), paths...).Acquire(context.Background())
	if g := coordtest.GrantOf(t, a); len(g.Members) != len(paths) {
		t.Errorf("%d members are granted, want %d", len(g.Members), len(paths))
	}
	a.Release()
	if err := coordtest.EndOf(t, a); err != nil {
		t.Errorf("released, it ends with %v, want nil", err)
	}
	coordtest.Queued(t, coordtest.RawClient(t, e.Addr(0)), paths[len(paths)-1], 0)
}
