package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const sizeAt = sessiontest.PermitsAt + "/size"

func TestEnterTakesThePermitsThatASurveyFindsFree(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a, b := r.PermitSeat(4, 3), r.PermitSeat(9, 2)
		node := a.CreateNode(1).Text
		if got := a.Surveys(recipes.Survey{Node: events.Name{Text: node}}); got != (recipes.Surveyed{Epoch: 1, Size: 4}) {
			t.Errorf("a new semaphore is surveyed as %+v, want 4 free permits", got)
		}
		a.Do(recipes.Enter{Epoch: 1, Node: events.Name{Text: node}, Permits: 3})
		entered, ok := a.Answer().(recipes.Entered)
		if !ok || len(entered.Permits) != 3 || !strings.HasPrefix(entered.Permits[0], "leases/_c_"+node[3:39]+"-lease-") {
			t.Errorf("the request for 3 permits is answered %+v, want 3 permits named after the node %s", entered, node)
		}
		r.WantPermits(0, 3)
		other := b.CreateNode(1).Text
		if got := b.Surveys(recipes.Survey{Node: events.Name{Text: other}, Watch: true}); got != (recipes.Surveyed{Epoch: 1, Size: 4, InUse: 3}) {
			t.Errorf("beside three permits the survey says %+v, want 3 taken of 4", got)
		}
		b.Do(recipes.Survey{Epoch: 1, Node: events.Name{Text: "lock-0000000099"}, Watch: true})
		b.WantAnswer(recipes.Refused{Epoch: 1, Op: recipes.OpSurvey, Missing: true})
		b.Do(recipes.Enter{Epoch: 1, Node: events.Name{Text: other}, Permits: 2, Version: 1})
		b.WantAnswer(recipes.Refused{Epoch: 1, Op: recipes.OpEnter, Stale: true})
		b.Do(recipes.Enter{Epoch: 1, Node: events.Name{Text: "lock-0000000099"}, Permits: 2})
		b.WantAnswer(recipes.Refused{Epoch: 1, Op: recipes.OpEnter, Missing: true})
		r.WantPermits(1, 3)
		a.Do(recipes.Claim{Epoch: 1, Node: events.Name{Text: entered.Permits[0]}})
		a.Want("Claimed")
		a.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: entered.Permits[0]}})
		a.Want("Deleted")
		b.Want("Changed")
		r.WantPermits(1, 0)
	})
}

// TestTheReplyToAnEnterIsLost, or the request. In both cases a look behind a barrier reports whether there are permits, all of them or
// none.
func TestTheReplyToAnEnterIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		action  zktest.Action
		permits int
	}{"the reply": {zktest.CutAfter(), 3}, "the request": {zktest.CutBefore(), 0}} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			r.MakePermits(4)
			s := r.PermitSeat(4, 3)
			node := s.CreateNode(1)
			s.Surveys(recipes.Survey{Node: node})
			r.Once(c.action, func(q zktest.Request) bool { return q.Op == zktest.OpMulti && len(q.Parts) > 3 })
			s.Do(recipes.Enter{Epoch: 1, Node: node, Permits: 3})
			s.WantAnswer(recipes.Unknown{Epoch: 1, Op: recipes.OpEnter})
			s.Do(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
			listed := sessiontest.AnswerOf[recipes.Listed](s)
			r.WantPermits(1-c.permits/3, c.permits)
			if listed.Own.Owner != r.Only() || listed.Entered != (c.permits > 0) {
				r.Fatalf("the listing behind a barrier is %+v, want the session's own, leased: %v", listed, c.permits > 0)
			}
			if c.permits == 0 {
				if listed.Own.Name != node {
					r.Errorf("the listing has %+v, want %v, which is not leased", listed, node)
				}
				return
			}
			s.Do(recipes.Claim{Epoch: 1, Node: listed.Own.Name})
			s.Want("Claimed")
			permits := r.Server.Children(sessiontest.TakenAt)
			if err := r.Server.Delete(sessiontest.TakenAt + "/" + permits[1]); err != nil { // not the one by which the machine knows them
				r.Fatal(err)
			}
			if gone := s.Want("Gone")[0].(recipes.Gone); !gone.Node.Same(listed.Own.Name) {
				r.Errorf("%+v", gone)
			}
			s.Do(recipes.Claim{Epoch: 1, Node: listed.Own.Name})
			s.WantAnswer(recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true})
			s.Do(recipes.Delete{Epoch: 1, Node: listed.Own.Name})
			s.Want("Gone Gone Deleted")
			r.WantPermits(0, 0)
		})
	}
}

// TestSomeOfTheLeasesThatAreFoundAreMissing: one was deleted while the reply was lost.
func TestSomeOfTheLeasesThatAreFoundAreMissing(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.PermitSeat(4, 3)
		s.Enters(3)
		r.Must(r.Server.Delete(sessiontest.TakenAt + "/" + r.Server.Children(sessiontest.TakenAt)[0]))
		s.Do(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
		listed := sessiontest.AnswerOf[recipes.Listed](s)
		s.Do(recipes.Claim{Epoch: 1, Node: listed.Own.Name})
		s.WantAnswer(recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true})
		s.Do(recipes.Discard{Node: listed.Own.Name})
		r.WantPermits(0, 0)
	})
}

// TestPermitsAreGivenBackThoughOneIsGone: a contender has taken permits at once, though another one waits. It gives them
// back as it queues up. None is left, also if one was deleted before, and its node is in the queue.
func TestPermitsAreGivenBackThoughOneIsGone(t *testing.T) {
	for _, gone := range []bool{false, true} {
		sessiontest.Run(t, fmt.Sprintf("one gone: %v", gone), func(r *sessiontest.Rig) {
			r.MakePermits(4)
			first := r.PermitSeat(4, 1)
			node := first.CreateNode(1)
			first.Look(1, false) // from now on the session knows the semaphore
			first.Surveys(recipes.Survey{Node: node})
			first.Do(recipes.Enter{Epoch: 1, Node: node, Permits: 1})
			first.Want("Gone Entered")
			r.Must(r.Server.Create(sessiontest.QueueAt+"/lock-0000000009", nil))
			s := r.PermitSeat(4, 3)
			s.Do(recipes.Create{Epoch: 1, Attempt: 1})
			entered := sessiontest.AnswerOf[recipes.Entered](s)
			if !entered.Spare || entered.Token == 0 || entered.Size != 4 || len(entered.Permits) != 3 {
				r.Fatalf("%+v, want three permits of four that have to be given back", entered)
			}
			if gone {
				r.Must(r.Server.Delete(sessiontest.PermitsAt + "/" + entered.Permits[1]))
			}
			s.Do(recipes.Create{Epoch: 1, Attempt: 1, Back: events.Name{Text: entered.Permits[0]}})
			sessiontest.AnswerOf[recipes.Created](s)
			r.WantPermits(2, 1)
		})
	}
}

// TestAnEnterLeavesAFloor in the queue's directory, in the same transaction.
func TestAnEnterLeavesAFloor(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.MakePermits(2)
		s := r.PermitSeat(2, 1)
		s.CreateNode(1)
		token := s.ListNodes(1).Own.Token // and the session learns that the directory is ours
		node := s.ListNodes(1).Own.Name.Text
		version := s.Surveys(recipes.Survey{Node: events.Name{Text: node}}).Version
		multis := r.Multis()
		s.Do(recipes.Enter{Epoch: 1, Node: events.Name{Text: node}, Permits: 1, Version: version, Floor: true})
		// Its place in the queue goes with the Enter. The seat is told that, unless the reply is handled first: then it follows its permits.
		switch got := s.Fresh(); sessiontest.TypesOf(got) {
		case "Gone Entered", "Entered":
		default:
			r.Fatalf("the seat is told %+v, want Entered, and before it at most Gone", got)
		}
		multis(1, 1, "for an Enter")
		if data, _ := r.Server.Data(sessiontest.QueueAt); string(data) != floorOf(token) {
			t.Errorf("data %q, want %q", data, floorOf(token))
		}
	})
}

// TestResizeIsMadeUntilItIsSettled, also if its reply is lost, and not after its caller has given up.
func TestResizeIsMadeUntilItIsSettled(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutAfter(), zktest.CutBefore(), zktest.Fail(zktest.Throttled)} {
		sessiontest.Run(t, fmt.Sprint(action), func(r *sessiontest.Rig) {
			r.PermitSeat(4, 1).Surveys(recipes.Survey{})
			hit := r.Once(action, func(q zktest.Request) bool { return q.Op == zktest.OpSetData || q.Op == zktest.OpMulti })
			zxid, err := r.Session.Resize(r.Context(), sessiontest.PermitsAt, 6, nil)
			if err != nil || !hit() {
				r.Fatalf("Resize = %v, its request was hit: %v; want success in spite of that", err, hit())
			}
			wantSize(r, zxid)
		})
	}
}

// wantSize checks that the size is 6, and that the write with the zxid has set it.
func wantSize(r *sessiontest.Rig, zxid int64) {
	r.Helper()
	data, stat, err := r.Admin().Get(sizeAt)
	r.Must(err)
	if string(data) != "6" || zxid != stat.Mzxid {
		r.Errorf("the size is %q, written with the zxid %d, and Resize has returned %d; want 6, and the same zxid",
			data, stat.Mzxid, zxid)
	}
}

// TestAResizeTouchesThePermits, which the waiters for room watch, also if permits come while it is made. It leaves nothing there. If
// it may not touch the permits the size is written nevertheless.
func TestAResizeTouchesThePermits(t *testing.T) {
	const permits = sessiontest.PermitsAt + "/leases"
	for name, c := range map[string]struct {
		late, denied bool
	}{"there are some": {}, "they come meanwhile": {late: true}, "not permitted": {denied: true}} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			r.PermitSeat(4, 1).Surveys(recipes.Survey{})
			admin := r.Admin()
			defer admin.Close()
			var fired <-chan zk.Event
			waits := func() {
				acl := zk.WorldACL(zk.PermAll)
				if c.denied {
					acl = zk.WorldACL(zk.PermRead)
				}
				_, err := admin.Create(permits, nil, zk.FlagPersistent, acl)
				r.Must(err)
				_, _, fired, err = admin.ChildrenW(permits)
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
			zxid, err := r.Session.Resize(r.Context(), sessiontest.PermitsAt, 6, nil)
			r.Must(err)
			wantSize(r, zxid)
			synctest.Wait()
			select {
			case <-fired:
				if c.denied {
					r.Error("the waiter was told, although the permits may not be touched")
				}
			default:
				if !c.denied {
					r.Error("the waiter was not told of the resize, want an event at the permits")
				}
			}
			if left := r.Server.Children(permits); len(left) != 0 {
				r.Errorf("among the permits are %v, want nothing", left)
			}
		})
	}
}

// TestPermitsThatAreGivenBackApartAreForgotten: permits that were taken beside too many
// others are given back, in one transaction or, if one is gone, one by one. Either way
// the next contender enters at once.
func TestPermitsThatAreGivenBackApartAreForgotten(t *testing.T) {
	for _, gone := range []bool{false, true} {
		sessiontest.Run(t, fmt.Sprintf("one is gone: %t", gone), func(r *sessiontest.Rig) {
			r.MakePermits(4)
			first := r.PermitSeat(4, 1)
			node := first.CreateNode(1)
			first.Look(1, false)
			first.Surveys(recipes.Survey{Node: node})
			first.Do(recipes.Enter{Epoch: 1, Node: node, Permits: 1})
			first.Want("Gone Entered")
			foreign := sessiontest.TakenAt + "/_c_foreign-lease-0000000900"
			r.Must(r.Server.Create(foreign, nil))
			second := r.PermitSeat(4, 3)
			second.Do(recipes.Create{Epoch: 1, Attempt: 1})
			spare := sessiontest.AnswerOf[recipes.Entered](second)
			if !spare.Spare || spare.InUse != 5 {
				r.Fatalf("the answer is %+v, want spare permits, and 5 in use", spare)
			}
			if gone {
				r.Must(r.Server.Delete(sessiontest.PermitsAt + "/" + spare.Permits[1]))
			}
			second.Do(recipes.Create{Epoch: 1, Attempt: 1, Back: events.Name{Text: spare.Permits[0]}})
			place := sessiontest.AnswerOf[recipes.Created](second)
			r.Must(r.Server.Delete(foreign))
			r.Settle()
			second.Fresh()
			second.Do(recipes.Enter{Epoch: 1, Node: place.Node, Permits: 3})
			r.Settle()
			answers := second.Fresh()
			entered, is := answers[len(answers)-1].(recipes.Entered)
			if !is {
				r.Fatalf("the answers are %s, want Entered at last", sessiontest.TypesOf(answers))
			}
			second.Do(recipes.Delete{Epoch: 1, Node: events.Name{Text: entered.Permits[0]}})
			r.Settle()
			third := r.PermitSeat(4, 3)
			third.Do(recipes.Create{Epoch: 1, Attempt: 1})
			r.Settle()
			if got := sessiontest.TypesOf(third.Fresh()); got != "Entered" {
				r.Errorf("the third seat hears %s, want Entered at once", got)
			}
		})
	}
}
