package session_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const sizeAt = sessiontest.PermitsAt + "/size"

func TestEnterTakesThePermitsThatASurveyFindsFree(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a, b := r.PermitSeat(4, 3), r.PermitSeat(9, 2)
		node := a.CreateNode(1).Text
		if got := a.Surveys(recipes.Survey{Node: node}); got != (recipes.Surveyed{Epoch: 1, Size: 4}) {
			t.Errorf("a new semaphore is surveyed as %+v, want 4 free permits", got)
		}
		a.Enter(recipes.Enter{Epoch: 1, Node: node, Permits: 3})
		entered, ok := a.Answer().(recipes.Entered)
		if !ok || len(entered.Leases) != 3 || !strings.HasPrefix(entered.Leases[0], "leases/_c_"+node[3:39]+"-lease-") {
			t.Errorf("the request for 3 permits is answered %+v, want 3 leases named after the node %s", entered, node)
		}
		r.WantPermits(0, 3)
		other := b.CreateNode(1).Text
		if got := b.Surveys(recipes.Survey{Node: other, Watch: true}); got != (recipes.Surveyed{Epoch: 1, Size: 4, Taken: 3}) {
			t.Errorf("beside three leases the survey says %+v, want 3 taken of 4", got)
		}
		b.Enter(recipes.Enter{Epoch: 1, Node: other, Permits: 2, Version: 1})
		b.WantAnswer(recipes.Refused{Epoch: 1, Op: recipes.OpEnter, Stale: true})
		b.Enter(recipes.Enter{Epoch: 1, Node: "lock-0000000099", Permits: 2})
		b.WantAnswer(recipes.Refused{Epoch: 1, Op: recipes.OpEnter, Missing: true})
		r.WantPermits(1, 3)
		a.Claim(recipes.Claim{Epoch: 1, Node: entered.Leases[0]})
		a.Want("Claimed")
		a.Delete(recipes.Delete{Epoch: 1, Node: entered.Leases[0]})
		a.Want("Deleted")
		b.Want("Changed")
		r.WantPermits(1, 0)
	})
}

// TestChangesAreTold, once, to those who look, until they look again: of a resize, and of the leases.
func TestChangesAreTold(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		holder, s := r.PermitSeat(4, 1), r.PermitSeat(4, 1)
		lease := holder.Enters(1).Leases[0]
		node := s.CreateNode(1).Text
		s.ListNodes(1)
		look := func() { s.Survey(recipes.Survey{Epoch: 1, Node: node, Watch: true}); s.Want("Surveyed") }
		for name, change := range map[string]func() error{
			"the size": func() error { return r.Session.Resize(r.Context(), sessiontest.PermitsAt, 7, nil) },
			"a lease":  func() error { return r.Server.Create(sessiontest.LeasesAt+"/x", nil) },
		} {
			look()
			if err := change(); err != nil {
				t.Fatal(name, err)
			}
			s.Want("Changed")
			r.Must(r.Session.Resize(r.Context(), sessiontest.PermitsAt, 8, nil))
			s.Want("")
		}
		look()
		for range 5 { // looking again and again arms nothing twice
			look()
		}
		if n := r.Server.Watches(); n > 4 {
			t.Errorf("after looking 6 times there are %d watches, want at most 4", n)
		}
		holder.Delete(recipes.Delete{Epoch: 1, Node: lease})
		s.Want("Changed")
		r.Must(r.Server.Delete(sessiontest.QueueAt + "/" + node))
		s.Want("Gone")
		s.Survey(recipes.Survey{Epoch: 1, Node: node, Watch: true})
		s.WantAnswer(recipes.Refused{Epoch: 1, Op: recipes.OpSurvey, Missing: true})
	})
}

// TestTheReplyToAnEnterIsLost, or the request: whichever it is, a look behind a barrier tells whether
// there are leases, all of them or none.
func TestTheReplyToAnEnterIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		action zktest.Action
		leases int
	}{"the reply": {zktest.CutAfter(), 3}, "the request": {zktest.CutBefore(), 0}} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			r.MakePermits(4)
			s := r.PermitSeat(4, 3)
			node := s.CreateNode(1)
			s.Surveys(recipes.Survey{Node: node.Text})
			r.Once(c.action, func(q zktest.Request) bool { return q.Op == zktest.OpMulti && len(q.Parts) > 3 })
			s.Enter(recipes.Enter{Epoch: 1, Node: node.Text, Permits: 3})
			s.WantAnswer(recipes.Unknown{Epoch: 1, Op: recipes.OpEnter})
			s.List(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
			listed := sessiontest.AnswerOf[recipes.Listed](s)
			r.WantPermits(1-c.leases/3, c.leases)
			if listed.Own.Owner != r.Only() || listed.Leased != (c.leases > 0) {
				r.Fatalf("the listing behind a barrier is %+v, want the session's own, leased: %v", listed, c.leases > 0)
			}
			if c.leases == 0 {
				if listed.Own.Name != node {
					r.Errorf("the listing has %+v, want %v, which is not leased", listed, node)
				}
				return
			}
			s.Claim(recipes.Claim{Epoch: 1, Node: listed.Own.Name.Text})
			s.Want("Claimed")
			leases := r.Server.Children(sessiontest.LeasesAt)
			if err := r.Server.Delete(sessiontest.LeasesAt + "/" + leases[1]); err != nil { // not the one by which it is known
				r.Fatal(err)
			}
			if gone := s.Want("Gone")[0].(recipes.Gone); gone.Node != listed.Own.Name.Text {
				r.Errorf("%+v", gone)
			}
			s.Claim(recipes.Claim{Epoch: 1, Node: listed.Own.Name.Text})
			s.WantAnswer(recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true})
			s.Delete(recipes.Delete{Epoch: 1, Node: listed.Own.Name.Text})
			s.Want("Gone Gone Deleted")
			r.WantPermits(0, 0)
		})
	}
}

// TestSomeOfTheLeasesThatAreFoundAreMissing: somebody has deleted one while the reply was lost.
func TestSomeOfTheLeasesThatAreFoundAreMissing(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.PermitSeat(4, 3)
		s.Enters(3)
		r.Must(r.Server.Delete(sessiontest.LeasesAt + "/" + r.Server.Children(sessiontest.LeasesAt)[0]))
		s.List(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
		listed := sessiontest.AnswerOf[recipes.Listed](s)
		s.Claim(recipes.Claim{Epoch: 1, Node: listed.Own.Name.Text})
		s.WantAnswer(recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true})
		s.Discard(recipes.Discard{Node: listed.Own.Name.Text})
		r.WantPermits(0, 0)
	})
}

// TestTheOtherLeasesAreWatched like the first: when they have been held for a while.
func TestTheOtherLeasesAreWatched(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.PermitSeat(4, 3)
		entered := s.Enters(3)
		time.Sleep(sessiontest.Timeout / 5)
		synctest.Wait()
		r.WantWatches(3)
		r.Must(r.Server.Delete(path.Join(sessiontest.PermitsAt, entered.Leases[2])))
		if gone := s.Want("Gone")[0].(recipes.Gone); gone.Node != entered.Leases[0] {
			t.Errorf("%+v", gone)
		}
		s.Delete(recipes.Delete{Epoch: 1, Node: entered.Leases[0]}) // two are left
		s.Want("Gone Gone Deleted")
		r.WantPermits(0, 0)
		s.Close()
		synctest.Wait()
		r.WantWatches(0)
	})
}

// TestAnEnterLeavesAFloor in the queue's directory, in the same transaction.
func TestAnEnterLeavesAFloor(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		r.MakePermits(2)
		s := r.PermitSeat(2, 1)
		s.CreateNode(1)
		token := s.ListNodes(1).Own.Token // and that the directory is ours
		node := s.ListNodes(1).Own.Name.Text
		version := s.Surveys(recipes.Survey{Node: node}).Version
		multis := r.Multis()
		s.Enter(recipes.Enter{Epoch: 1, Node: node, Permits: 1, Version: version, Floor: true})
		s.Want("Gone Entered") // of its place in the queue, and of that it has heard
		multis(1, 1, "for an Enter")
		if data, _ := r.Server.Data(sessiontest.QueueAt); string(data) != floorOf(token) {
			t.Errorf("data %q, want %q", data, floorOf(token))
		}
	})
}

// TestTheFirstSeatWritesTheSizeDown: the first seat writes its size down. Data that are no size are reported.
func TestTheFirstSeatWritesTheSizeDown(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		a := r.PermitSeat(4, 1)
		if got := a.Surveys(recipes.Survey{}); got.Size != 4 || !slices.Contains(r.Server.Tree(), sizeAt) {
			t.Errorf("the first survey says %+v among nodes %v, want size 4, written down", got, r.Server.Tree())
		}
		b := r.PermitSeat(5, 1)
		b.CreateNode(1)
		b.List(recipes.List{Epoch: 1, Attempt: 1, Size: true})
		if got := sessiontest.AnswerOf[recipes.Listed](b); got.Size != 4 {
			t.Errorf("another's listing says %+v, want size 4", got)
		}
		r.Must(r.Session.Resize(r.Context(), sessiontest.PermitsAt, 6, nil))
		if got := a.Surveys(recipes.Survey{}); got.Size != 6 || got.Version != 1 {
			t.Errorf("after the resize the survey says %+v, want size 6 in version 1", got)
		}
		for _, data := range []string{"", "0", "-4", "x", "4 ", "99999999999"} {
			r.Must(r.Server.SetData(sizeAt, []byte(data)))
			for _, ask := range []func(){
				func() { b.Survey(recipes.Survey{Epoch: 1}) },
				func() { b.List(recipes.List{Epoch: 1, Attempt: 1, Size: true}) },
			} {
				ask()
				in := b.Answer()
				if refused, ok := in.(recipes.Refused); !ok || refused.Missing || !errors.Is(b.LastErr(), session.ErrSizeNode) {
					t.Errorf("with the size %q the request is answered %+v, %v; want Refused, %v", data, in, b.LastErr(), session.ErrSizeNode)
				}
			}
		}
		r.Must(r.Server.Delete(sizeAt))
		r.Must(r.Session.Resize(r.Context(), sessiontest.PermitsAt, 3, nil))
		if data, _ := r.Server.Data(sizeAt); string(data) != "3" {
			t.Errorf("size %q", data)
		}
	})
}

// TestResizeIsMadeUntilItIsSettled, also if its reply is lost, and not when nobody waits any more.
func TestResizeIsMadeUntilItIsSettled(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutAfter(), zktest.CutBefore(), zktest.Fail(zktest.Throttled)} {
		sessiontest.Run(t, fmt.Sprint(action), func(r *sessiontest.Rig) {
			r.PermitSeat(4, 1).Surveys(recipes.Survey{})
			hit := r.Once(action, func(q zktest.Request) bool { return q.Op == zktest.OpSetData || q.Op == zktest.OpMulti })
			if err := r.Session.Resize(r.Context(), sessiontest.PermitsAt, 6, nil); err != nil || !hit() {
				r.Fatalf("Resize = %v, its request was hit: %v; want success in spite of that", err, hit())
			}
			if data, _ := r.Server.Data(sizeAt); string(data) != "6" {
				r.Errorf("size %q", data)
			}
		})
	}
}

// TestAResizeTouchesTheLeases, which those watch who wait for room, also if they come while it is made; and it leaves nothing there.
// Where it may not touch them the size is written nevertheless.
func TestAResizeTouchesTheLeases(t *testing.T) {
	const leases = sessiontest.PermitsAt + "/leases"
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
				_, err := admin.Create(leases, nil, zk.FlagPersistent, acl)
				r.Must(err)
				_, _, fired, err = admin.ChildrenW(leases)
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
			r.Must(r.Session.Resize(r.Context(), sessiontest.PermitsAt, 6, nil))
			synctest.Wait()
			select {
			case <-fired:
				if c.denied {
					r.Error("who waits was told, and nobody may touch the leases")
				}
			default:
				if !c.denied {
					r.Error("who waits was not told of the resize, want an event at the leases")
				}
			}
			if data, _ := r.Server.Data(sizeAt); string(data) != "6" || len(r.Server.Children(leases)) != 0 {
				r.Errorf("the size is %q, and among the leases are %v; want 6, and nothing", data, r.Server.Children(leases))
			}
		})
	}
}
