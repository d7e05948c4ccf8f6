package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
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
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := coordtest.Connect(t, srv).Semaphore(semPath, 4), coordtest.Connect(t, srv).Semaphore(semPath, 4)
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
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		var wait sync.WaitGroup
		for range 2 {
			s := coordtest.Connect(t, srv).Semaphore(semPath, 4)
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
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
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
			sems = append(sems, coordtest.Connect(t, srv).Semaphore(semPath, permits))
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
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
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
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 2)
		other := coordtest.Connect(t, srv).Semaphore(semPath, 2)
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
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
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
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 1)
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
				if coordtest.IsClosed(a.Done()) {
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
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		s := coordtest.Connect(t, srv).Semaphore(semPath, 3)
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
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
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
