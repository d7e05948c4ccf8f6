package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
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

// heard reads what is on the stream, and counts the events of one type.
func heard[E events.Event](stream <-chan events.Event) (n int) {
	for {
		select {
		case ev := <-stream:
			if _, ok := ev.(E); ok {
				n++
			}
		case <-time.After(time.Second):
			return n
		}
	}
}

// TestAllOfAMultiLockAreGrantedTogether: one Grant, one token, the members in the order given, and everybody who asks for one of
// them waits.
func TestAllOfAMultiLockAreGrantedTogether(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		all := a.Multi(a.Mutex(accountB), a.ReadWrite(accountA).Write(), a.ReadWrite(accountC).Read())
		if all.Path() != accountB {
			t.Errorf("it is called %s", all.Path())
		}
		held, grant := coordtest.Hold(t, all, coordinator.WithData([]byte("me")))
		if grant.Path != accountB || len(grant.Members) != 3 || grant.Members[0].Node != grant.Node || grant.Session != a.SessionID() {
			t.Fatalf("%+v", grant)
		}
		for i, p := range []string{accountB, accountA, accountC} {
			m := grant.Members[i]
			if children := srv.Children(p); m.Path != p || len(children) != 1 || m.Node != path.Join(p, children[0]) {
				t.Errorf("member %d is %+v, and below %s there is %v", i, m, p, children)
			}
			if data, _ := srv.Data(m.Node); string(data) != "me" {
				t.Errorf("%s holds %q", m.Node, data)
			}
		}
		grant.Members[0].Node = "somebody else's"
		if held.Grant().Members[0].Node == grant.Members[0].Node {
			t.Error("two callers have one slice")
		}
		var waiting []*coordinator.Acquisition
		for _, l := range []*coordinator.Lock{b.Mutex(accountB), b.ReadWrite(accountA).Read(), b.ReadWrite(accountC).Write()} {
			waiting = append(waiting, coordtest.Queue(l))
		}
		beside := coordtest.Queue(b.ReadWrite("/accounts/d").Read())
		reader := b.ReadWrite(accountC).Read().Acquire(t.Context(), coordinator.Try())
		if _, err := reader.Wait(t.Context()); !errors.Is(err, coordinator.ErrNotAcquired) { // behind the writer
			t.Errorf("a reader behind a writer: %v", err)
		}
		time.Sleep(time.Minute)
		for i, w := range waiting {
			if w.Valid() {
				t.Errorf("%d is let in", i)
			}
		}
		if !beside.Valid() {
			t.Error("somebody waits for nobody")
		}
		held.Release()
		for _, w := range waiting {
			if g := coordtest.Soon(t, w); g.Token <= grant.Token {
				t.Errorf("token %d behind %d", g.Token, grant.Token)
			}
		}
	})
}

// TestOppositeOrders: two that name the same paths in opposite orders never wait for each other.
func TestOppositeOrders(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		var token int64
		for range 50 {
			first, second := mutexes(a, accountA, accountB).Acquire(t.Context()), mutexes(b, accountB, accountA).Acquire(t.Context())
			synctest.Wait()
			if first.Valid() == second.Valid() {
				t.Fatalf("held by %v and %v", first.Valid(), second.Valid())
			}
			if second.Valid() {
				first, second = second, first
			}
			for _, x := range []*coordinator.Acquisition{first, second} {
				g := coordtest.Soon(t, x)
				if g.Token <= token {
					t.Fatalf("token %d behind %d", g.Token, token)
				}
				token = g.Token
				x.Release()
			}
			<-second.Done()
		}
	})
}

// TestAWaiterForAllHoldsNone: who waits for one of them has no other either, and keeps out those who come later.
func TestAWaiterForAllHoldsNone(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		one, _ := coordtest.Hold(t, a.Mutex(accountB))
		two, _ := coordtest.Hold(t, a.Mutex(accountC))
		all := coordtest.Queue(mutexes(b, accountA, accountB, accountC))
		later := coordtest.Queue(a.Mutex(accountA))
		one.Release()
		time.Sleep(time.Minute)
		if all.Valid() || later.Valid() {
			t.Errorf("granted: all %v, later %v", all.Valid(), later.Valid())
		}
		two.Release()
		coordtest.Soon(t, all)
		all.Release()
		coordtest.Soon(t, later)
	})
}

// TestOneDeadlineForAll: who gives up leaves nothing behind in any queue.
func TestOneDeadlineForAll(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		held, _ := coordtest.Hold(t, a.Mutex(accountC))
		began := time.Now()
		all := mutexes(b, accountA, accountB, accountC).Acquire(t.Context(), coordinator.WithMaxWait(10*time.Second))
		if _, err := all.Wait(t.Context()); !errors.Is(err, coordinator.ErrTimeout) || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := mutexes(b, accountC, accountA).Acquire(ctx).Wait(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		<-all.Done()
		synctest.Wait()
		if left := nodesBelow(srv, accountA, accountB); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		held.Release()
		coordtest.Soon(t, mutexes(b, accountA, accountB, accountC).Acquire(t.Context()))
	})
}

// TestTryAll creates nothing where somebody stands in the way of one.
func TestTryAll(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		all, _ := coordtest.Hold(t, mutexes(b, accountA, accountB, accountC), coordinator.Try())
		all.Release()
		<-all.Done()
		held, _ := coordtest.Hold(t, a.Mutex(accountC))
		var multis int
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if coordtest.Creates(r) {
				multis++
			}
			return zktest.Pass()
		})
		try := mutexes(b, accountA, accountB, accountC).Acquire(t.Context(), coordinator.Try())
		if _, err := try.Wait(t.Context()); !errors.Is(err, coordinator.ErrNotAcquired) {
			t.Errorf("%v", err)
		}
		if multis > 0 {
			t.Error("something was created")
		}
		held.Release()
		<-held.Done()
		coordtest.Soon(t, mutexes(b, accountA, accountB, accountC).Acquire(t.Context(), coordinator.Try()))
	})
}

// TestOneLostForAll: whichever node is deleted, the acquisition is lost once, and the others are given up.
func TestOneLostForAll(t *testing.T) {
	for _, after := range []time.Duration{0, 5 * time.Second} { // before the nodes are watched, and behind that
		for i := range 3 {
			t.Run(fmt.Sprintf("node %d after %v", i, after), func(t *testing.T) {
				coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
					a := coordtest.Connect(t, srv)
					all := mutexes(a, accountA, accountB, accountC)
					for range 2 { // from then on it takes one request, and nothing is watched at first
						held, _ := coordtest.Hold(t, all)
						held.Release()
						<-held.Done()
					}
					stream := a.Events(t.Context())
					held, grant := coordtest.Hold(t, all)
					ctx := held.Context(t.Context())
					time.Sleep(after)
					if err := srv.Delete(grant.Members[i].Node); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Second)
					if len(held.Lost()) == 0 {
						t.Fatal("nothing was told of it")
					}
					if lost := <-held.Lost(); lost.Reason != events.ReasonNodeRemoved || lost.Token != grant.Token || lost.Path != accountA {
						t.Errorf("%+v", lost)
					}
					<-held.Done()
					if ctx.Err() == nil || held.Valid() || !errors.Is(held.Err(), coordinator.ErrNodeRemoved) {
						t.Errorf("%v, %v, %v", ctx.Err(), held.Valid(), held.Err())
					}
					time.Sleep(time.Minute)
					if left := nodesBelow(srv, accountA, accountB, accountC); len(left) > 0 {
						t.Errorf("left behind: %v", left)
					}
					if losses := heard[events.Lost](stream); losses != 1 {
						t.Errorf("told %d times", losses)
					}
				})
			})
		}
	}
}

// TestAWaiterThatLosesOnePlaceTakesAllAnew: with the one place alone it would wait for those who came meanwhile, and they for
// its others.
func TestAWaiterThatLosesOnePlaceTakesAllAnew(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b, c := coordtest.Connect(t, srv), coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		stream := b.Events(t.Context())
		held, _ := coordtest.Hold(t, mutexes(a, accountA, accountB))
		first := coordtest.Queue(mutexes(b, accountA, accountB))
		nodes := map[string]bool{}
		for _, p := range []string{accountA, accountB} {
			for _, child := range srv.Children(p) {
				nodes[path.Join(p, child)] = srv.Owner(path.Join(p, child)) == b.SessionID()
			}
		}
		second := coordtest.Queue(mutexes(c, accountB, accountA))
		for node, of := range nodes {
			if of && path.Dir(node) == accountB {
				if err := srv.Delete(node); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		for node, of := range nodes {
			if of && srv.Exists(node) {
				t.Errorf("%s is still there", node)
			}
		}
		if n := heard[events.Requeued](stream); n != 1 {
			t.Errorf("that was told %d times", n)
		}
		held.Release()
		coordtest.Soon(t, second)
		if first.Valid() {
			t.Error("granted beside the other")
		}
		second.Release()
		coordtest.Soon(t, first)
	})
}

// TestQueueOfAMultiLock is that of one lock after the other.
func TestQueueOfAMultiLock(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a := coordtest.Connect(t, srv)
		all := mutexes(a, accountB, accountA)
		coordtest.Hold(t, all)
		coordtest.Queue(a.Mutex(accountA))
		got, err := all.Queue(t.Context())
		if err != nil || len(got) != 3 {
			t.Fatalf("%+v, %v", got, err)
		}
		var holding []bool
		var dirs []string
		for _, q := range got {
			dirs, holding = append(dirs, path.Dir(q.Node)), append(holding, q.Holding)
		}
		if !slices.Equal(dirs, []string{accountB, accountA, accountA}) || !slices.Equal(holding, []bool{true, true, false}) {
			t.Errorf("%v %v", dirs, holding)
		}
	})
}

// TestContextsOfMultiLocks: nobody waits for himself, at whichever of the paths.
func TestContextsOfMultiLocks(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		all, _ := coordtest.Hold(t, c.Multi(c.Mutex(accountA), c.ReadWrite(accountB).Write()))
		inside := all.Context(t.Context())
		for name, tt := range map[string]struct {
			lock *coordinator.Lock
			want error
		}{
			"the first":            {c.Mutex(accountA), coordinator.ErrDeadlock},
			"the second":           {c.ReadWrite(accountB).Write(), coordinator.ErrDeadlock},
			"its other side":       {c.ReadWrite(accountB).Read(), coordinator.ErrDeadlock},
			"reentrant":            {c.Mutex(accountA, coordinator.Reentrant()), coordinator.ErrDeadlock},
			"all of it":            {c.Multi(c.Mutex(accountA), c.ReadWrite(accountB).Write()), coordinator.ErrDeadlock},
			"some of it":           {mutexes(c, accountC, accountA), coordinator.ErrDeadlock},
			"another kind of lock": {c.Mutex(accountB), coordinator.ErrKind},
		} {
			if _, err := tt.lock.Acquire(inside, coordinator.WithMaxWait(time.Minute)).Wait(t.Context()); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", name, err, tt.want)
			}
		}
		one, _ := coordtest.Hold(t, c.Mutex(accountC))
		if _, err := mutexes(c, "/accounts/d", accountC).Acquire(one.Context(inside)).Wait(t.Context()); !errors.Is(err, coordinator.ErrDeadlock) {
			t.Errorf("one of them inside: %v", err)
		}
		write, _ := coordtest.Hold(t, c.ReadWrite("/accounts/e").Write())
		if _, err := c.Multi(c.ReadWrite("/accounts/e").Read()).Acquire(write.Context(t.Context())).Wait(t.Context()); !errors.Is(err, coordinator.ErrDeadlock) {
			t.Errorf("a reader in a multi-lock in a writer's place: %v", err)
		}
		coordtest.Soon(t, c.Mutex("/accounts/f").Acquire(inside))
		all.Release()
		<-all.Done()
		coordtest.Soon(t, c.Mutex(accountA).Acquire(context.WithoutCancel(inside), coordinator.WithMaxWait(time.Second)))
	})
}
