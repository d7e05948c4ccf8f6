package session_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// probe is how often the session writes while something is held.
const probe = timeout / 10

// multis returns how many Multis have come since the call before.
func (r *rig) multis() func() int {
	seen := r.srv.Requests(zktest.OpMulti)
	return func() int {
		synctest.Wait()
		before := seen
		seen = r.srv.Requests(zktest.OpMulti)
		return seen - before
	}
}

func TestOneProbeForAThousandHoldersAndNoneForNobody(t *testing.T) {
	inSession(t, func(r *rig) {
		multis := r.multis()
		time.Sleep(time.Hour)
		if n := multis(); n != 0 {
			t.Errorf("%d probes while nothing is held", n)
		}
		var seats []*seat
		for i := range 1000 {
			node := fmt.Sprint("n", i)
			r.plant(node)
			s := r.seat()
			s.want("Opened")
			s.claim(1, node)
			seats = append(seats, s)
		}
		if n := multis(); n != 1000 {
			t.Errorf("%d claims", n)
		}
		least := lease
		for second := range 3600 {
			time.Sleep(time.Second)
			if second >= 10 { // before that the newest answer that is proven is that of a ping
				least = min(least, seats[0].until())
			}
		}
		if n, want := multis(), int(time.Hour/probe); n != want {
			t.Errorf("%d probes in an hour with 1000 holders, want %d", n, want)
		}
		// A probe proves the newest answer that is older than the window, which is that
		// of the probe before. The last look before the next one comes a second early.
		if want := lease - 2*probe + time.Second; least != want {
			t.Errorf("the lease was as short as %v, want %v", least, want)
		}
		for i, s := range seats {
			s.Delete(recipes.Delete{Epoch: 1, Node: fmt.Sprint("n", i)})
			s.want("Deleted")
		}
		multis()
		time.Sleep(time.Hour)
		if n := multis(); n != 0 {
			t.Errorf("%d probes after everything was given up", n)
		}
	})
}

func TestOtherWritesCountAsProbes(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s, other := r.seat(), r.seat()
		other.want("Opened")
		s.want("Opened")
		s.claim(1, "n")
		multis := r.multis()
		for range 600 {
			time.Sleep(probe - time.Millisecond)
			other.write()
		}
		if n := multis(); n != 0 {
			t.Errorf("%d probes beside 600 writes", n)
		}
		if got := s.until(); got < lease-3*probe {
			t.Errorf("lease of %v", got)
		}
		time.Sleep(10 * probe)
		if n := multis(); n != 10 {
			t.Errorf("%d probes in 10 intervals, once nothing else is written", n)
		}
	})
}

func TestTheProbeIntervalCanBeSetAndStaysBelowTheTimeout(t *testing.T) {
	for _, c := range []struct{ set, want time.Duration }{{time.Second, time.Second}, {timeout / 4, timeout / 4}, {time.Minute, timeout / 4}} {
		t.Run(fmt.Sprint(c.set), func(t *testing.T) {
			inSession(t, func(r *rig) {
				r.plant("n")
				s := r.seat()
				s.want("Opened")
				s.claim(1, "n")
				multis := r.multis()
				time.Sleep(time.Hour)
				if n, want := multis(), int(time.Hour/c.want); n != want {
					t.Errorf("%d probes in an hour, want %d", n, want)
				}
				s.want("")
			}, session.OptionFunc(func(c2 *session.Config) { c2.ProbeInterval = c.set }))
		})
	}
}

func TestAProbeThatFindsNoNodeTellsTheSeat(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("a", "b")
		a, b := r.seat(), r.seat()
		a.claim(1, "a") // without a listing, so its own node is not watched
		b.claim(1, "b")
		r.delete("a")
		a.want("")
		b.want("")
		multis := r.multis()
		r.until("the seat is told", func() bool { return len(a.fresh()) > 0 })
		if got := a.inputs[len(a.inputs)-1]; got != (recipes.Gone{Epoch: 1, Node: "a"}) {
			t.Errorf("told %+v", got)
		}
		if n := multis(); n > 50 { // one of the two is probed at random
			t.Errorf("after %d probes", n)
		}
		b.want("")
		time.Sleep(100 * probe)
		a.want("")
		b.want("")
		if n := multis(); n != 100 {
			t.Errorf("%d probes in 100 intervals for the one that is left", n)
		}
	})
}

func TestOneProbeAtATime(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s := r.seat()
		s.claim(1, "n")
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpMulti {
				return zktest.Delay(5*time.Second/2 - time.Millisecond) // a little more than the interval
			}
			return zktest.Pass()
		})
		multis := r.multis()
		time.Sleep(40 * probe)
		if n := multis(); n != 20 {
			t.Errorf("%d probes, want one in every other interval", n)
		}
		s.want("")
	})
}

func TestNoProbeWithoutAConnectionAndOneAsSoonAsItIsDue(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s := r.seat()
		s.want("Opened")
		s.claim(1, "n")
		multis := r.multis()
		r.srv.Down(true)
		time.Sleep(5 * time.Second)
		r.srv.Down(false)
		r.settle()
		s.want("Suspended Reconnected")
		if n := multis(); n != 0 {
			t.Errorf("%d probes without a connection", n)
		}
		time.Sleep(10 * probe)
		if n := multis(); n < 9 || n > 10 {
			t.Errorf("%d probes in the 10 intervals after it", n)
		}
		if got := s.until(); got < lease-3*probe {
			t.Errorf("lease of %v", got)
		}
	})
}

// A claim that is answered after the seat has given its node up makes it no holder again.
func TestALateClaimMakesNoHolder(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s := r.seat()
		s.want("Opened")
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpMulti {
				return zktest.Delay(time.Second)
			}
			return zktest.Pass()
		})
		s.Claim(recipes.Claim{Epoch: 1, Node: "n"})
		s.Delete(recipes.Delete{Epoch: 1, Node: "n"})
		time.Sleep(time.Second)
		s.fresh()
		multis := r.multis()
		time.Sleep(time.Hour)
		if n := multis(); n != 0 {
			t.Errorf("%d probes", n)
		}
	})
}

func TestASessionThatEndsHasNoHolders(t *testing.T) {
	inSession(t, func(r *rig) {
		r.plant("n")
		s := r.seat()
		s.claim(1, "n")
		if err := r.srv.Expire(r.only()); err != nil {
			t.Fatal(err)
		}
		r.until("there is another session", func() bool { return s.Session(2) != 0 })
		multis := r.multis()
		time.Sleep(time.Hour)
		s.want("Suspended Expired Opened")
		if n := multis(); n != 0 {
			t.Errorf("%d probes", n)
		}
	})
}
