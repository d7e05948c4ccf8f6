package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// probe is how often the session writes while something is held.
const probe = sessiontest.Timeout / 10

func TestOneProbeForAThousandHoldersAndNoneWithoutHolders(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		multis := r.Multis()
		time.Sleep(time.Hour)
		multis(0, 0, "while nothing is held")
		var seats []*sessiontest.Seat
		for i := range 1000 {
			node := fmt.Sprint("n", i)
			r.Plant(node)
			s := r.Seated()
			s.ClaimNode(1, node)
			seats = append(seats, s)
		}
		multis(1000, 1000, "with 1000 claims")
		least := sessiontest.Lease
		for second := range 3600 {
			time.Sleep(time.Second)
			if second >= 10 { // before that the newest proven answer is that of a ping
				least = min(least, seats[0].Until())
			}
		}
		multis(int(time.Hour/probe), int(time.Hour/probe), "in an hour with 1000 holders")
		// A probe proves the newest answer that is older than the window: that of the probe before. The last look before the next probe
		// comes a second early.
		if want := sessiontest.Lease - 2*probe + time.Second; least != want {
			t.Errorf("the lease was as short as %v, want %v", least, want)
		}
		for i, s := range seats {
			s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: fmt.Sprint("n", i)}})
			s.Want("Deleted")
		}
		multis(0, 1000, "with 1000 deletions")
		time.Sleep(time.Hour)
		multis(0, 0, "after everything was given up")
	})
}

func TestOtherWritesCountAsProbes(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s, other := r.Seated(), r.Seated()
		s.ClaimNode(1, "n")
		multis := r.Multis()
		for range 600 {
			time.Sleep(probe - time.Millisecond)
			other.WriteNothing()
		}
		multis(0, 0, "beside 600 writes")
		s.WantLease(sessiontest.Lease-3*probe, sessiontest.Lease)
		time.Sleep(10 * probe)
		multis(10, 10, "in 10 intervals, once nothing else is written")
	})
}

func TestTheProbeIntervalCanBeSetAndStaysBelowTheTimeout(t *testing.T) {
	for _, c := range []struct{ set, want time.Duration }{{time.Second, time.Second}, {sessiontest.Timeout / 4, sessiontest.Timeout / 4}, {time.Minute, sessiontest.Timeout / 4}} {
		sessiontest.Run(t, fmt.Sprint(c.set), func(r *sessiontest.Rig) {
			r.Plant("n")
			s := r.Seated()
			s.ClaimNode(1, "n")
			multis := r.Multis()
			time.Sleep(time.Hour)
			multis(int(time.Hour/c.want), int(time.Hour/c.want), "in an hour")
			s.Want("")
		}, session.OptionFunc(func(c2 *session.Config) { c2.ProbeInterval = c.set }))
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
		if got := a.Inputs[len(a.Inputs)-1]; got != (recipes.Gone{Epoch: 1, Node: events.Name{Text: "a"}}) {
			t.Errorf("told %+v", got)
		}
		multis(0, 50, "until a probe has found that the node is gone") // one of the two is probed at random
		b.Want("")
		time.Sleep(100 * probe)
		a.Want("")
		b.Want("")
		multis(100, 100, "in 100 intervals for the one that is left")
	})
}

// TestAProbeAnIntervalAnsweredOrNot: probes do not wait for each other, and at most those of a timeout are under way.
func TestAProbeAnIntervalAnsweredOrNot(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.Seat()
		s.ClaimNode(1, "n")
		r.On(zktest.OpMulti, zktest.Delay(5*time.Second/2-time.Millisecond)) // a little more than the interval
		multis := r.Multis()
		time.Sleep(40 * probe)
		multis(40, 40, "in 40 intervals with answers that take longer than one")
		s.Want("")
		r.On(zktest.OpMulti, zktest.Swallow())
		multis = r.Multis()
		time.Sleep(40 * probe)
		multis(1, 10, "in 40 intervals without answers")
		if told := s.Fresh(); count[recipes.LeaseRanOut](told) != 1 {
			t.Errorf("the seat is told %+v, want that the lease ran out", told)
		}
	})
}

func TestNoProbeWithoutAConnectionAndOneAsSoonAsItIsDue(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.Seated()
		s.ClaimNode(1, "n")
		multis := r.Multis()
		r.Server.Down(true)
		time.Sleep(5 * time.Second)
		r.Server.Down(false)
		r.Settle()
		s.Want("Suspended Reconnected")
		multis(0, 0, "without a connection")
		time.Sleep(10 * probe)
		multis(9, 10, "in the 10 intervals after the outage")
		s.WantLease(sessiontest.Lease-3*probe, sessiontest.Lease)
	})
}

// A claim that is answered after the seat has given its node up makes it no holder again.
func TestALateClaimMakesNoHolder(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Plant("n")
		s := r.Seated()
		r.On(zktest.OpMulti, zktest.Delay(time.Second))
		s.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: "n"}})
		s.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: "n"}})
		time.Sleep(time.Second)
		s.Fresh()
		multis := r.Multis()
		time.Sleep(time.Hour)
		multis(0, 0, "in an hour after the claim was given up")
	})
}
