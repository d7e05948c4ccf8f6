package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const (
	semPath   = "/limits/exports"
	semQueue  = semPath + "/locks"
	semLeases = semPath + "/leases"
	semSize   = semPath + "/size"
)

// take returns acquisitions that have asked for permits, one behind the other.
func take(t *testing.T, s *coordinator.Semaphore, permits ...int) (all []*coordinator.Acquisition) {
	t.Helper()
	for _, n := range permits {
		all = append(all, s.Acquire(context.Background(), coordinator.WithPermits(n)))
		synctest.Wait()
	}
	return all
}

// holding returns which of them hold.
func holding(all []*coordinator.Acquisition) string {
	synctest.Wait()
	var which []string
	for i, a := range all {
		if a.Valid() {
			which = append(which, fmt.Sprint(i))
		}
	}
	return strings.Join(which, " ")
}

// wantHolding checks who holds, and how many leases there are.
func wantHolding(t *testing.T, srv *zktest.Server, all []*coordinator.Acquisition, want string, leases int) {
	t.Helper()
	if got, n := holding(all), len(srv.Children(semLeases)); got != want || n != leases {
		t.Fatalf("[%s] hold %d leases, want [%s] and %d", got, n, want, leases)
	}
}

// wantNothing checks that nothing is left but the size.
func wantNothing(t *testing.T, srv *zktest.Server) {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	if queue, leases := srv.Children(semQueue), srv.Children(semLeases); len(queue)+len(leases) != 0 {
		t.Errorf("left %v, %v", queue, leases)
	}
}

// wantEnd waits for the end of the acquisition.
func wantEnd(t *testing.T, a *coordinator.Acquisition, want error) {
	t.Helper()
	select {
	case <-a.Done():
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	if err := a.Err(); !errors.Is(err, want) {
		t.Errorf("ended with %v, want %v", err, want)
	}
}

// TestPermitsAreGivenOutInOrder: a wish for many is not overtaken by one for few, and each
// is granted at once and in full.
func TestPermitsAreGivenOutInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := connect(t, srv).Semaphore(semPath, 4), connect(t, srv).Semaphore(semPath, 4)
		all := append(take(t, a, 1, 2), take(t, b, 1, 3, 1)...)
		wantHolding(t, srv, all, "0 1 2", 4)
		var last int64
		for _, a := range all[:3] {
			grant := <-a.Granted()
			if grant.Token <= last {
				t.Errorf("token %d behind %d", grant.Token, last)
			}
			last = grant.Token
		}
		all[2].Release()
		wantHolding(t, srv, all, "0 1", 3) // 3 wants three, and 4 stands behind
		all[1].Release()
		wantHolding(t, srv, all, "0 3", 4)
		all[0].Release()
		wantHolding(t, srv, all, "3 4", 4)
		all[3].Release()
		all[4].Release()
		wantNothing(t, srv)
	})
}

// TestTwoThatWantMostOfThemNeverBlockEachOther: two callers want three of four, again and
// again, in sessions of their own. With permits taken one by one they would soon have two
// each.
func TestTwoThatWantMostOfThemNeverBlockEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		var wait sync.WaitGroup
		for range 2 {
			s := connect(t, srv).Semaphore(semPath, 4)
			wait.Go(func() {
				for range 200 {
					a := s.Acquire(t.Context(), coordinator.WithPermits(3))
					if _, err := a.Wait(t.Context()); err != nil {
						t.Error(err)
						return
					}
					if n := len(srv.Children(semLeases)); n != 3 {
						t.Errorf("%d leases while three are held", n)
					}
					a.Release()
				}
			})
		}
		wait.Wait()
		wantNothing(t, srv)
	})
}

// TestNoMorePermitsThanThereAre: 100 goroutines in four sessions and eleven permits.
func TestNoMorePermitsThanThereAre(t *testing.T) {
	const permits, callers = 11, 100
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		var mu sync.Mutex
		held, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			held += n
			most = max(most, held)
		}
		var sems []*coordinator.Semaphore
		for range 4 {
			sems = append(sems, connect(t, srv).Semaphore(semPath, permits))
		}
		var wait sync.WaitGroup
		for i := range callers {
			s := sems[i%len(sems)]
			wait.Go(func() {
				for range 5 {
					n := 1 + rand.N(3)
					err := s.Do(t.Context(), func(context.Context, events.Grant) error {
						count(n)
						defer count(-n)
						if leases := len(srv.Children(semLeases)); leases > permits {
							t.Errorf("%d leases", leases)
						}
						time.Sleep(rand.N(10 * time.Millisecond))
						return nil
					}, coordinator.WithPermits(n))
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		if most != permits {
			t.Errorf("%d were held at most, want %d", most, permits)
		}
		wantNothing(t, srv)
	})
}

// TestSizesMustAgree, whether one is alone or finds others; nothing of one who disagrees
// is left, and nobody waits for him.
func TestSizesMustAgree(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := connect(t, srv)
		held := take(t, c.Semaphore(semPath, 2), 1)
		for _, size := range []int{1, 3} {
			a := c.Semaphore(semPath, size).Acquire(t.Context())
			wantEnd(t, a, coordinator.ErrSizeMismatch)
			if text := a.Err().Error(); !strings.Contains(text, "2") || !strings.Contains(text, fmt.Sprint(size)) {
				t.Errorf("%q does not name both", text)
			}
		}
		held = append(held, take(t, c.Semaphore(semPath, 2), 2)...)
		wantHolding(t, srv, held, "0", 1)
		wantEnd(t, c.Semaphore(semPath, 5).Acquire(t.Context()), coordinator.ErrSizeMismatch) // at once, and not when it is first
		wantEnd(t, c.Semaphore(semPath, 5).Acquire(t.Context(), coordinator.Try()), coordinator.ErrNotAcquired)
		adopted := c.Semaphore(semPath, 5, coordinator.AdoptSize())
		wantEnd(t, adopted.Acquire(t.Context(), coordinator.WithPermits(3)), coordinator.ErrPermits)
		held[0].Release()
		wantHolding(t, srv, held, "1", 2)
		held[1].Release()
		wantEnd(t, c.Semaphore(semPath, 5).Acquire(t.Context(), coordinator.Try()), coordinator.ErrSizeMismatch)
		wantHolding(t, srv, take(t, adopted, 2), "0", 2)
		if data, _ := srv.Data(semSize); string(data) != "2" {
			t.Errorf("size %q", data)
		}
	})
}

// TestResizeWakesWhomItAdmits, and nobody else: three more permits let three in.
func TestResizeWakesWhomItAdmits(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := connect(t, srv).Semaphore(semPath, 2)
		other := connect(t, srv).Semaphore(semPath, 2)
		all := take(t, s, 2)
		for range 10 {
			all = append(all, take(t, other, 1)...)
		}
		wantHolding(t, srv, all, "0", 2)
		if err := s.Resize(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		wantHolding(t, srv, all, "0 1 2 3", 5)
		wantEnd(t, other.Acquire(t.Context()), coordinator.ErrSizeMismatch) // its handle has the old one
		all = append(all, take(t, s, 1)...)
		wantHolding(t, srv, all, "0 1 2 3", 5)
		// Fewer than are held: nobody loses any, and nobody is let in until enough have come back.
		if err := s.Resize(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		wantHolding(t, srv, all, "0 1 2 3", 5)
		all[0].Release()
		all[2].Release()
		all[3].Release()
		wantHolding(t, srv, all, "1", 1)
		all[1].Release()
		wantHolding(t, srv, all, "4", 1)
	})
}

// TestResizeOfAClosedCoordinator ends with ErrClosed, also if it was waiting for a connection then.
func TestResizeOfAClosedCoordinator(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := connect(t, srv)
		srv.Mute(c.SessionID(), true)
		srv.Cut(c.SessionID())
		synctest.Wait()
		resized := make(chan error, 1)
		go func() { resized <- c.Semaphore(semPath, 3).Resize(t.Context(), 5) }()
		synctest.Wait()
		_ = c.Close() // the servers cannot be told
		if err := <-resized; !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("while it is closed: %v", err)
		}
		if err := c.Semaphore(semPath, 3).Resize(t.Context(), 5); !errors.Is(err, coordinator.ErrClosed) {
			t.Errorf("behind that: %v", err)
		}
	})
}

// TestResizeBesideAcquire: who asks beside it, with the same handle, is of neither opinion until it is
// known which of them counts.
func TestResizeBesideAcquire(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := connect(t, srv).Semaphore(semPath, 1)
		held := take(t, s, 1)
		for size := 2; size < 12; size++ {
			before := s.Acquire(t.Context())
			resized := make(chan error)
			go func() { resized <- s.Resize(t.Context(), size) }()
			beside := s.Acquire(t.Context())
			if err := <-resized; err != nil {
				t.Fatal(err)
			}
			behind := s.Acquire(t.Context())
			for i, a := range []*coordinator.Acquisition{before, beside, behind} {
				synctest.Wait()
				if isClosed(a.Done()) {
					t.Errorf("size %d: %d ended with %v", size, i, a.Err())
				}
				a.Release()
				<-a.Done()
			}
		}
		held[0].Release()
	})
}

// TestWhoWantsMoreThanThereAreLetsTheOthersThrough: permits are taken away from under one that
// waits for more, and by hand.
func TestWhoWantsMoreThanThereAreLetsTheOthersThrough(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := connect(t, srv).Semaphore(semPath, 3)
		all := take(t, s, 1, 3, 2)
		wantHolding(t, srv, all, "0", 1)
		if err := srv.SetData(semSize, []byte("2")); err != nil {
			t.Fatal(err)
		}
		wantEnd(t, all[1], coordinator.ErrPermits)
		all[0].Release()
		wantHolding(t, srv, all, "2", 2)
		if err := srv.SetData(semSize, []byte("many")); err != nil {
			t.Fatal(err)
		}
		a := s.Acquire(t.Context())
		<-a.Done()
		if err := a.Err(); err == nil || !strings.Contains(err.Error(), "many") {
			t.Errorf("ended with %v", err)
		}
		wantHolding(t, srv, all, "2", 2)
	})
}

// TestBadNumbersOfPermits end at once, and leave nothing behind.
func TestBadNumbersOfPermits(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := connect(t, srv)
		before := srv.Tree()
		for name, a := range map[string]*coordinator.Acquisition{
			"none":            c.Semaphore(semPath, 2).Acquire(t.Context(), coordinator.WithPermits(0)),
			"negative":        c.Semaphore(semPath, 2).Acquire(t.Context(), coordinator.WithPermits(-1)),
			"above the size":  c.Semaphore(semPath, 2).Acquire(t.Context(), coordinator.WithPermits(3)),
			"size of none":    c.Semaphore(semPath, 0).Acquire(t.Context()),
			"negative size":   c.Semaphore(semPath, -3, coordinator.AdoptSize()).Acquire(t.Context()),
			"enormous size":   c.Semaphore(semPath, 1<<40).Acquire(t.Context()),
			"of a mutex":      c.Mutex(semPath).Acquire(t.Context(), coordinator.WithPermits(1)),
			"of a read lock":  c.ReadWrite(semPath).Read().Acquire(t.Context(), coordinator.WithPermits(1)),
			"of a write lock": c.ReadWrite(semPath).Write().Acquire(t.Context(), coordinator.WithPermits(1)),
		} {
			if err := a.Err(); !errors.Is(err, coordinator.ErrPermits) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := c.Semaphore(semPath, 1<<30).Acquire(t.Context(), coordinator.WithPermits(1<<30)).Err(); !errors.Is(err, coordinator.ErrTooLarge) {
			t.Errorf("more than fits into a request: %v", err)
		}
		for _, n := range []int{0, -1, 1 << 40} {
			if err := c.Semaphore(semPath, 2).Resize(t.Context(), n); !errors.Is(err, coordinator.ErrPermits) {
				t.Errorf("Resize to %d: %v", n, err)
			}
		}
		if err := c.Semaphore("no/path", 2).Resize(t.Context(), 1); !errors.Is(err, coordinator.ErrPath) {
			t.Errorf("Resize of no path: %v", err)
		}
		synctest.Wait()
		if after := srv.Tree(); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("left %v", after)
		}
	})
}

// TestAPermitThatIsDeletedByHand: one Lost for all of the acquisition's permits, and the others
// are given back.
func TestAPermitThatIsDeletedByHand(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := connect(t, srv)
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
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := connect(t, srv).Semaphore(semPath, 1)
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
				}
			}
			wantHolding(t, srv, all, who, 1)
		}
	})
}

// TestTheOnlyOneInTheQueueIsWatched: it has never listed, and waits because the semaphore is full.
func TestTheOnlyOneInTheQueueIsWatched(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := connect(t, srv).Semaphore(semPath, 1)
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
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := connect(t, srv).Semaphore(semPath, 3)
		try := func(n int) *coordinator.Acquisition {
			return s.Acquire(t.Context(), coordinator.Try(), coordinator.WithPermits(n))
		}
		first := try(2)
		wantHolding(t, srv, []*coordinator.Acquisition{first}, "0", 2)
		made := 0
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if creates(r) {
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
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := connect(t, srv).Semaphore(semPath, 3)
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
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := connect(t, srv), connect(t, srv)
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
			bubble(t, func(t *testing.T, srv *zktest.Server) {
				a, b := connect(t, srv), connect(t, srv)
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
	bubble(t, func(t *testing.T, srv *zktest.Server) {
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
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := connect(t, srv).Semaphore(semPath, 2)
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
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := connect(t, srv), connect(t, srv)
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
