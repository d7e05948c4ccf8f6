package coordinator_test

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What goes wrong with multi-locks: bad input, lost requests and replies, sessions that end.

func TestBadMultiLocksEndAtOnceAndSendNothing(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		long := make([]string, 5)
		for i := range long {
			long[i] = fmt.Sprintf("/%d%s", i, strings.Repeat("a", 1<<18))
		}
		coordtest.Hold(t, c.Mutex(accountC))
		synctest.Wait()
		var sent atomic.Int64
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if r.Op != zktest.OpPing {
				sent.Add(1)
			}
			return zktest.Pass()
		})
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
			"upgradable":           {c.Multi(c.Mutex(accountA), c.ReadWrite(accountB).Upgradable()), nil, []error{coordinator.ErrKind}},
			"kazoo's":              {c.Multi(c.Mutex(accountA, coordinator.AsKazoo())), nil, []error{coordinator.ErrKind}},
			"no path":              {mutexes(c, accountA, "b"), nil, []error{coordinator.ErrPath}},
			"the servers' own":     {mutexes(c, "/zookeeper/config"), nil, []error{coordinator.ErrPath}},
			"a megabyte of paths":  {mutexes(c, long...), nil, []error{coordinator.ErrTooLarge}},
			"one path too long":    {mutexes(c, "/"+strings.Repeat("a", 1<<20)), nil, []error{coordinator.ErrTooLarge, coordinator.ErrPath}},
			"data for each":        {mutexes(c, pathsOf(32)...), []coordinator.AcquireOption{coordinator.WithData(make([]byte, 1<<15))}, []error{coordinator.ErrTooLarge}},
			"permits":              {mutexes(c, accountA), []coordinator.AcquireOption{coordinator.WithPermits(1)}, []error{coordinator.ErrPermits}},
			"no time":              {mutexes(c, accountA), []coordinator.AcquireOption{coordinator.WithMaxWait(-1)}, []error{coordinator.ErrTimeout}},
			"many, and one too":    {mutexes(c, append(pathsOf(20000), accountA)...), nil, []error{coordinator.ErrTooLarge}},
			"as another kind here": {c.Multi(c.Mutex(accountB), c.ReadWrite(accountC).Read()), nil, []error{coordinator.ErrKind}},
		} {
			a := tt.lock.Acquire(t.Context(), tt.options...)
			for _, want := range tt.want {
				if !coordtest.IsClosed(a.Done()) || !errors.Is(a.Err(), want) {
					t.Errorf("%s: done %v, Err = %v, want %v", name, coordtest.IsClosed(a.Done()), a.Err(), want)
				}
			}
			a.Release()
			if name != "none at all" && tt.lock.Path() == "" && name != "nested nonsense" {
				t.Errorf("%s: it has no path", name)
			}
			if tt.lock.Path() == "" {
				if _, err := tt.lock.Queue(t.Context()); !errors.Is(err, tt.want[0]) {
					t.Errorf("%s: Queue: %v", name, err)
				}
			}
		}
		synctest.Wait()
		if n := sent.Load(); n > 0 {
			t.Errorf("%d requests were sent", n)
		}
		// Nothing of those that were refused stands in the way of another kind of lock.
		coordtest.Soon(t, c.ReadWrite(accountB).Write().Acquire(t.Context()))
	})
}

// TestOneKindOfLockAtEachPathOfAMultiLock: as long as it lives, and no longer.
func TestOneKindOfLockAtEachPathOfAMultiLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		all, _ := coordtest.Hold(t, mutexes(c, accountA, accountB))
		for _, p := range []string{accountA, accountB} {
			a := c.ReadWrite(p).Read().Acquire(t.Context(), coordinator.WithMaxWait(time.Minute))
			if <-a.Done(); !errors.Is(a.Err(), coordinator.ErrKind) {
				t.Errorf("%s: %v", p, a.Err())
			}
		}
		one := coordtest.Queue(c.Mutex(accountB))
		all.Release()
		<-all.Done()
		coordtest.Soon(t, one)
		coordtest.Soon(t, c.ReadWrite(accountA).Read().Acquire(t.Context()))
	})
}

// TestNoNodeOfAMultiLockIsLeftWhateverReplyIsLost is TestNoNodeIsLeftWhateverReplyIsLost for several paths.
func TestNoNodeOfAMultiLockIsLeftWhateverReplyIsLost(t *testing.T) {
	const requests = 45 // more than the whole story takes
	paths := []string{accountA, accountB, accountC}
	for name, action := range map[string]zktest.Action{"request": zktest.CutBefore(), "reply": zktest.CutAfter()} {
		for nth := 1; nth <= requests; nth++ {
			t.Run(fmt.Sprintf("%s %d", name, nth), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					c := coordtest.Connect(t, srv)
					var count atomic.Int64
					srv.Intercept(func(r zktest.Request) zktest.Action {
						if r.Op != zktest.OpPing && r.Op != zktest.OpConnect && int(count.Add(1)) == nth {
							return action
						}
						return zktest.Pass()
					})
					a, grant := coordtest.Hold(t, mutexes(c, paths...))
					if got := nodesBelow(srv, paths...); len(got) != 3 {
						t.Errorf("while holding: %v", got)
					}
					w := coordtest.Queue(mutexes(c, accountC, accountB, accountA))
					time.Sleep(3 * time.Second)
					a.Release()
					next, err := w.Wait(t.Context())
					if err != nil || next.Token <= grant.Token {
						t.Fatalf("%+v, %v", next, err)
					}
					w.Release()
					<-a.Done()
					<-w.Done()
					time.Sleep(3 * time.Second)
					if got := nodesBelow(srv, paths...); len(got) != 0 {
						t.Errorf("left behind: %v", got)
					}
					if a.Err() != nil || w.Err() != nil {
						t.Errorf("%v, %v", a.Err(), w.Err())
					}
				})
			})
		}
	}
}

// TestARefusedReleaseGivesTheOthersBack: the transaction that removes all fails if one is gone already.
func TestARefusedReleaseGivesTheOthersBack(t *testing.T) {
	for i := range 3 {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			all := mutexes(c, accountA, accountB, accountC)
			for range 2 { // from then on it takes one request, and nothing is watched at first
				held, _ := coordtest.Hold(t, all)
				held.Release()
				<-held.Done()
			}
			held, grant := coordtest.Hold(t, all)
			if err := srv.Delete(grant.Members[i].Node); err != nil {
				t.Fatal(err)
			}
			held.Release()
			<-held.Done()
			synctest.Wait()
			if left := nodesBelow(srv, accountA, accountB, accountC); len(left) > 0 || held.Err() != nil {
				t.Errorf("left behind: %v, %v", left, held.Err())
			}
		})
	}
}

// TestAMultiLockThatLosesANodeInTheLastMoment is not granted, and all are queued anew: the claim, which is one transaction with a check of
// each node, is refused.
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
					t.Errorf("claimed %+v", claim)
				}
			}
			if len(claims) < 2 || grant.Members[i].Node == claims[0][i].Path {
				t.Errorf("%+v behind %+v", grant, claims)
			}
		})
	}
}

// TestAMultiLockIsAloneOnlyIfItIsSoEverywhere: the directories are known, and were empty the last time; somebody has come to one of
// them since.
func TestAMultiLockIsAloneOnlyIfItIsSoEverywhere(t *testing.T) {
	for _, p := range []string{accountA, accountB, accountC} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
			all := mutexes(a, accountA, accountB, accountC)
			for range 3 {
				held, _ := coordtest.Hold(t, all)
				held.Release()
				<-held.Done()
			}
			one, _ := coordtest.Hold(t, b.Mutex(p))
			waits := coordtest.Queue(all)
			time.Sleep(time.Second)
			if waits.Valid() {
				t.Errorf("granted beside the holder of %s", p)
			}
			one.Release()
			coordtest.Soon(t, waits)
		})
	}
}

// TestTheEndOfASessionWithMultiLocks: a holder hears of the end first, and a waiter queues again at all paths.
func TestTheEndOfASessionWithMultiLocks(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		held, grant := coordtest.Hold(t, mutexes(a, accountA, accountB))
		waits := coordtest.Queue(mutexes(b, accountB, accountA))
		for _, id := range []int64{b.SessionID(), a.SessionID()} {
			if err := srv.Expire(id); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if lost := <-held.Lost(); !errors.Is(lost.Err, coordinator.ErrSessionExpired) {
			t.Errorf("%+v", lost)
		}
		<-held.Done()
		if next := coordtest.Soon(t, waits); next.Token <= grant.Token || next.Session != b.SessionID() {
			t.Errorf("%+v behind %+v", next, grant)
		}
		if got := nodesBelow(srv, accountA, accountB); len(got) != 2 {
			t.Errorf("%v", got)
		}
	})
}

// TestTxnOfAMultiLock rests on all nodes.
func TestTxnOfAMultiLock(t *testing.T) {
	for i := range 2 {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			held, grant := coordtest.Hold(t, mutexes(c, accountA, accountB))
			create := func(name string) error {
				res, err := held.Txn(t.Context(), &zk.CreateRequest{Path: name, Acl: zk.WorldACL(zk.PermAll)})
				if err == nil && (len(res) != 1 || res[0].String != name) {
					t.Errorf("%+v", res)
				}
				return err
			}
			if err := create("/one"); err != nil {
				t.Error(err)
			}
			if err := create("/one"); !errors.Is(err, zk.ErrNodeExists) {
				t.Errorf("%v", err)
			}
			if held.Guard().Path != grant.Members[0].Node {
				t.Errorf("%+v", held.Guard())
			}
			if err := srv.Delete(grant.Members[i].Node); err != nil {
				t.Fatal(err)
			}
			if err := create("/two"); !errors.Is(err, coordinator.ErrNodeRemoved) || srv.Exists("/two") {
				t.Errorf("without member %d: %v", i, err)
			}
		})
	}
}

// TestMultiLocksBelowAChroot: the nodes are named as the caller's paths are.
func TestMultiLocksBelowAChroot(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		if err := srv.Create("/app", nil); err != nil {
			t.Fatal(err)
		}
		c, err := coordinator.Connect(t.Context(), srv.Addr()+"/app", srv.Option())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, grant := coordtest.Hold(t, mutexes(c, "/", accountB))
		for i, m := range grant.Members {
			if m.Path != []string{"/", accountB}[i] || !strings.HasPrefix(m.Node, m.Path) || strings.Contains(m.Node, "//") || !srv.Exists("/app"+m.Node) {
				t.Errorf("%+v", m)
			}
		}
	})
}

// TestMultiLocksAtTheEndOfTheSequence: whichever directory has no numbers left.
func TestMultiLocksAtTheEndOfTheSequence(t *testing.T) {
	for _, warmed := range []bool{false, true} {
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
			c := coordtest.Connect(t, srv)
			all := mutexes(c, accountA, accountB)
			for i := 0; warmed && i < 3; i++ {
				a, _ := coordtest.Hold(t, all)
				a.Release()
				<-a.Done()
			}
			if !warmed {
				if err := srv.Create(accountB, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := srv.SetSequence(accountB, 1<<31-10); err != nil {
				t.Fatal(err)
			}
			a := all.Acquire(t.Context())
			if <-a.Done(); !errors.Is(a.Err(), coordinator.ErrSequenceEnd) {
				t.Errorf("%v", a.Err())
			}
			synctest.Wait()
			if left := nodesBelow(srv, accountA, accountB); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
