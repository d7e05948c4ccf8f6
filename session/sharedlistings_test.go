package session_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestAListingServesTheRequestsBeforeIt: a listing in progress when a seat requests one
// may have been read before that.
func TestAListingServesTheRequestsBeforeIt(t *testing.T) {
	inSession(t, func(r *rig) {
		a, b, c := r.Seated(), r.Seated(), r.Seated()
		a.Makes(1)
		r.On(zktest.OpGetChildren2, zktest.Delay(time.Second))
		a.Do(recipes.List{Epoch: 1, Attempt: 1})
		synctest.Wait() // it has been read, and the answer is in transit
		r.Plant("lock-0000000007")
		before := r.Server.Requests(zktest.OpGetChildren2)
		b.Do(recipes.List{Epoch: 1})
		c.Do(recipes.List{Epoch: 1})
		for s, want := range map[*seat]int{a: 1, b: 2, c: 2} {
			in := answerOf[recipes.Listed](s)
			equal(t, len(in.Queue), want, "the nodes that were there when it asked, in %+v", in)
		}
		equal(t, r.Server.Requests(zktest.OpGetChildren2)-before, 1,
			"listings for two seats that asked together")
	})
}

// TestEachSeatFindsItsOwnNodeInASharedListing: the names are in one order for all seats.
func TestEachSeatFindsItsOwnNodeInASharedListing(t *testing.T) {
	const seats = 40
	for name, place := range map[string]session.Place{
		"mutex": {Dir: lockDir}, "kazoo": {Dir: lockDir, Kind: events.KindKazooLock},
		"semaphore": {Dir: permitsAt, Size: 3, Permits: 1},
		"multi": {Dir: "/locks/a", Members: []session.Place{
			{Dir: "/locks/a", Kind: events.KindLock}, {Dir: "/locks/b", Kind: events.KindWrite},
		}},
	} {
		run(t, name, func(r *rig) {
			all, own, dirs := make([]*seat, seats), make([]string, seats), max(1, len(place.Members))
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
				for i, s := range all { // half of them look for a node that they have not created
					s.Do(recipes.List{Epoch: 1, Attempt: recipes.Attempt(i%2 + 1)})
				}
			})
			var first []events.Name
			for i, s := range all {
				in := answerOf[recipes.Listed](s)
				if i == 0 {
					first = in.Queue
				}
				if i%2 == 1 {
					equal(r, in.Own.Name.Text, "", "seat %d finds", i)
				} else if in.Own.Name.Text != own[i] || in.Own.Owner != r.Only() {
					r.Errorf("seat %d finds %+v, want %q", i, in.Own, own[i])
				}
				expect(r, len(in.Queue) == dirs*seats && slices.Equal(in.Queue, first),
					"seat %d is told of %d nodes, want %d in the order of all others", i, len(in.Queue), dirs*seats)
			}
			equal(r, r.Server.Requests(zktest.OpGetChildren2)-before, dirs, "listings for %d seats", seats)
		})
	}
}

// TestListingsUnderWayTogetherAreBounded: large directories whose size a server has
// reported are not all listed at once. Small ones are.
func TestListingsUnderWayTogetherAreBounded(t *testing.T) {
	const dirs, small, large = 5, 1, 17_000 // three of the large ones are within the limit
	for children, most := range map[int]int32{small: dirs, large: 3} {
		inSession(t, func(r *rig) {
			var now atomic.Int32
			top := int32(0)
			r.Server.Intercept(func(q zktest.Request) zktest.Action {
				if q.Op != zktest.OpGetChildren2 {
					return zktest.Pass()
				}
				top = max(top, now.Add(1)) // one connection, one request at a time
				// A moment before the answer arrives, because the next listing may be
				// sent at once.
				time.AfterFunc(time.Second-time.Microsecond, func() { now.Add(-1) })
				return zktest.Delay(time.Second)
			})
			var seats []*seat
			for d := range dirs {
				dir := fmt.Sprintf("/locks/%d", d)
				for i := range children {
					r.Make(fmt.Sprintf("%s/lock-%010d", dir, i), "")
				}
				seats = append(seats, r.SeatedAt(session.Place{Dir: dir}))
			}
			for _, s := range seats {
				s.Look(1, false) // reports the size of the directory
			}
			r.Together(func() {
				for _, s := range seats {
					s.Do(recipes.List{Epoch: 1})
				}
			})
			for _, s := range seats {
				in := answerOf[recipes.Listed](s)
				expect(t, len(in.Queue) == children, "%d nodes are listed, want %d", len(in.Queue), children)
			}
			equal(t, top, most, "%d directories of %d nodes: listings under way at a time", dirs, children)
		})
	}
}

// TestEachListRequestIsAnsweredWhenTheSessionEnds: that includes the requests of the
// listing in progress, and those that wait for the next one. Each is answered once, and
// for its own epoch.
func TestEachListRequestIsAnsweredWhenTheSessionEnds(t *testing.T) {
	for name, c := range map[string]struct{ begun, closed bool }{
		"one is under way": {true, false}, "none has begun": {false, false}, "one is under way, and no session follows": {true, true},
	} {
		run(t, name, func(r *rig) {
			multi := session.Place{Dir: lockDir, Members: []session.Place{
				{Dir: lockDir, Kind: events.KindLock}, {Dir: "/locks/b", Kind: events.KindLock},
			}}
			seats := []*seat{r.Seated(), r.Seated(), r.Seated(), r.SeatedAt(multi)}
			if c.begun {
				r.On(zktest.OpGetChildren2, zktest.Swallow())
			} else {
				r.Server.Down(true)
			}
			synctest.Wait()
			for _, s := range seats {
				s.Do(recipes.List{Epoch: 1})
				synctest.Wait()
			}
			if c.closed {
				r.Close(time.Second)
			} else {
				r.Server.Intercept(nil)
				r.Must(r.Server.Expire(r.Only()))
				r.Server.Down(false)
				seats[0].Await(2)
			}
			for _, s := range seats {
				s.WantAnswer(recipes.Unknown{Epoch: 1, Op: recipes.OpList})
				if !c.closed {
					ask[recipes.Listed](s, recipes.List{Epoch: 2})
				}
			}
		})
	}
}
