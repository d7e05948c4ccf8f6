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
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// Paths of multi-locks that overlap.
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

// nodesBelow returns the contenders at all paths.
func nodesBelow(srv *zktest.Server, paths ...string) (nodes []string) {
	for _, p := range paths {
		nodes = append(nodes, srv.Children(p)...)
	}
	return nodes
}

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
		members := map[string]string{ // the member at fault
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
				expect(t, coordtest.IsClosed(a.Done()) && errors.Is(a.Err(), want),
					"%s: done %v, Err = %v, want %v", name, coordtest.IsClosed(a.Done()), a.Err(), want)
			}
			at, member := (*coordinator.MemberError)(nil), members[name]
			expect(t, member == "" || errors.As(a.Err(), &at) && at.Path == member,
				"%s: Err = %v, want a MemberError of %s", name, a.Err(), member)
			if tt.lock.Path() == "" {
				expect(t, name == "none at all" || name == "nested nonsense", "%s: the lock has no path", name)
				_, err := tt.lock.Queue(t.Context())
				expectError(t, err, tt.want[0], name+": Queue")
			}
		}
		synctest.Wait()
		expectEqual(t, sent.Load(), 0, "requests that were sent for locks that are refused")
		// The refused acquisitions do not block another kind of lock.
		coordtest.Soon(t, c.ReadWrite(accountB).Write().Acquire(t.Context()))
	})
}

// TestAMultiLockThatLosesANodeInTheLastMoment is not granted, and queues up again at
// every path: its claim, one transaction with a check of each node, is refused.
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
					go func() { _ = srv.Delete(r.Parts[i].Path) }() // after the server has handled this request
					return zktest.Fail(zktest.Throttled)
				}
				return zktest.Pass()
			})
			first.Release()
			grant := coordtest.Soon(t, waits)
			for _, claim := range claims {
				expect(t, len(claim) == 2 && path.Dir(claim[0].Path) == accountA && path.Dir(claim[1].Path) == accountB,
					"a claim checks %+v, want a node at each path", claim)
			}
			expect(t, len(claims) >= 2 && grant.Members[i].Node != claims[0][i].Path,
				"%+v is granted after the claims %+v, want a second claim and another node", grant, claims)
		})
	}
}

// TestMultiLocksBelowAChroot: the paths of nodes are relative to the chroot, as the
// caller's paths are.
func TestMultiLocksBelowAChroot(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		_, grant := coordtest.Hold(t, mutexes(connectBelow(t, srv, "/app"), "/", accountB))
		for i, m := range grant.Members {
			expect(t, m.Path == []string{"/", accountB}[i] && strings.HasPrefix(m.Node, m.Path) &&
				!strings.Contains(m.Node, "//") && srv.Exists("/app"+m.Node),
				"below a chroot member %d is %+v, want its node named as the caller names its path", i, m)
		}
	})
}

// TestThirtyTwoFreeLocksCostTwoRequests: one to acquire all of them, one to release them.
func TestThirtyTwoFreeLocksCostTwoRequests(t *testing.T) {
	const paths, cycles = 32, 20
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		cs, ms := coordtest.Metered(t, srv, 1)
		all := mutexes(cs[0], pathsOf(paths)...)
		holdAgainAndAgain(t, all, 2) // makes the directories, and learns that they are ours
		n := coordtest.Cost(ms, func() { holdAgainAndAgain(t, all, cycles) })
		expect(t, n.Requests == 2*cycles && n.Events == 0, "%d cycles took %+v, want 2 requests each", cycles, n)
		_, grant := coordtest.Hold(t, all)
		expectEqual(t, len(grant.Members), paths, "members that are granted")
		n = coordtest.Cost(ms, func() { time.Sleep(5 * time.Minute) })
		expect(t, n.Requests <= 5*60+paths, // one probe a second, and one request to watch each node
			"to hold it for five minutes took %+v, want at most %d requests", n, 5*60+paths)
	})
}

// TestAMultiLockWhoseDirectoriesWereRemoved: it takes as many round trips as the first
// time, although the session knows the directories from then. A directory whose parent
// may not be written is no reason to fail if it exists.
func TestAMultiLockWhoseDirectoriesWereRemoved(t *testing.T) {
	const last = "/kept/last"
	others := pathsOf(11)
	forEach(t, map[string]bool{
		"all of them": false, "all but the last": true,
	}, func(t *testing.T, srv *zktest.Server, stays bool) {
		for _, p := range []string{path.Dir(last), path.Dir(others[0])} {
			eventstest.Must(t, srv.Create(p, nil))
		}
		cs, ms := coordtest.Metered(t, srv, 1)
		ms[0].Lag(faultnet.Up, time.Millisecond)
		all := mutexes(cs[0], append(others, last)...)
		cycle := func() time.Duration {
			start := time.Now()
			holdAgainAndAgain(t, all, 1)
			return time.Since(start)
		}
		first := cycle()
		for _, p := range others {
			eventstest.Must(t, srv.Delete(p))
		}
		if stays { // servers check permissions before they look for the node
			strike(srv, zktest.Fail(zktest.NoAuth), func(q zktest.Request) bool {
				return q.Op == zktest.OpCreateContainer && q.Path == last
			})
		} else {
			eventstest.Must(t, srv.Delete(last))
		}
		expectEqual(t, cycle(), first, "how long it takes when they were removed")
	})
}

// TestRealMultiLockAsLargeAsARequestMayBe sends the largest transaction to a real server.
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
	expectEqual(t, len(coordtest.GrantOf(t, a).Members), len(paths), "members that are granted")
	finish(t, a)
	coordtest.Queued(t, coordtest.RawClient(t, e.Addr(0)), paths[len(paths)-1], 0)
}
