package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A create may prove all that a grant needs, and the machine claims all the same: for a record, or because it heard of it
// when the connection was gone. What it had by the create may end before the claim is in the mailbox, or is answered.

func strictly() session.Option {
	return session.OptionFunc(func(c *session.Config) { c.LossOnSuspend = true })
}

// recorded claims with a record, again if need be, until that is granted.
func (s *seat) recorded(node string) {
	s.r.Helper()
	claim := recipes.Claim{Epoch: 1, Node: node, Record: recipes.RecordMade}
	s.Claim(claim)
	s.r.until("the claim is granted", func() (granted bool) {
		for _, in := range s.fresh() {
			switch in := in.(type) {
			case recipes.Recorded:
				if in.Fresh {
					return true
				}
				s.Claim(claim)
			case recipes.Unknown:
				s.Claim(claim)
			}
		}
		return false
	})
}

// TestTheNodeOfALateClaimIsWatched: whoever holds by a claim hears that somebody wants the lock back, however often it has ceased to
// hold before the claim.
func TestTheNodeOfALateClaimIsWatched(t *testing.T) {
	for name, c := range map[string]struct {
		options []session.Option
		ends    func(r *rig, s *seat, claim func())
	}{
		"cut before the claim": {[]session.Option{strictly()}, func(r *rig, _ *seat, claim func()) {
			r.srv.CutAll()
			r.settle()
			claim()
		}},
		"cut behind the claim": {[]session.Option{strictly()}, func(r *rig, _ *seat, claim func()) {
			r.once(zktest.CutBefore(), func(q zktest.Request) bool { return q.Op == zktest.OpMulti })
			claim()
		}},
		"lease ran out before the claim": {nil, func(r *rig, s *seat, claim func()) {
			r.srv.Intercept(func(q zktest.Request) zktest.Action {
				if q.Op == zktest.OpMulti {
					return zktest.Swallow() // the probes
				}
				return zktest.Pass()
			})
			r.until("the lease runs out", func() bool { return count[recipes.LeaseRanOut](s.fresh()) > 0 })
			r.srv.Intercept(nil)
			claim()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inSession(t, func(r *rig) {
				r.warm()
				s := r.seatAt(session.Place{Dir: dir, Detect: true})
				s.want("Opened")
				created := s.makes(1)
				c.ends(r, s, func() { s.recorded(created.Node.Text) })
				time.Sleep(3 * probe)
				synctest.Wait()
				if err := r.srv.SetData(dir+"/"+created.Node.Text, []byte("__REVOKE__")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if told := s.fresh(); count[recipes.AskedBack](told) != 1 {
					t.Errorf("asked back, and heard %+v", told)
				}
			}, c.options...)
		})
	}
}

// TestTheOneNodeOfALateClaimIsKnown: a transaction of whoever holds it goes through.
func TestTheOneNodeOfALateClaimIsKnown(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.claimant()
		created := s.makes(1)
		if !created.Alone || !created.Fresh {
			t.Fatalf("made %+v", created)
		}
		r.once(zktest.CutBefore(), func(q zktest.Request) bool { return q.Op == zktest.OpMulti })
		claim := recipes.Claim{Epoch: 1, Node: created.Node.Text}
		s.Claim(claim)
		if in, ok := s.answer().(recipes.Unknown); !ok {
			t.Fatalf("a claim without an answer was answered %+v", in)
		}
		s.Claim(claim)
		if in := s.answer(); in != (recipes.Claimed{Epoch: 1, Fresh: true}) {
			t.Fatalf("claimed, and was answered %+v", in)
		}
		ops := []any{&zk.CreateRequest{Path: "/x", Acl: zk.WorldACL(zk.PermAll)}}
		if _, err := s.Transact(context.Background(), 1, []string{taskNode}, ops); err != nil {
			t.Errorf("a transaction of whoever holds: %v", err)
		}
	}, strictly())
}

// TestWhoHasLostIsNoHolderAgain: 1. It verifies its node; 2. its lease runs out, and it is told; 3. the answer comes, and the
// lease goes on. It holds nothing, though its node is there until its function ends, and nobody may enter beside it.
func TestWhoHasLostIsNoHolderAgain(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.seat()
		s.want("Opened")
		node := s.create(1)
		s.list(1)
		s.claim(1, node.Text)
		time.Sleep(100 * time.Second)
		swallowed := 0
		r.srv.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op != zktest.OpMulti {
				return zktest.Pass()
			}
			swallowed++
			return zktest.Swallow()
		})
		r.until("a probe is lost", func() bool { return swallowed > 0 })
		time.Sleep(s.until() - time.Second)
		r.srv.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(2 * time.Second) })
		s.Claim(recipes.Claim{Epoch: 1, Node: node.Text})
		time.Sleep(1500 * time.Millisecond)
		s.want("LeaseRanOut")
		if in := s.answer(); in != (recipes.Claimed{Epoch: 1}) {
			t.Errorf("verified, and was answered %+v", in)
		}
		r.srv.Intercept(nil)
		inner := r.seatWith(s)
		inner.Create(recipes.Create{Epoch: 1, Attempt: 1})
		if in, ok := inner.answer().(recipes.Created); ok && in.Node == node {
			t.Errorf("entered a lock that is lost: %+v", in)
		}
	})
}
