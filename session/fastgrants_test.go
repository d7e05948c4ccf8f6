package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// fastGrants are the two ways to a grant that are not a claim. Each makes a request, which is answered with want if the answer is
// seen in time.
func fastGrants() map[string]func(r *sessiontest.Rig) (s *sessiontest.Seat, request func(), want recipes.Input) {
	return map[string]func(r *sessiontest.Rig) (s *sessiontest.Seat, request func(), want recipes.Input){
		"by a create": func(r *sessiontest.Rig) (*sessiontest.Seat, func(), recipes.Input) {
			r.Warm()
			s := r.Seated()
			return s, func() { s.Do(recipes.Create{Epoch: 1, Attempt: 1}) }, recipes.Created{Alone: true, Fresh: true}
		},
		"by an advance": func(r *sessiontest.Rig) (*sessiontest.Seat, func(), recipes.Input) {
			r.Warm()
			r.Plant("lock-0000000000")
			pred, s := r.Seat(), r.Seated()
			node := pred.CreateNode(1).Text
			pred.ListNodes(1)
			own := s.CreateNode(1).Text
			s.WatchNode(node)
			s.Want("")
			pred.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: node}, Floor: true})
			s.WantGone(node)
			advance := recipes.Advance{Epoch: 1, Node: events.Name{Text: own}, Past: events.Name{Text: node}, Next: events.Name{Text: "lock-0000000000"}}
			return s, func() { s.Do(advance) }, recipes.Advanced{Floor: true, Fresh: true}
		},
	}
}

// proof returns the part of an answer that matters for a grant.
func proof(in recipes.Input) recipes.Input {
	switch in := in.(type) {
	case recipes.Created:
		return recipes.Created{Alone: in.Alone, Fresh: in.Fresh}
	case recipes.Advanced:
		return recipes.Advanced{Floor: in.Floor, Fresh: in.Fresh}
	default:
		return in
	}
}

// TestEachHolderIsToldOfTheEndOfTheLease, however it was granted.
func TestEachHolderIsToldOfTheEndOfTheLease(t *testing.T) {
	for name, prepare := range fastGrants() {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			s, request, want := prepare(r)
			request()
			if in := s.Answer(); proof(in) != want {
				r.Fatalf("the request is answered %+v, want %+v", in, want)
			}
			multis := r.Multis()
			time.Sleep(time.Minute)
			multis(int(time.Minute/probe), int(time.Minute/probe), "in a minute with one holder")
			s.Want("")
			r.Server.MuteAll(true)
			time.Sleep(sessiontest.Timeout)
			s.Want("Suspended LeaseRanOut")
			r.Server.MuteAll(false)
		})
	}
}

// TestAProofThatIsSeenTooLateIsNotFresh: a process is held up, and finds the answer when it has no value any more.
func TestAProofThatIsSeenTooLateIsNotFresh(t *testing.T) {
	for name, prepare := range fastGrants() {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			s, request, want := prepare(r)
			slow := r.Seated()
			r.Server.Intercept(func(q zktest.Request) zktest.Action {
				switch q.Op {
				case zktest.OpMulti, zktest.OpGetData:
					return zktest.Delay(time.Second)
				default:
					return zktest.Swallow()
				}
			})
			request()
			synctest.Wait()
			slow.Hears(func(recipes.Input) { time.Sleep(sessiontest.Lease + time.Second) }) // a pause of the whole process
			slow.Do(recipes.Delete{Epoch: 99, Node: events.Name{Text: "n"}})
			time.Sleep(sessiontest.Lease + 2*time.Second)
			var got []recipes.Input
			for _, in := range s.Fresh() {
				if _, news := in.(recipes.Suspended); !news {
					got = append(got, proof(in))
				}
			}
			switch stale := want.(type) {
			case recipes.Created:
				stale.Fresh = false
				want = stale
			case recipes.Advanced:
				stale.Fresh = false
				want = stale
			}
			if len(got) != 1 || got[0] != want {
				r.Errorf("told %+v, want %+v", got, want)
			}
		})
	}
}

// TestALoneHoldersNodeIsWatchedAfterAWhile: a short cycle costs no watch, and a holder that holds on is told at once that its node is
// gone.
func TestALoneHoldersNodeIsWatchedAfterAWhile(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.Warm()
		s := r.Seated()
		asked := r.Asked()
		for attempt := range recipes.Attempt(10) {
			s.DeleteNode(s.Makes(attempt + 1).Node.Text)
		}
		if got := asked(); got[zktest.OpGetData] != 0 || r.Server.Watches() != 0 {
			t.Errorf("after ten short cycles the server was asked for %v and has %d watches, want no watch", got, r.Server.Watches())
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
