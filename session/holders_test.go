package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// probe is the interval at which the session writes while a lock is held.
const probe = sessionTimeout / 10

func TestOneProbeForAThousandHoldersAndNoneWithoutHolders(t *testing.T) {
	inSession(t, func(r *rig) {
		multis := r.Multis()
		time.Sleep(time.Hour)
		multis(0, 0, "while nothing is held")
		var seats []*seat
		for i := range 1000 {
			node := fmt.Sprint("n", i)
			r.Plant(node)
			s := r.Seated()
			s.ClaimNode(node)
			seats = append(seats, s)
		}
		multis(1000, 1000, "with 1000 claims")
		least := leaseTime
		for second := range 3600 {
			time.Sleep(time.Second)
			if second >= 10 { // before that, the newest proven answer is that of a ping
				least = min(least, seats[0].Until())
			}
		}
		multis(int(time.Hour/probe), int(time.Hour/probe), "in an hour with 1000 holders")
		// A probe proves the newest answer that is older than the window, which is that
		// of the previous probe. The last look before the next probe is a second early.
		want := leaseTime - 2*probe + time.Second
		expect(t, least == want, "the lease was as short as %v, want %v", least, want)
		for i, s := range seats {
			s.Deletes(fmt.Sprint("n", i))
		}
		multis(0, 1000, "with 1000 deletions")
		time.Sleep(time.Hour)
		multis(0, 0, "after everything was given up")
	})
}

// TestWhenAProbeIsMade: a probe is sent an interval after any write, if there is a
// connection, whether or not earlier probes were answered. At most as many as fit into a
// timeout are in progress.
func TestWhenAProbeIsMade(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Plant("n")
		s, other := r.Seated(), r.Seated()
		s.ClaimNode("n")
		multis := r.Multis()
		for range 600 {
			time.Sleep(probe - time.Millisecond)
			other.WriteNothing()
		}
		multis(0, 0, "beside 600 writes")
		s.WantLease(leaseTime-3*probe, leaseTime)
		time.Sleep(10 * probe)
		multis(10, 10, "in 10 intervals, once nothing else is written")
		r.On(zktest.OpMulti, zktest.Delay(5*time.Second/2-time.Millisecond)) // slightly longer than the interval
		time.Sleep(40 * probe)
		multis(40, 40, "in 40 intervals with answers that take longer than one")
		s.Want("")
		r.Server.Down(true)
		r.Server.Intercept(nil)
		time.Sleep(5 * time.Second)
		r.Server.Down(false)
		r.Settle()
		s.Want("Suspended Reconnected")
		multis(0, 0, "without a connection")
		time.Sleep(10 * probe)
		multis(9, 10, "in the 10 intervals after the outage")
		s.WantLease(leaseTime-3*probe, leaseTime)
		r.On(zktest.OpMulti, zktest.Swallow())
		time.Sleep(40 * probe)
		multis(1, 10, "in 40 intervals without answers")
		told := s.Fresh()
		expect(t, count[recipes.LeaseRanOut](told) == 1, "the seat is told %+v, want the lease to run out", told)
	})
}

func TestTheProbeIntervalCanBeSetAndStaysBelowTheTimeout(t *testing.T) {
	const short, most = time.Second, sessionTimeout / 4
	for set, want := range map[time.Duration]time.Duration{short: short, most: most, time.Minute: most} {
		run(t, fmt.Sprint(set), func(r *rig) {
			r.Plant("n")
			s := r.Seated()
			s.ClaimNode("n")
			multis := r.Multis()
			time.Sleep(time.Hour)
			multis(int(time.Hour/want), int(time.Hour/want), "in an hour")
			s.Want("")
		}, configured(func(c *session.Config) { c.ProbeInterval = set }))
	}
}

func TestAProbeThatFindsNoNodeTellsTheSeat(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Plant("a", "b")
		a, b := r.Seated(), r.Seated()
		a.ClaimNode("a") // without a listing, so its own node is not watched
		b.ClaimNode("b")
		r.DeleteNode("a")
		multis := r.Multis()
		a.WantAnswer(recipes.Gone{Epoch: 1, Node: named("a")})
		multis(0, 50, "until a probe has found that the node is gone") // one of the two is probed at random
		time.Sleep(100 * probe)
		a.Want("")
		b.Want("")
		multis(100, 100, "in 100 intervals for the one that is left")
	})
}

// TestALateClaimMakesNoHolder: the claim is answered after the seat has given up its
// node.
func TestALateClaimMakesNoHolder(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Plant("n")
		s := r.Seated()
		r.On(zktest.OpMulti, zktest.Delay(time.Second))
		s.Do(recipes.Claim{Epoch: 1, Node: named("n")})
		s.Do(recipes.Delete{Epoch: 1, Node: named("n")})
		time.Sleep(time.Second)
		s.Fresh()
		multis := r.Multis()
		time.Sleep(time.Hour)
		multis(0, 0, "in an hour after the claim was given up")
	})
}
