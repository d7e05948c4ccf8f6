package coordinator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestContendedOfAReaderInThePlaceOfItsWriter: it keeps a writer out that had queued up behind its write lock.
func TestContendedOfAReaderInThePlaceOfItsWriter(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		rw := c.ReadWrite(lockPath)
		w, _ := coordtest.Hold(t, rw.Write())
		waiter := coordtest.Queue(other.ReadWrite(lockPath).Write())
		waitingReader := coordtest.Queue(other.ReadWrite(lockPath).Read())
		r := rw.Read().Acquire(w.Context(t.Context()))
		told := r.Contended()
		g := coordtest.Soon(t, r)
		t.Log(g.Node, contenders(srv))
		w.Release()
		time.Sleep(time.Minute)
		t.Log(contenders(srv), waiter.Valid(), waitingReader.Valid())
		if n := values(t, told); n != 1 {
			t.Errorf("%d values, want one for the writer that waits: valid %v", n, waiter.Valid())
		}
		r.Release()
		waiter.Release()
		waitingReader.Release()
	})
}

// TestContendedMultiOrder: both members, given in the other order.
func TestContendedMultiOrder(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		for range 5 {
			coordtest.End(func() *coordinator.Acquisition { a, _ := coordtest.Hold(t, other.Mutex("/m/a")); return a }())
		}
		m, _ := coordtest.Hold(t, c.Multi(c.Mutex("/m/z"), c.ReadWrite("/m/a").Read(), c.Mutex("/m/k")))
		told := m.Contended()
		n := func(want int, what string) {
			t.Helper()
			if n := values(t, told); n != want {
				t.Errorf("%s: %d values, want %d", what, n, want)
			}
		}
		n(0, "alone")
		r := other.ReadWrite("/m/a").Read().Acquire(t.Context())
		n(0, "reader")
		z := other.Mutex("/m/z").Acquire(t.Context())
		n(1, "z")
		both := other.Multi(other.ReadWrite("/m/a").Write(), other.Mutex("/m/k")).Acquire(t.Context())
		n(1, "both")
		for range 3 {
			srv.Cut(c.SessionID())
			time.Sleep(time.Second)
		}
		n(0, "reconnects")
		for _, a := range []*coordinator.Acquisition{r, z, both, m} {
			a.Release()
		}
	})
}

// TestContendedDuringAnOutage: the contender comes and stays while the holder has no connection.
func TestContendedDuringAnOutage(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		for name, h := range map[string][2]coordinator.Handle{
			"mutex":     {c.Mutex("/x/m"), other.Mutex("/x/m")},
			"semaphore": {c.Semaphore("/x/s", 1), other.Semaphore("/x/s", 1)},
			"cached":    {c.Mutex("/x/c", coordinator.Cached()), other.Mutex("/x/c", coordinator.Cached())},
			"reentrant": {c.Mutex("/x/r", coordinator.Reentrant()), other.Mutex("/x/r")},
			"election":  {c.Election("/x/e"), other.Election("/x/e")},
			"detect":    {c.Mutex("/x/d", coordinator.DetectCrash()), other.Mutex("/x/d", coordinator.DetectCrash())},
		} {
			a, err := h[0].Hold(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			told := a.Contended()
			inner := a
			if name == "reentrant" {
				inner, _ = h[0].Hold(a.Context(t.Context()))
			}
			itold := inner.Contended()
			srv.Mute(c.SessionID(), true)
			w := h[1].Acquire(t.Context())
			time.Sleep(2 * time.Second)
			srv.Cut(c.SessionID())
			srv.Mute(c.SessionID(), false)
			if n := values(t, told); n != 1 || !a.Valid() {
				t.Errorf("%s: %d values, want one (%v)", name, n, a.Valid())
			}
			if inner != a {
				if n := values(t, itold); n != 1 {
					t.Errorf("%s: %d values of the inner one", name, n)
				}
				a.Release() // the inner one holds on
				w2 := h[1].Acquire(t.Context())
				if n := values(t, itold); n != 1 {
					t.Errorf("%s: %d values of the inner one after", name, n)
				}
				w2.Release()
				inner.Release()
			}
			// comes and goes within an interval, again and again; each time anew
			w.Release()
			time.Sleep(time.Minute)
			a.Release()
			synctest.Wait()
		}
	})
}

// TestContendedSemaphoreMoves: waiters of a semaphore that move up, or that a resize touches, are not told of again.
func TestContendedSemaphoreMoves(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := coordtest.Connect(t, srv), coordtest.Connect(t, srv)
		h, o := c.Semaphore("/s", 3), other.Semaphore("/s", 3)
		a, err := h.Hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		told := a.Contended()
		n := func(want int, what string) {
			t.Helper()
			if n := values(t, told); n != want {
				t.Errorf("%s: %d values, want %d", what, n, want)
			}
		}
		b, _ := o.Hold(t.Context(), coordinator.Permits(2))
		n(0, "room")
		w1 := o.Acquire(t.Context(), coordinator.Permits(2))
		n(1, "w1")
		w2 := o.Acquire(t.Context())
		n(1, "w2")
		b.Release()
		n(0, "w1 is in")
		w1.Release()
		n(0, "w2 is in")
		w3 := o.Acquire(t.Context(), coordinator.Permits(3))
		n(1, "w3")
		if err := h.Resize(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		n(0, "smaller")
		if err := h.Resize(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		n(0, "smaller")
		w2.Release()
		n(0, "w2 gone")
		w4 := other.Semaphore("/s", 1, coordinator.AdoptSize()).Acquire(t.Context())
		n(1, "w4")
		if err := h.Resize(t.Context(), 9); err != nil {
			t.Fatal(err)
		}
		n(0, "larger")
		for _, x := range []*coordinator.Acquisition{w3, w4, a} {
			x.Release()
		}
	})
}
