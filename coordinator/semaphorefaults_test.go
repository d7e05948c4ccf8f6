package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// What goes wrong with a semaphore, and what of it is told.

// TestAPermitThatIsDeletedByHand: one Lost for all of the acquisition's permits, and the others
// are given back.
func TestAPermitThatIsDeletedByHand(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		s := c.Semaphore(semPath, 3)
		stream := c.Events(t.Context())
		all := take(t, s, 3)
		<-all[0].Granted()
		time.Sleep(2 * time.Second) // leases are watched when they have been held for a while
		all = append(all, take(t, s, 2)...)
		if err := srv.Delete(semLeases + "/" + srv.Children(semLeases)[1]); err != nil {
			t.Fatal(err)
		}
		lost := <-all[0].Lost()
		if lost.Reason != events.ReasonNodeRemoved {
			t.Errorf("lost: %v", lost.Reason)
		}
		<-all[0].Done()
		wantHolding(t, srv, all, "1", 2)
		losses := 0
		for range 7 {
			select {
			case ev := <-stream:
				if _, ok := ev.(events.Lost); ok {
					losses++
				}
			case <-time.After(time.Second):
			}
		}
		if losses != 1 {
			t.Errorf("%d events of a loss", losses)
		}
	})
}

// inOrder returns the queue, the first first.
func inOrder(srv *zktest.Server) []string {
	queue := srv.Children(semQueue)
	slices.SortFunc(queue, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	return queue
}

// TestAWaiterWhoseNodeIsDeletedQueuesAgain: first in the queue, or in the middle of it.
func TestAWaiterWhoseNodeIsDeletedQueuesAgain(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 1)
		all := take(t, s, 1, 1, 1, 1)
		wantHolding(t, srv, all, "0", 1)
		for _, i := range []int{1, 0} { // who is second, and then who is first, becomes the last
			if err := srv.Delete(semQueue + "/" + inOrder(srv)[i]); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := len(srv.Children(semQueue)); n != 3 {
				t.Fatalf("%d in the queue", n)
			}
		}
		for _, who := range []string{"3", "2", "1"} {
			for _, a := range all {
				if a.Valid() {
					a.Release()
					break // the next holder may be valid before this loop comes to it
				}
			}
			wantHolding(t, srv, all, who, 1)
		}
	})
}

// TestTheOnlyOneInTheQueueIsWatched: it has never listed, and waits because the semaphore is full.
func TestTheOnlyOneInTheQueueIsWatched(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 1)
		for range 3 { // the directory is known to be ours
			a := take(t, s, 1)[0]
			a.Release()
			<-a.Done()
		}
		all := take(t, s, 1, 1)
		node := srv.Children(semQueue)[0]
		if err := srv.Delete(semQueue + "/" + node); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := srv.Children(semQueue); len(got) != 1 || got[0] == node {
			t.Errorf("queue %v", got)
		}
		all[0].Release()
		wantHolding(t, srv, all, "1", 1)
	})
}

// TestTryAPermit creates nothing where it would have to wait.
func TestTryAPermit(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 3)
		try := func(n int) *coordinator.Acquisition {
			return s.Acquire(t.Context(), coordinator.Try(), coordinator.WithPermits(n))
		}
		first := try(2)
		wantHolding(t, srv, []*coordinator.Acquisition{first}, "0", 2)
		made := 0
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if coordtest.Creates(r) {
				made++
			}
			return zktest.Pass()
		})
		wantEnd(t, try(2), coordinator.ErrNotAcquired)
		if made != 0 {
			t.Error("created something")
		}
		second := try(1)
		wantHolding(t, srv, []*coordinator.Acquisition{first, second}, "0 1", 3)
		waiting := take(t, s, 1)
		first.Release()
		wantHolding(t, srv, append(waiting, second), "0 1", 2)
		third := take(t, s, 2)
		wantEnd(t, try(1), coordinator.ErrNotAcquired) // there is one, and somebody waits
		third[0].Release()
		<-third[0].Done()
		wantHolding(t, srv, []*coordinator.Acquisition{try(1)}, "0", 3)
	})
}

// TestPermitsInAContext add up.
func TestPermitsInAContext(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 3)
		first := take(t, s, 2)[0]
		ctx := first.Context(t.Context())
		second := s.Acquire(ctx)
		if _, err := second.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantEnd(t, s.Acquire(second.Context(ctx)), coordinator.ErrDeadlock)
		second.Release()
		third := s.Acquire(context.WithoutCancel(second.Context(ctx)))
		if _, err := third.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTheEndOfASessionFreesItsPermits, and one that waits queues again.
func TestTheEndOfASessionFreesItsPermits(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		all := take(t, a.Semaphore(semPath, 4), 3)
		all = append(all, take(t, a.Semaphore(semPath, 4), 2)...)
		all = append(all, take(t, b.Semaphore(semPath, 4), 4)...)
		wantHolding(t, srv, all, "0", 3)
		<-all[0].Granted()
		if err := srv.Expire(a.SessionID()); err != nil {
			t.Fatal(err)
		}
		if lost := <-all[0].Lost(); lost.Reason != events.ReasonSessionExpired {
			t.Errorf("lost: %v", lost.Reason)
		}
		time.Sleep(5 * time.Second)
		wantHolding(t, srv, all, "2", 4)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		wantHolding(t, srv, all, "1", 2)
	})
}

// TestTheFirstInTheQueueLooksAgainAfterAnOutage: whatever happened to leases and size meanwhile.
func TestTheFirstInTheQueueLooksAgainAfterAnOutage(t *testing.T) {
	for name, change := range map[string]func(*zktest.Server, []*coordinator.Acquisition) error{
		"a lease is given back": func(_ *zktest.Server, all []*coordinator.Acquisition) error { all[0].Release(); return nil },
		"there are more":        func(srv *zktest.Server, _ []*coordinator.Acquisition) error { return srv.SetData(semSize, []byte("2")) },
		"afterwards": func(srv *zktest.Server, all []*coordinator.Acquisition) error {
			srv.Down(false)
			time.Sleep(3 * time.Second)
			all[0].Release()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
				all := append(take(t, a.Semaphore(semPath, 1), 1), take(t, b.Semaphore(semPath, 1), 1)...)
				wantHolding(t, srv, all, "0", 1)
				srv.Cut(b.SessionID())
				if name == "afterwards" {
					srv.Down(true)
				}
				if err := change(srv, all); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				if got := holding(all); !strings.HasSuffix(got, "1") {
					t.Errorf("[%s] hold", got)
				}
			})
		})
	}
}

// TestASemaphoreBelowAChroot, whose Grant names the node as Txn takes it.
func TestASemaphoreBelowAChroot(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, err := coordinator.Connect(t.Context(), srv.Addr()+"/app", srv.Option())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a := c.Semaphore(semPath, 2).Acquire(t.Context(), coordinator.WithPermits(2))
		grant, err := a.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(grant.Node, semLeases+"/_c_") || !srv.Exists("/app"+grant.Node) || grant.Path != semPath {
			t.Errorf("granted %+v", grant)
		}
		if _, err := a.Txn(t.Context()); err != nil {
			t.Error(err)
		}
		if guard := a.Guard(); guard.Path != "/app"+grant.Node {
			t.Errorf("guard %s", guard.Path)
		}
	})
}

// TestForeignLeasesCount, as with Curator.
func TestForeignLeasesCount(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 2)
		take(t, s, 1)[0].Release()
		synctest.Wait()
		if err := srv.Create(semLeases+"/somebody", nil); err != nil {
			t.Fatal(err)
		}
		all := take(t, s, 1, 1)
		wantHolding(t, srv, all, "0", 2)
		if err := srv.Delete(semLeases + "/somebody"); err != nil {
			t.Fatal(err)
		}
		wantHolding(t, srv, all, "0 1", 2)
	})
}

// TestQueueOfASemaphore: one for each permit that is held, and then who waits.
func TestQueueOfASemaphore(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		s := a.Semaphore(semPath, 3)
		queue := func() string {
			t.Helper()
			list, err := b.Semaphore(semPath, 99).Queue(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range list {
				if c.Session != a.SessionID() || c.Kind != events.KindLock || !srv.Exists(c.Node) {
					t.Errorf("%+v", c)
				}
			}
			return summary(list)
		}
		if got, tree := queue(), srv.Tree(); got != "" || len(tree) != 0 {
			t.Errorf("before anybody came: %q, %v", got, tree)
		}
		var all []*coordinator.Acquisition
		for i, n := range []int{1, 2, 1, 3} {
			all = append(all, s.Acquire(t.Context(), coordinator.WithPermits(n), coordinator.WithData([]byte{'a' + byte(i)})))
			synctest.Wait()
		}
		if got := queue(); got != "a+ b+ b+ c d" {
			t.Errorf("queue %q", got)
		}
		all[0].Release()
		synctest.Wait()
		if got := queue(); got != "b+ b+ c+ d" {
			t.Errorf("queue %q", got)
		}
		if _, err := a.Semaphore("no/path", 1).Queue(t.Context()); !errors.Is(err, coordinator.ErrPath) {
			t.Errorf("Queue of no path: %v", err)
		}
	})
}

// TestAPermitThatMayNotBeTaken ends with the server's word, and keeps nobody waiting: who may not look,
// and who may not make leases.
func TestAPermitThatMayNotBeTaken(t *testing.T) {
	for name, denied := range map[string]func(zktest.Request) bool{
		"the size":   func(r zktest.Request) bool { return r.Op == zktest.OpGetData && r.Path == semSize },
		"the leases": func(r zktest.Request) bool { return r.Op == zktest.OpGetData && r.Path == semLeases },
		"to enter":   func(r zktest.Request) bool { return r.Op == zktest.OpMulti && len(r.Parts) > 2 },
	} {
		t.Run(name, func(t *testing.T) {
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				s := coordtest.Connect(t, srv).Semaphore(semPath, 2)
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if denied(r) {
						return zktest.Fail(zktest.NoAuth)
					}
					return zktest.Pass()
				})
				wantEnd(t, s.Acquire(t.Context()), coordinator.ErrNoAuth)
				wantNothing(t, srv)
				srv.Intercept(nil)
				wantHolding(t, srv, take(t, s, 2), "0", 2)
			})
		})
	}
}
