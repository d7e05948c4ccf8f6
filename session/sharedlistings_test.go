package session_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/faultnet"
)

// A listing that is under way when a seat asks may have been read before that. It serves only the requests from before it began.
func TestAListingServesTheRequestsBeforeIt(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a, b, c := r.Seated(), r.Seated(), r.Seated()
		a.CreateNode(1)
		r.On(zktest.OpGetChildren2, zktest.Delay(time.Second))
		a.Do(recipes.List{Epoch: 1, Attempt: 1})
		synctest.Wait() // it has been read, and the answer is on its way
		r.Plant("lock-0000000007")
		before := r.Server.Requests(zktest.OpGetChildren2)
		b.Do(recipes.List{Epoch: 1})
		c.Do(recipes.List{Epoch: 1})
		for seat, want := range map[*sessiontest.Seat]int{a: 1, b: 2, c: 2} {
			if in := sessiontest.AnswerOf[recipes.Listed](seat); len(in.Queue) != want {
				t.Errorf("a seat is told %+v, want %d nodes: those that were there when it asked", in, want)
			}
		}
		if n := r.Server.Requests(zktest.OpGetChildren2) - before; n != 1 {
			t.Errorf("two seats that asked together took %d listings, want one", n)
		}
	})
}

// Each seat finds its own node among the names that all are told. The names are in the same order for all.
func TestEachSeatFindsItsOwnNodeInASharedListing(t *testing.T) {
	const seats = 40
	for name, place := range map[string]session.Place{
		"mutex": {Dir: sessiontest.Dir}, "kazoo": {Dir: sessiontest.Dir, Kind: events.KindKazooLock},
		"semaphore": {Dir: sessiontest.PermitsAt, Size: 3, Permits: 1},
		"multi":     {Dir: "/locks/a", Members: []session.Place{{Dir: "/locks/a", Kind: events.KindLock}, {Dir: "/locks/b", Kind: events.KindWrite}}},
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			all := make([]*sessiontest.Seat, seats)
			own := make([]string, seats)
			for i := range all {
				all[i] = r.SeatedAt(place)
				all[i].Do(recipes.Create{Epoch: 1, Attempt: 1})
				switch in := all[i].Answer().(type) {
				case recipes.Created:
					own[i] = in.Node.Text
				case recipes.Enqueued:
					own[i] = in.Nodes[0].Text
				default:
					r.Fatalf("a create is answered %+v", in)
				}
			}
			before := r.Server.Requests(zktest.OpGetChildren2)
			r.Together(func() {
				for i, s := range all {
					s.Do(recipes.List{Epoch: 1, Attempt: recipes.Attempt(i%2 + 1)}) // half of them look for a node that they have not made
				}
			})
			var first []events.Name
			for i, s := range all {
				in := sessiontest.AnswerOf[recipes.Listed](s)
				want := own[i]
				if i%2 == 1 {
					want = ""
				}
				if in.Own.Name.Text != want || want != "" && in.Own.Owner != r.Only() {
					r.Errorf("seat %d finds %+v, want %q", i, in.Own, want)
				}
				if first == nil {
					first = in.Queue
				}
				if members := max(1, len(place.Members)); len(in.Queue) != members*seats || !slices.Equal(in.Queue, first) {
					r.Errorf("seat %d is told of %d nodes, want %d in the order of all others", i, len(in.Queue), members*seats)
				}
			}
			if n := r.Server.Requests(zktest.OpGetChildren2) - before; n != max(1, len(place.Members)) {
				r.Errorf("%d seats took %d listings, want one of each directory", seats, n)
			}
		})
	}
}

// TestListingsUnderWayTogetherAreBounded: large directories, of which a server has told the size, are not all listed at a time. Small ones
// are.
func TestListingsUnderWayTogetherAreBounded(t *testing.T) {
	const dirs, small, large = 5, 1, 17_000 // three of the large ones are within the bound
	for children, most := range map[int]int{small: dirs, large: 3} {
		sessiontest.Bubble(t, func(r *sessiontest.Rig) {
			var mu sync.Mutex
			now, top := 0, 0
			link := faultnet.New(r.Server.DialContext, func(f faultnet.Frame) faultnet.Verdict {
				if f.Op != zktest.OpGetChildren2 {
					return faultnet.Pass()
				}
				mu.Lock()
				defer mu.Unlock()
				if f.Direction == faultnet.Up {
					now++
					top = max(top, now)
					return faultnet.Pass()
				}
				// A moment before it comes, because the next one may be sent at once.
				time.AfterFunc(time.Second-time.Microsecond, func() {
					mu.Lock()
					defer mu.Unlock()
					now--
				})
				return faultnet.HoldFor(time.Second)
			})
			r.Open("", session.OptionFunc(func(c *session.Config) { c.Dial = link.Dial }))
			var seats []*sessiontest.Seat
			for d := range dirs {
				dir := fmt.Sprintf("/locks/%d", d)
				for i := range children {
					r.Must(r.Server.Create(fmt.Sprintf("%s/lock-%010d", dir, i), nil))
				}
				seats = append(seats, r.SeatedAt(session.Place{Dir: dir}))
			}
			for _, s := range seats {
				s.ListNodes(1) // it tells how large the directory is
			}
			r.Together(func() {
				for _, s := range seats {
					s.Do(recipes.List{Epoch: 1})
				}
			})
			for _, s := range seats {
				if in := sessiontest.AnswerOf[recipes.Listed](s); len(in.Queue) != children {
					t.Errorf("%d nodes are listed, want %d", len(in.Queue), children)
				}
			}
			if top != most {
				t.Errorf("%d directories of %d nodes: %d listings were under way at a time, want %d", dirs, children, top, most)
			}
		})
	}
}

// TestEachListRequestIsAnsweredWhenTheSessionEnds: the requests that it was made for, and those that wait for the next one; each
// once, and for that epoch.
func TestEachListRequestIsAnsweredWhenTheSessionEnds(t *testing.T) {
	for name, c := range map[string]struct{ begun, closed bool }{
		"one is under way": {true, false}, "none has begun": {false, false}, "one is under way, and no session follows": {true, true},
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			seats := []*sessiontest.Seat{r.Seated(), r.Seated(), r.Seated()}
			seats = append(seats, r.SeatedAt(session.Place{Dir: sessiontest.Dir, Members: []session.Place{
				{Dir: sessiontest.Dir, Kind: events.KindLock}, {Dir: "/locks/b", Kind: events.KindLock},
			}}))
			if c.begun {
				r.On(zktest.OpGetChildren2, zktest.Swallow())
				seats[0].Do(recipes.List{Epoch: 1})
				synctest.Wait()
			} else {
				r.Server.Down(true)
				synctest.Wait()
				seats[0].Do(recipes.List{Epoch: 1})
			}
			for _, s := range seats[1:] {
				s.Do(recipes.List{Epoch: 1})
			}
			synctest.Wait()
			if c.closed {
				r.Close(time.Second)
			} else {
				r.Server.Intercept(nil)
				r.Must(r.Server.Expire(r.Only()))
				r.Server.Down(false)
				seats[0].Await(2)
			}
			for i, s := range seats {
				answers := slices.DeleteFunc(s.Fresh(), func(in recipes.Input) bool { _, ok := in.(recipes.Unknown); return !ok })
				if !slices.Equal(answers, []recipes.Input{recipes.Unknown{Epoch: 1, Op: recipes.OpList}}) {
					r.Errorf("seat %d is answered %+v, want one Unknown", i, answers)
				}
			}
			for _, s := range seats {
				if c.closed {
					return
				}
				s.Do(recipes.List{Epoch: 2})
				sessiontest.AnswerOf[recipes.Listed](s)
			}
		})
	}
}
