package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A create may prove all that a grant needs, and the machine claims all the same: for a record, or because it heard of it
// when the connection was gone. What it had by the create may end before the claim is in the mailbox, or is answered.

func strictly() session.Option {
	return session.OptionFunc(func(c *session.Config) { c.LossOnSuspend = true })
}

// TestTheNodeOfALateClaimIsWatched: whoever holds by a claim hears that somebody wants the lock back, however often it has ceased to
// hold before the claim.
func TestTheNodeOfALateClaimIsWatched(t *testing.T) {
	for name, c := range map[string]struct {
		options []session.Option
		ends    func(r *sessiontest.Rig, s *sessiontest.Seat, claim func())
	}{
		"cut before the claim": {[]session.Option{strictly()}, func(r *sessiontest.Rig, _ *sessiontest.Seat, claim func()) {
			r.Server.CutAll()
			r.Settle()
			claim()
		}},
		"cut behind the claim": {[]session.Option{strictly()}, func(r *sessiontest.Rig, _ *sessiontest.Seat, claim func()) {
			r.Once(zktest.CutBefore(), func(q zktest.Request) bool { return q.Op == zktest.OpMulti })
			claim()
		}},
		"lease ran out before the claim": {nil, func(r *sessiontest.Rig, s *sessiontest.Seat, claim func()) {
			r.On(zktest.OpMulti, zktest.Swallow()) // the probes
			r.Until("the lease runs out", func() bool { return count[recipes.LeaseRanOut](s.Fresh()) > 0 })
			r.Server.Intercept(nil)
			claim()
		}},
	} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			r.Warm()
			s := r.SeatedAt(session.Place{Dir: sessiontest.Dir, Detect: true})
			created := s.Makes(1)
			c.ends(r, s, func() { s.Recorded(created.Node.Text) })
			time.Sleep(3 * probe)
			synctest.Wait()
			r.Must(r.Server.SetData(sessiontest.Dir+"/"+created.Node.Text, []byte("__REVOKE__")))
			time.Sleep(time.Second)
			if told := s.Fresh(); count[recipes.AskedBack](told) != 1 {
				r.Errorf("asked back once, the seat is told %+v, want one AskedBack", told)
			}
		}, c.options...)
	}
}

// TestTheOneNodeOfALateClaimIsKnown: a transaction of whoever holds it goes through.
func TestTheOneNodeOfALateClaimIsKnown(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Claimant()
		created := s.MakesAlone()
		r.Once(zktest.CutBefore(), func(q zktest.Request) bool { return q.Op == zktest.OpMulti })
		claim := recipes.Claim{Epoch: 1, Node: created.Node.Text}
		s.Claim(claim)
		sessiontest.AnswerOf[recipes.Unknown](s)
		s.Claim(claim)
		s.WantAnswer(recipes.Claimed{Epoch: 1, Fresh: true})
		ops := []any{&zk.CreateRequest{Path: "/x", Acl: zk.WorldACL(zk.PermAll)}}
		if _, err := s.Transact(context.Background(), 1, []string{sessiontest.TaskNode}, ops); err != nil {
			t.Errorf("a transaction of the holder: %v, want success", err)
		}
	}, strictly())
}

// TestWhoHasLostIsNoHolderAgain: 1. It verifies its node; 2. its lease runs out, and it is told; 3. the answer comes, and the
// lease goes on. It holds nothing, though its node is there until its function ends, and nobody may enter beside it.
func TestWhoHasLostIsNoHolderAgain(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Seated()
		node := s.CreateNode(1)
		s.ListNodes(1)
		s.ClaimNode(1, node.Text)
		time.Sleep(100 * time.Second)
		var swallowed atomic.Int32
		r.Server.Intercept(func(q zktest.Request) zktest.Action {
			if q.Op != zktest.OpMulti {
				return zktest.Pass()
			}
			swallowed.Add(1)
			return zktest.Swallow()
		})
		r.Until("a probe is lost", func() bool { return swallowed.Load() > 0 })
		time.Sleep(s.Until() - time.Second)
		r.Server.Intercept(func(zktest.Request) zktest.Action { return zktest.Delay(2 * time.Second) })
		s.Claim(recipes.Claim{Epoch: 1, Node: node.Text})
		time.Sleep(1500 * time.Millisecond)
		s.Want("LeaseRanOut")
		s.WantAnswer(recipes.Claimed{Epoch: 1})
		r.Server.Intercept(nil)
		inner := r.SeatWith(s)
		inner.Create(recipes.Create{Epoch: 1, Attempt: 1})
		if in, ok := inner.Answer().(recipes.Created); ok && in.Node == node {
			t.Errorf("a lock that is lost is entered: %+v, want another node than %v", in, node)
		}
	})
}
