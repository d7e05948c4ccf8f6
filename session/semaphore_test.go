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

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const (
	permitsAt = "/permits"
	queueAt   = permitsAt + "/locks"
	leasesAt  = permitsAt + "/leases"
	sizeAt    = permitsAt + "/size"
)

// permitSeat returns a seat of one who wants so many permits.
func (r *rig) permitSeat(size, permits int32) *seat {
	r.Helper()
	s := r.seatAt(session.Place{Dir: permitsAt, Size: size, Permits: permits})
	s.want("Opened")
	return s
}

// surveys looks, and returns the answer.
func (s *seat) surveys(e recipes.Survey) recipes.Surveyed {
	s.r.Helper()
	e.Epoch = 1
	s.Survey(e)
	in, ok := s.answer().(recipes.Surveyed)
	if !ok {
		s.r.Fatal("not surveyed")
	}
	return in
}

// enters gets permits, and returns its leases.
func (s *seat) enters(permits int32) recipes.Entered {
	s.r.Helper()
	node := s.create(1).Text
	version := s.surveys(recipes.Survey{Node: node}).Version
	s.Enter(recipes.Enter{Epoch: 1, Node: node, Permits: permits, Version: version})
	in, ok := s.answer().(recipes.Entered)
	if !ok || len(in.Leases) != int(permits) || !in.Fresh {
		s.r.Fatalf("entered: %+v", in)
	}
	return in
}

// makePermits makes the directories of a semaphore.
func (r *rig) makePermits(size int32) {
	r.Helper()
	s := r.permitSeat(size, 1)
	s.Delete(recipes.Delete{Epoch: 1, Node: s.enters(1).Leases[0]})
	s.want("Deleted")
	s.Close()
}

// wantPermits checks how many nodes there are in the queue and among the leases.
func (r *rig) wantPermits(queue, leases int) {
	r.Helper()
	synctest.Wait()
	if q, l := r.srv.Children(queueAt), r.srv.Children(leasesAt); len(q) != queue || len(l) != leases {
		r.Errorf("queue %v, leases %v; want %d and %d", q, l, queue, leases)
	}
}

func TestSurveyAndEnter(t *testing.T) {
	inSession(t, func(r *rig) {
		a, b := r.permitSeat(4, 3), r.permitSeat(9, 2)
		node := a.create(1).Text
		if got := a.surveys(recipes.Survey{Node: node}); got != (recipes.Surveyed{Epoch: 1, Size: 4}) {
			t.Errorf("%+v of a new semaphore", got)
		}
		a.Enter(recipes.Enter{Epoch: 1, Node: node, Permits: 3})
		entered, ok := a.answer().(recipes.Entered)
		if !ok || len(entered.Leases) != 3 || !strings.HasPrefix(entered.Leases[0], "leases/_c_"+node[3:39]+"-lease-") {
			t.Errorf("%+v", entered)
		}
		r.wantPermits(0, 3)
		other := b.create(1).Text
		if got := b.surveys(recipes.Survey{Node: other, Watch: true}); got != (recipes.Surveyed{Epoch: 1, Size: 4, Taken: 3}) {
			t.Errorf("%+v beside three leases", got)
		}
		b.Enter(recipes.Enter{Epoch: 1, Node: other, Permits: 2, Version: 1})
		if got := b.answer(); got != (recipes.Refused{Epoch: 1, Op: recipes.OpEnter, Stale: true}) {
			t.Errorf("%+v of another version", got)
		}
		b.Enter(recipes.Enter{Epoch: 1, Node: "lock-0000000099", Permits: 2})
		if got := b.answer(); got != (recipes.Refused{Epoch: 1, Op: recipes.OpEnter, Missing: true}) {
			t.Errorf("%+v of a node that does not exist", got)
		}
		r.wantPermits(1, 3)
		a.Claim(recipes.Claim{Epoch: 1, Node: entered.Leases[0]})
		a.want("Claimed")
		a.Delete(recipes.Delete{Epoch: 1, Node: entered.Leases[0]})
		a.want("Deleted")
		b.want("Changed")
		r.wantPermits(1, 0)
	})
}

// TestChangesAreTold, once, to those who look, until they look again: of the size, of the leases, and of
// the end of either.
func TestChangesAreTold(t *testing.T) {
	inSession(t, func(r *rig) {
		holder, s := r.permitSeat(4, 1), r.permitSeat(4, 1)
		lease := holder.enters(1).Leases[0]
		node := s.create(1).Text
		s.list(1)
		look := func() { s.Survey(recipes.Survey{Epoch: 1, Node: node, Watch: true}); s.want("Surveyed") }
		for name, change := range map[string]func() error{
			"the size":              func() error { return r.srv.SetData(sizeAt, []byte("7")) },
			"a lease":               func() error { return r.srv.Create(leasesAt+"/x", nil) },
			"the node for the size": func() error { return r.srv.Delete(sizeAt) },
		} {
			look()
			if err := change(); err != nil {
				t.Fatal(name, err)
			}
			s.want("Changed")
			if err := r.srv.SetData(sizeAt, []byte("8")); err != nil && name != "the node for the size" {
				t.Fatal(name, err)
			}
			s.fresh() // what else was watched may be told
		}
		look()
		for range 5 { // looking again and again arms nothing twice
			look()
		}
		if n := r.srv.Watches(); n > 4 {
			t.Errorf("%d watches", n)
		}
		holder.Delete(recipes.Delete{Epoch: 1, Node: lease})
		s.want("Changed")
		if err := r.srv.Delete(queueAt + "/" + node); err != nil {
			t.Fatal(err)
		}
		s.want("Gone")
		s.Survey(recipes.Survey{Epoch: 1, Node: node, Watch: true})
		if got := s.answer(); got != (recipes.Refused{Epoch: 1, Op: recipes.OpSurvey, Missing: true}) {
			t.Errorf("%+v without its node", got)
		}
	})
}

// TestTheReplyToAnEnterIsLost, or the request: whichever it is, a look behind a barrier tells whether
// there are leases, all of them or none.
func TestTheReplyToAnEnterIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		action zktest.Action
		leases int
	}{"the reply": {zktest.CutAfter(), 3}, "the request": {zktest.CutBefore(), 0}} {
		t.Run(name, func(t *testing.T) {
			inSession(t, func(r *rig) {
				r.makePermits(4)
				s := r.permitSeat(4, 3)
				node := s.create(1)
				s.surveys(recipes.Survey{Node: node.Text})
				hit := false
				r.srv.Intercept(func(q zktest.Request) zktest.Action {
					if q.Op == zktest.OpMulti && len(q.Parts) > 3 && !hit {
						hit = true
						return c.action
					}
					return zktest.Pass()
				})
				s.Enter(recipes.Enter{Epoch: 1, Node: node.Text, Permits: 3})
				if got := s.answer(); got != (recipes.Unknown{Epoch: 1, Op: recipes.OpEnter}) {
					t.Fatalf("%+v", got)
				}
				s.List(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
				listed := s.answer().(recipes.Listed)
				r.wantPermits(1-c.leases/3, c.leases)
				if listed.Own.Owner != r.only() || listed.Leased != (c.leases > 0) {
					t.Fatalf("%+v", listed)
				}
				if c.leases == 0 {
					if listed.Own.Name != node {
						t.Errorf("%+v", listed)
					}
					return
				}
				s.Claim(recipes.Claim{Epoch: 1, Node: listed.Own.Name.Text})
				s.want("Claimed")
				leases := r.srv.Children(leasesAt)
				if err := r.srv.Delete(leasesAt + "/" + leases[1]); err != nil { // not the one by which it is known
					t.Fatal(err)
				}
				if gone := s.want("Gone")[0].(recipes.Gone); gone.Node != listed.Own.Name.Text {
					t.Errorf("%+v", gone)
				}
				s.Claim(recipes.Claim{Epoch: 1, Node: listed.Own.Name.Text})
				if got := s.answer(); got != (recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true}) {
					t.Errorf("claim of two of three: %+v", got)
				}
				s.Delete(recipes.Delete{Epoch: 1, Node: listed.Own.Name.Text})
				s.want("Gone Gone Deleted")
				r.wantPermits(0, 0)
			})
		})
	}
}

// TestSomeOfTheLeasesThatAreFoundAreMissing: somebody has deleted one while the reply was lost.
func TestSomeOfTheLeasesThatAreFoundAreMissing(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.permitSeat(4, 3)
		s.enters(3)
		if err := r.srv.Delete(leasesAt + "/" + r.srv.Children(leasesAt)[0]); err != nil {
			t.Fatal(err)
		}
		s.List(recipes.List{Epoch: 1, Attempt: 1, Barrier: true})
		listed := s.answer().(recipes.Listed)
		s.Claim(recipes.Claim{Epoch: 1, Node: listed.Own.Name.Text})
		if got := s.answer(); got != (recipes.Refused{Epoch: 1, Op: recipes.OpClaim, Missing: true}) {
			t.Errorf("%+v", got)
		}
		s.Discard(recipes.Discard{Node: listed.Own.Name.Text})
		r.wantPermits(0, 0)
	})
}

// TestTheOtherLeasesAreWatched like the first: when they have been held for a while.
func TestTheOtherLeasesAreWatched(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.permitSeat(4, 3)
		entered := s.enters(3)
		time.Sleep(timeout / 5)
		synctest.Wait()
		if n := r.srv.Watches(); n != 3 {
			t.Errorf("%d watches", n)
		}
		if err := r.srv.Delete(path.Join(permitsAt, entered.Leases[2])); err != nil {
			t.Fatal(err)
		}
		if gone := s.want("Gone")[0].(recipes.Gone); gone.Node != entered.Leases[0] {
			t.Errorf("%+v", gone)
		}
		s.Delete(recipes.Delete{Epoch: 1, Node: entered.Leases[0]}) // two are left
		s.want("Gone Gone Deleted")
		r.wantPermits(0, 0)
		s.Close()
		synctest.Wait()
		if n := r.srv.Watches(); n != 0 {
			t.Errorf("%d watches left", n)
		}
	})
}

// TestAnEnterLeavesAFloor in the queue's directory, in the same transaction.
func TestAnEnterLeavesAFloor(t *testing.T) {
	inSession(t, func(r *rig) {
		r.makePermits(2)
		s := r.permitSeat(2, 1)
		s.create(1)
		token := s.list(1).Own.Token // and that the directory is ours
		node := s.list(1).Own.Name.Text
		version := s.surveys(recipes.Survey{Node: node}).Version
		multis := r.multis()
		s.Enter(recipes.Enter{Epoch: 1, Node: node, Permits: 1, Version: version, Floor: true})
		s.want("Gone Entered") // of its place in the queue, and of that it has heard
		if n := multis(); n != 1 {
			t.Errorf("%d transactions", n)
		}
		if data, _ := r.srv.Data(queueAt); string(data) != floorOf(token) {
			t.Errorf("data %q, want %q", data, floorOf(token))
		}
	})
}

// TestSizeNodes: whoever comes first writes his opinion down, and what is none is said.
func TestSizeNodes(t *testing.T) {
	inSession(t, func(r *rig) {
		a := r.permitSeat(4, 1)
		if got := a.surveys(recipes.Survey{}); got.Size != 4 || !slices.Contains(r.srv.Tree(), sizeAt) {
			t.Errorf("%+v, nodes %v", got, r.srv.Tree())
		}
		b := r.permitSeat(5, 1)
		b.create(1)
		b.List(recipes.List{Epoch: 1, Attempt: 1, Size: true})
		if got := b.answer().(recipes.Listed); got.Size != 4 {
			t.Errorf("%+v", got)
		}
		if err := r.s.Resize(r.Context(), permitsAt, 6, nil); err != nil {
			t.Fatal(err)
		}
		if got := a.surveys(recipes.Survey{}); got.Size != 6 || got.Version != 1 {
			t.Errorf("%+v", got)
		}
		for _, data := range []string{"", "0", "-4", "x", "4 ", "99999999999"} {
			if err := r.srv.SetData(sizeAt, []byte(data)); err != nil {
				t.Fatal(err)
			}
			for _, ask := range []func(){
				func() { b.Survey(recipes.Survey{Epoch: 1}) },
				func() { b.List(recipes.List{Epoch: 1, Attempt: 1, Size: true}) },
			} {
				ask()
				in := b.answer()
				if refused, ok := in.(recipes.Refused); !ok || refused.Missing || !errors.Is(b.lastErr(), session.ErrSize) {
					t.Errorf("%q: %+v, %v", data, in, b.lastErr())
				}
			}
		}
		if err := r.srv.Delete(sizeAt); err != nil {
			t.Fatal(err)
		}
		if err := r.s.Resize(r.Context(), permitsAt, 3, nil); err != nil {
			t.Fatal(err)
		}
		if data, _ := r.srv.Data(sizeAt); string(data) != "3" {
			t.Errorf("size %q", data)
		}
	})
}

// TestResizeIsMadeUntilItIsSettled, also if its reply is lost, and not when nobody waits any more.
func TestResizeIsMadeUntilItIsSettled(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutAfter(), zktest.CutBefore(), zktest.Fail(zktest.Throttled)} {
		t.Run(fmt.Sprint(action), func(t *testing.T) {
			inSession(t, func(r *rig) {
				r.permitSeat(4, 1).surveys(recipes.Survey{})
				hit := false
				r.srv.Intercept(func(q zktest.Request) zktest.Action {
					if q.Op == zktest.OpSetData && !hit {
						hit = true
						return action
					}
					return zktest.Pass()
				})
				if err := r.s.Resize(r.Context(), permitsAt, 6, nil); err != nil || !hit {
					t.Fatal(err, hit)
				}
				if data, _ := r.srv.Data(sizeAt); string(data) != "6" {
					t.Errorf("size %q", data)
				}
			})
		})
	}
}
