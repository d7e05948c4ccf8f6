package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// probe is how often the session writes while something is held.
const probe = sessiontest.Timeout / 10

func TestOneProbeForAThousandHoldersAndNoneForNobody(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		multis := r.Multis()
		time.Sleep(time.Hour)
		if n := multis(); n != 0 {
			t.Errorf("%d probes while nothing is held", n)
		}
		var seats []*sessiontest.Seat
		for i := range 1000 {
			node := fmt.Sprint("n", i)
			r.Plant(node)
			s := r.Seat()
			s.Want("Opened")
			s.ClaimNode(1, node)
			seats = append(seats, s)
		}
		if n := multis(); n != 1000 {
			t.Errorf("%d claims", n)
		}
		least := sessiontest.Lease
		for second := range 3600 {
			time.Sleep(time.Second)
			if second >= 10 { // before that the newest answer that is proven is that of a ping
				least = min(least, seats[0].Until())
			}
		}
		if n, want := multis(), int(time.Hour/probe); n != want {
			t.Errorf("%d probes in an hour with 1000 holders, want %d", n, want)
		}
		// A probe proves the newest answer that is older than the window, which is that
		// of the probe before. The last look before the next one comes a second early.
		if want := sessiontest.Lease - 2*probe + time.Second; least != want {
			t.Errorf("the lease was as short as %v, want %v", least, want)
		}
		for i, s := range seats {
			s.Delete(recipes.Delete{Epoch: 1, Node: fmt.Sprint("n", i)})
			s.Want("Deleted")
		}
		multis()
		time.Sleep(time.Hour)
		if n := multis(); n != 0 {
			t.Errorf("%d probes after everything was given up", n)
		}
	})
}

func TestOtherWritesCountAsProbes(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s, other := r.Seat(), r.Seat()
		other.Want("Opened")
		s.Want("Opened")
		s.ClaimNode(1, "n")
		multis := r.Multis()
		for range 600 {
			time.Sleep(probe - time.Millisecond)
			other.WriteNothing()
		}
		if n := multis(); n != 0 {
			t.Errorf("%d probes beside 600 writes", n)
		}
		if got := s.Until(); got < sessiontest.Lease-3*probe {
			t.Errorf("lease of %v", got)
		}
		time.Sleep(10 * probe)
		if n := multis(); n != 10 {
			t.Errorf("%d probes in 10 intervals, once nothing else is written", n)
		}
	})
}

func TestTheProbeIntervalCanBeSetAndStaysBelowTheTimeout(t *testing.T) {
	for _, c := range []struct{ set, want time.Duration }{{time.Second, time.Second}, {sessiontest.Timeout / 4, sessiontest.Timeout / 4}, {time.Minute, sessiontest.Timeout / 4}} {
		t.Run(fmt.Sprint(c.set), func(t *testing.T) {
			sessiontest.InSession(t, func(r *sessiontest.Rig) {
				r.Plant("n")
				s := r.Seat()
				s.Want("Opened")
				s.ClaimNode(1, "n")
				multis := r.Multis()
				time.Sleep(time.Hour)
				if n, want := multis(), int(time.Hour/c.want); n != want {
					t.Errorf("%d probes in an hour, want %d", n, want)
				}
				s.Want("")
			}, session.OptionFunc(func(c2 *session.Config) { c2.ProbeInterval = c.set }))
		})
	}
}

func TestAProbeThatFindsNoNodeTellsTheSeat(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("a", "b")
		a, b := r.Seat(), r.Seat()
		a.ClaimNode(1, "a") // without a listing, so its own node is not watched
		b.ClaimNode(1, "b")
		r.DeleteNode("a")
		a.Want("")
		b.Want("")
		multis := r.Multis()
		r.Until("the seat is told", func() bool { return len(a.Fresh()) > 0 })
		if got := a.Inputs[len(a.Inputs)-1]; got != (recipes.Gone{Epoch: 1, Node: "a"}) {
			t.Errorf("told %+v", got)
		}
		if n := multis(); n > 50 { // one of the two is probed at random
			t.Errorf("after %d probes", n)
		}
		b.Want("")
		time.Sleep(100 * probe)
		a.Want("")
		b.Want("")
		if n := multis(); n != 100 {
			t.Errorf("%d probes in 100 intervals for the one that is left", n)
		}
	})
}

func TestOneProbeAtATime(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.Seat()
		s.ClaimNode(1, "n")
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpMulti {
				return zktest.Delay(5*time.Second/2 - time.Millisecond) // a little more than the interval
			}
			return zktest.Pass()
		})
		multis := r.Multis()
		time.Sleep(40 * probe)
		if n := multis(); n != 20 {
			t.Errorf("%d probes, want one in every other interval", n)
		}
		s.Want("")
	})
}

func TestNoProbeWithoutAConnectionAndOneAsSoonAsItIsDue(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.Seat()
		s.Want("Opened")
		s.ClaimNode(1, "n")
		multis := r.Multis()
		r.Server.Down(true)
		time.Sleep(5 * time.Second)
		r.Server.Down(false)
		r.Settle()
		s.Want("Suspended Reconnected")
		if n := multis(); n != 0 {
			t.Errorf("%d probes without a connection", n)
		}
		time.Sleep(10 * probe)
		if n := multis(); n < 9 || n > 10 {
			t.Errorf("%d probes in the 10 intervals after it", n)
		}
		if got := s.Until(); got < sessiontest.Lease-3*probe {
			t.Errorf("lease of %v", got)
		}
	})
}

// A claim that is answered after the seat has given its node up makes it no holder again.
func TestALateClaimMakesNoHolder(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.Seat()
		s.Want("Opened")
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op == zktest.OpMulti {
				return zktest.Delay(time.Second)
			}
			return zktest.Pass()
		})
		s.Claim(recipes.Claim{Epoch: 1, Node: "n"})
		s.Delete(recipes.Delete{Epoch: 1, Node: "n"})
		time.Sleep(time.Second)
		s.Fresh()
		multis := r.Multis()
		time.Sleep(time.Hour)
		if n := multis(); n != 0 {
			t.Errorf("%d probes", n)
		}
	})
}

func TestASessionThatEndsHasNoHolders(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.Seat()
		s.ClaimNode(1, "n")
		if err := r.Server.Expire(r.Only()); err != nil {
			t.Fatal(err)
		}
		r.Until("there is another session", func() bool { return s.Session(2) != 0 })
		multis := r.Multis()
		time.Sleep(time.Hour)
		s.Want("Suspended Expired Opened")
		if n := multis(); n != 0 {
			t.Errorf("%d probes", n)
		}
	})
}
