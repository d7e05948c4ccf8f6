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

// fastGrants returns the two ways to a grant other than a claim. Each returns a seat, and
// the request that will be granted.
func fastGrants() map[string]func(r *rig) (*seat, recipes.Effect) {
	return map[string]func(r *rig) (*seat, recipes.Effect){
		"by a create": func(r *rig) (*seat, recipes.Effect) {
			r.Warm()
			return r.Seated(), recipes.Create{Epoch: 1, Attempt: 1}
		},
		"by an advance": func(r *rig) (*seat, recipes.Effect) {
			l := r.Line()
			l.Leave(true)
			return l.waiter, l.advance
		},
	}
}

// grants reports whether an answer proves that the seat is first, and whether in time.
func grants(in recipes.Input) (first, fresh bool) {
	switch in := in.(type) {
	case recipes.Created:
		return in.Alone, in.Fresh
	case recipes.Advanced:
		return in.Floor, in.Fresh
	default:
		return false, false
	}
}

// TestEachHolderIsToldOfTheEndOfTheLease: a holder is notified, however it was granted
// the lock.
func TestEachHolderIsToldOfTheEndOfTheLease(t *testing.T) {
	for name, prepare := range fastGrants() {
		run(t, name, func(r *rig) {
			s, request := prepare(r)
			s.Do(request)
			in := s.Answer()
			if first, fresh := grants(in); !first || !fresh {
				r.Fatalf("the request is answered %+v, want a grant", in)
			}
			multis := r.Multis()
			time.Sleep(time.Minute)
			multis(int(time.Minute/probe), int(time.Minute/probe), "in a minute with one holder")
			s.Want("")
			r.Server.MuteAll(true)
			time.Sleep(sessionTimeout)
			s.Want("Suspended LeaseRanOut")
			r.Server.MuteAll(false)
		})
	}
}

// TestAProofThatIsSeenTooLateIsNotFresh: a process pauses, and sees the answer when it is
// no longer worth anything.
func TestAProofThatIsSeenTooLateIsNotFresh(t *testing.T) {
	for name, prepare := range fastGrants() {
		run(t, name, func(r *rig) {
			s, request := prepare(r)
			r.Either(isA(zktest.OpMulti, zktest.OpGetData), zktest.Delay(time.Second), zktest.Swallow())
			s.Do(request)
			synctest.Wait()
			r.Session.Loop().Post(func() { time.Sleep(leaseTime + time.Second) }) // the whole process pauses
			time.Sleep(leaseTime + 2*time.Second)
			got := s.FreshAnswers()
			if len(got) != 1 {
				r.Fatalf("told %+v, want one answer", got)
			}
			first, fresh := grants(got[0])
			expect(r, first && !fresh, "told %+v, want a proof that is not fresh", got)
		})
	}
}

// TestALoneHoldersNodeIsWatchedAfterAWhile: a short hold costs no watch. A longer hold is
// watched, so the holder is notified at once when its node is gone.
func TestALoneHoldersNodeIsWatchedAfterAWhile(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Warm()
		s := r.Seated()
		asked := r.Asked()
		for attempt := range recipes.Attempt(10) {
			s.DeleteNode(s.Makes(attempt + 1).Node.Text)
		}
		if got := asked(); got[zktest.OpGetData] != 0 || r.Server.Watches() != 0 {
			t.Errorf("after ten short cycles the server was asked for %v and has %d watches, want no watch",
				got, r.Server.Watches())
		}
		node := s.Makes(11).Node.Text
		time.Sleep(probe + time.Millisecond)
		synctest.Wait()
		r.WantWatches(1)
		r.DeleteNode(node)
		s.WantGone(node)
		time.Sleep(time.Minute)
		r.WantWatches(0)
	})
}

// TestHowLongTheNodesOfManyHoldersStayUnwatched: many locks are granted at once. After a
// probe interval, the session reads their nodes, 224 in each round trip.
func TestHowLongTheNodesOfManyHoldersStayUnwatched(t *testing.T) {
	const locks, each, trip = 1000, 224, 50 * time.Millisecond
	inSession(t, func(r *rig) {
		r.Seated().Makes(1) // creates the parent, so it takes more than one request
		for i := range locks {
			r.SeatedAt(session.Place{Dir: fmt.Sprint(lockDir, i)}).Makes(1)
		}
		r.WantWatches(0)
		r.On(zktest.OpGetData, zktest.Delay(trip))
		time.Sleep(probe)
		for begun := range locks/each + 1 {
			synctest.Wait()
			r.WantWatches(min(locks, (begun+1)*each))
			time.Sleep(trip)
		}
	})
}
