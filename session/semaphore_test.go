package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/zktest"
)

func TestEnterTakesThePermitsThatASurveyFindsFree(t *testing.T) {
	inSession(t, func(r *rig) {
		a, b := r.PermitSeat(4, 3), r.PermitSeat(9, 2)
		node := a.Makes(1).Node
		equal(t, a.Surveys(recipes.Survey{Node: named(node.Text)}), (recipes.Surveyed{Epoch: 1, Size: 4}),
			"a new semaphore is surveyed as")
		permits := ask[recipes.Entered](a, recipes.Enter{Epoch: 1, Node: named(node.Text), Permits: 3}).Permits
		expect(t, len(permits) == 3 && strings.HasPrefix(permits[0], "leases/_c_"+node.Text[3:39]+"-lease-"),
			"the request for 3 permits is answered %+v, want 3 named after the node %s", permits, node.Text)
		r.WantPermits(0, 3)
		other, missing := named(b.Makes(1).Node.Text), named("lock-0000000099")
		got := b.Surveys(recipes.Survey{Node: other, Watch: true})
		expect(t, got == (recipes.Surveyed{Epoch: 1, Size: 4, InUse: 3}),
			"beside three permits the survey says %+v, want 3 taken of 4", got)
		b.Asks(recipes.Survey{Epoch: 1, Node: missing, Watch: true},
			recipes.Refused{Epoch: 1, Op: recipes.OpSurvey, Missing: true})
		b.Asks(recipes.Enter{Epoch: 1, Node: other, Permits: 2, Version: 1},
			recipes.Refused{Epoch: 1, Op: recipes.OpEnter, Stale: true})
		b.Asks(recipes.Enter{Epoch: 1, Node: missing, Permits: 2},
			recipes.Refused{Epoch: 1, Op: recipes.OpEnter, Missing: true})
		r.WantPermits(1, 3)
		a.ClaimNode(permits[0])
		a.Deletes(permits[0])
		b.Want("Changed")
		r.WantPermits(1, 0)
	})
}

// TestTheReplyToAnEnterIsLost: so may be the request. In both cases, a listing after a
// barrier reports either all permits or none.
func TestTheReplyToAnEnterIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		action  zktest.Action
		permits int
	}{"the reply": {zktest.CutAfter(), 3}, "the request": {zktest.CutBefore(), 0}} {
		run(t, name, func(r *rig) {
			r.MakePermits(4)
			s := r.PermitSeat(4, 3)
			node := s.Makes(1).Node
			s.Surveys(recipes.Survey{Node: node})
			r.Once(c.action, func(q zktest.Request) bool { return q.Op == zktest.OpMulti && len(q.Parts) > 3 })
			s.Asks(recipes.Enter{Epoch: 1, Node: node, Permits: 3}, recipes.Unknown{Epoch: 1, Op: recipes.OpEnter})
			listed := s.Look(1, true)
			own := listed.Own.Name
			r.WantPermits(1-c.permits/3, c.permits)
			if listed.Own.Owner != r.Only() || listed.Entered != (c.permits > 0) {
				r.Fatalf("the listing behind a barrier is %+v, want the session's own, leased: %v", listed, c.permits > 0)
			}
			if c.permits == 0 {
				expect(r, own == node, "the listing has %+v, want %v, which is not leased", listed, node)
				return
			}
			ask[recipes.Claimed](s, recipes.Claim{Epoch: 1, Node: own})
			permits := r.Server.Children(takenAt)
			r.Must(r.Server.Delete(takenAt + "/" + permits[1])) // not the one by which the machine knows the permits
			gone := s.Want("Gone")[0].(recipes.Gone)
			expect(r, gone.Node.Same(own), "%+v", gone)
			s.Asks(recipes.Claim{Epoch: 1, Node: own}, recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true})
			s.Do(recipes.Delete{Epoch: 1, Node: own})
			s.Want("Gone Gone Deleted")
			r.WantPermits(0, 0)
		})
	}
}

// TestSomeOfTheLeasesThatAreFoundAreMissing: one permit was deleted while the reply was
// lost. A warm session does not know that, although it has listed the seat on this
// connection and watches the first permit.
func TestSomeOfTheLeasesThatAreFoundAreMissing(t *testing.T) {
	for name, listed := range map[string]bool{"not listed": false, "listed while it was queued": true} {
		run(t, name, func(r *rig) {
			r.Make(takenAt, "another program's, so the Enter does not count the permits")
			s := r.PermitSeat(4, 3)
			node := s.Makes(1).Node
			if listed {
				s.Look(1, false)
			}
			version := s.Surveys(recipes.Survey{Node: node}).Version
			counts := func(q zktest.Request) bool { return q.Op == zktest.OpGetData && q.Path == takenAt }
			lost := r.Once(zktest.Fail(zktest.Throttled), counts)
			s.Do(recipes.Enter{Epoch: 1, Node: node, Permits: 3, Version: version})
			r.Until("the permits are counted in vain", lost)
			r.Until("the seat is told", func() bool { return count[recipes.Unknown](s.Fresh()) == 1 })
			r.Must(r.Server.Delete(takenAt + "/" + r.Server.Children(takenAt)[2]))
			own := s.Look(1, true).Own.Name
			s.Asks(recipes.Claim{Epoch: 1, Node: own}, recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true})
			s.Do(recipes.Discard{Node: own})
			r.WantPermits(0, 0)
		})
	}
}

// TestPermitsAreGivenBackThoughOneIsGone: a contender has taken permits at once, beside
// too many others, or although another contender waits. It returns them when it queues
// up, in the same transaction. If the queue's directory is gone, it first returns them in
// a transaction of their own, and only if a permit is gone, one by one. In each case,
// none is left, and its node is in the queue. The next contender enters at once when there
// is room, unless the directory is new.
func TestPermitsAreGivenBackThoughOneIsGone(t *testing.T) {
	const queued, taken = queueAt + "/lock-0000000009", takenAt + "/_c_foreign-lease-0000000900"
	const nothing, permit, queue = "nothing", "a permit", "the queue"
	for _, foreign := range []string{queued, taken} {
		for _, gone := range []string{nothing, permit, queue} {
			if foreign == queued && gone == queue {
				continue // it is not empty
			}
			run(t, fmt.Sprintf("beside %s, %s is gone", foreign, gone), func(r *rig) {
				r.MakePermits(4)
				first := r.PermitSeat(4, 1)
				node := first.Makes(1).Node
				first.Look(1, false) // from now on, the session knows the semaphore
				first.Surveys(recipes.Survey{Node: node})
				first.Do(recipes.Enter{Epoch: 1, Node: node, Permits: 1})
				if told := typesOf(first.Fresh()); told != "Gone Entered" && told != "Entered" { // it may have left its place before the event
					r.Fatalf("the seat is told %s, want Entered", told)
				}
				r.Make(foreign, "")
				s := r.PermitSeat(4, 3)
				spare := makeOf[recipes.Entered](s, 1)
				if !spare.Spare || spare.Token == 0 || spare.Size != 4 || len(spare.Permits) != 3 ||
					foreign == taken && spare.InUse != 5 {
					r.Fatalf("%+v, want three permits of four that have to be given back", spare)
				}
				apart := 0
				switch gone {
				case permit:
					r.Must(r.Server.Delete(permitsAt + "/" + spare.Permits[1]))
					apart = len(spare.Permits)
				case queue:
					r.Must(r.Server.Delete(queueAt))
				}
				before := r.Server.Requests(zktest.OpDelete)
				place := ask[recipes.Created](s, recipes.Create{Epoch: 1, Attempt: 1, Back: named(spare.Permits[0])}).Node
				if n := r.Server.Requests(zktest.OpDelete) - before; n != apart {
					r.Fatalf("%d permits were deleted by themselves, want %d", n, apart)
				}
				if foreign == queued {
					r.WantPermits(2, 1)
					return
				}
				r.WantPermits(1, 2)
				if gone == queue { // the session does not know the new one yet
					return
				}
				r.Must(r.Server.Delete(foreign))
				r.Settle()
				s.Fresh()
				s.Do(recipes.Enter{Epoch: 1, Node: place, Permits: 3})
				r.Settle()
				answers := s.Fresh()
				entered, is := answers[len(answers)-1].(recipes.Entered)
				if !is {
					r.Fatalf("the answers are %s, want Entered at last", typesOf(answers))
				}
				s.Do(recipes.Delete{Epoch: 1, Node: named(entered.Permits[0])})
				r.Settle()
				third := r.PermitSeat(4, 3)
				third.Do(recipes.Create{Epoch: 1, Attempt: 1})
				r.Settle()
				third.Want("Entered") // at once
			})
		}
	}
}

// TestAnEnterLeavesAFloor: the same transaction writes it to the queue's directory.
func TestAnEnterLeavesAFloor(t *testing.T) {
	inSession(t, func(r *rig) {
		r.MakePermits(2)
		s := r.PermitSeat(2, 1)
		s.Makes(1)
		own := s.Look(1, false).Own // and the session learns that the directory is ours
		node := named(own.Name.Text)
		version := s.Surveys(recipes.Survey{Node: node}).Version
		multis := r.Multis()
		s.Do(recipes.Enter{Epoch: 1, Node: node, Permits: 1, Version: version, Floor: true})
		// The Enter deletes the seat's place in the queue. The seat receives Gone for it,
		// unless the reply is handled first: then it follows its permits.
		switch got := s.Fresh(); typesOf(got) {
		case "Gone Entered", "Entered":
		default:
			r.Fatalf("the seat is told %+v, want Entered, and before it at most Gone", got)
		}
		multis(1, 1, "for an Enter")
		data, _ := r.Server.Data(queueAt)
		expect(t, string(data) == floorOf(own.Token), "data %q, want %q", data, floorOf(own.Token))
	})
}

// TestResizeIsMadeUntilItIsSettled: that includes a lost reply. It is not made after its
// caller has given up.
func TestResizeIsMadeUntilItIsSettled(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutAfter(), zktest.CutBefore(), zktest.Fail(zktest.Throttled)} {
		run(t, fmt.Sprint(action), func(r *rig) {
			r.PermitSeat(4, 1).Surveys(recipes.Survey{})
			hit := r.Once(action, func(q zktest.Request) bool { return q.Op == zktest.OpSetData || q.Op == zktest.OpMulti })
			if resizes(r); !hit() {
				r.Fatal("no request was hit, want success in spite of that")
			}
		})
	}
}

// resizes changes the size to 6, and checks that the write with the returned zxid has set
// it.
func resizes(r *rig) {
	r.Helper()
	zxid, err := r.Session.Resize(r.Context(), permitsAt, 6, nil)
	r.Must(err)
	data, stat, err := r.Admin().Get(permitsAt + "/size")
	r.Must(err)
	if string(data) != "6" || zxid != stat.Mzxid {
		r.Errorf("the size is %q, written with the zxid %d, and Resize has returned %d; want 6, and the same zxid",
			data, stat.Mzxid, zxid)
	}
}

// TestAResizeTouchesThePermits: waiters for room watch the permits, even if these appear
// during the resize. The resize leaves no node there. If it may not touch the permits, it
// still writes the size.
func TestAResizeTouchesThePermits(t *testing.T) {
	for name, c := range map[string]struct {
		late, denied bool
	}{"there are some": {}, "they come meanwhile": {late: true}, "not permitted": {denied: true}} {
		run(t, name, func(r *rig) {
			r.PermitSeat(4, 1).Surveys(recipes.Survey{})
			admin := r.Admin()
			var fired <-chan zk.Event
			waits := func() {
				acl := zk.WorldACL(zk.PermAll)
				if c.denied {
					acl = zk.WorldACL(zk.PermRead)
				}
				_, err := admin.Create(takenAt, nil, zk.FlagPersistent, acl)
				r.Must(err)
				_, _, fired, err = admin.ChildrenW(takenAt)
				r.Must(err)
			}
			if c.late {
				r.Once(zktest.Pass(), func(q zktest.Request) bool {
					if q.Op != zktest.OpSetData {
						return false
					}
					waits()
					return true
				})
			} else {
				waits()
			}
			resizes(r)
			synctest.Wait()
			select {
			case <-fired:
				expect(r, !c.denied, "the waiter was told, although the permits may not be touched")
			default:
				expect(r, c.denied, "the waiter was not told of the resize, want an event at the permits")
			}
			left := r.Server.Children(takenAt)
			expect(r, len(left) == 0, "among the permits are %v, want nothing", left)
		})
	}
}
