package session_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/internal/sessiontest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// A lock is lost, and its node stays for a function that still runs.

// count returns how many of the inputs are of the type.
func count[T recipes.Input](inputs []recipes.Input) (n int) {
	for _, in := range inputs {
		if _, ok := in.(T); ok {
			n++
		}
	}
	return n
}

// refusesAPlace checks that no reader gets the place of a writer that does not hold.
func refusesAPlace(r *sessiontest.Rig, reader *sessiontest.Seat) {
	r.Helper()
	if in := sessiontest.AnswerOf[recipes.Refused](reader); in.Op != recipes.OpCreate {
		r.Errorf("answered %+v, want the create refused", in)
	}
}

// TestNoReaderTakesThePlaceOfAnOverdueWriter: a reader has asked for the place before the lock has to be given back. It does not get it
// after that. The message of the deadline is in the mailbox behind the request.
func TestNoReaderTakesThePlaceOfAnOverdueWriter(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		w, _ := r.Writer()
		reader := r.InPlaceOf(w)
		w.Do(recipes.Revoke{By: actors.MomentOf(time.Now().Add(time.Second))})
		r.Together(func() { // in the session's drain
			reader.Do(recipes.Create{Epoch: 1, Attempt: 1})
			time.Sleep(2 * time.Second)
		})
		refusesAPlace(r, reader)
		r.WantChildren(1)
	})
}

// TestADeadlineIsToldOnce, and not to a seat that was closed before. A sooner deadline replaces it.
func TestADeadlineIsToldOnce(t *testing.T) {
	for name, closes := range map[string]bool{"held": false, "closed before": true} {
		sessiontest.Run(t, name, func(r *sessiontest.Rig) {
			w, node := r.Writer()
			first := actors.MomentOf(time.Now().Add(time.Second))
			w.Do(recipes.Revoke{By: actors.MomentOf(time.Now().Add(time.Minute))})
			w.Do(recipes.Revoke{By: first})
			time.Sleep(time.Second - 1)
			w.Want("")
			want := "Overdue"
			if closes {
				w.Close()
				want = ""
			}
			time.Sleep(2 * time.Minute)
			told := w.Want(want)
			if closes {
				return
			}
			if told[0] != (recipes.Overdue{By: first}) {
				t.Errorf("told %+v, want the first deadline", told)
			}
			w.Do(recipes.Claim{Epoch: 1, Node: node, Held: true})
			w.WantAnswer(recipes.Claimed{Epoch: 1, Fresh: true, Held: true})
			reader := r.InPlaceOf(w)
			reader.Do(recipes.Create{Epoch: 1, Attempt: 1})
			refusesAPlace(r, reader)
		})
	}
}

// TestNoTransactionBehindALoss: the one node of a lock; suspended counts as lost, and the node is kept for a function that still runs. In
// the outage the node is removed by hand, before it was ever watched, and another contender makes the next one. A transaction of the seat
// that has lost, in a goroutine that was late, is not executed under the other node.
func TestNoTransactionBehindALoss(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Owner()
		s.Strict = true
		s.MakesAlone()
		admin := r.Admin()
		defer admin.Close()
		r.Server.Cut(s.Session(1))
		s.Want("Suspended")
		r.Must(r.Server.Delete(sessiontest.TaskNode))
		if _, err := admin.Create(sessiontest.TaskNode, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		r.Settle()
		ops := []any{&zk.CreateRequest{Path: "/x", Acl: zk.WorldACL(zk.PermAll)}}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := s.Transact(ctx, 1, []string{sessiontest.TaskNode}, ops)
		if !errors.Is(err, session.ErrGuard) {
			t.Errorf("a transaction after a loss, with another contender's node: %v, want %v", err, session.ErrGuard)
		}
		synctest.Wait()
	}, strictly())
}

// A create may prove all that a grant needs, and the machine claims all the same: for a record, or because it heard of the proof when the
// connection was gone. Its hold by the create may end before the claim is in the mailbox, or is answered.

func strictly() session.Option {
	return session.OptionFunc(func(c *session.Config) { c.LossOnSuspend = true })
}

// TestTheNodeOfALateClaimIsWatched: a holder by a claim hears that the lock is asked back, however often it has ceased to hold before the
// claim.
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
		"cut after the claim": {[]session.Option{strictly()}, func(r *sessiontest.Rig, _ *sessiontest.Seat, claim func()) {
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
			s.Strict = c.options != nil
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

// TestTheOneNodeOfALateClaimIsKnown: a transaction of its holder goes through.
func TestTheOneNodeOfALateClaimIsKnown(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.Owner()
		s.Strict = true
		created := s.MakesAlone()
		r.Once(zktest.CutBefore(), func(q zktest.Request) bool { return q.Op == zktest.OpMulti })
		claim := recipes.Claim{Epoch: 1, Node: created.Node}
		s.Do(claim)
		sessiontest.AnswerOf[recipes.Unknown](s)
		s.Do(claim)
		s.WantAnswer(recipes.Claimed{Epoch: 1, Fresh: true})
		ops := []any{&zk.CreateRequest{Path: "/x", Acl: zk.WorldACL(zk.PermAll)}}
		if _, err := s.Transact(context.Background(), 1, []string{sessiontest.TaskNode}, ops); err != nil {
			t.Errorf("a transaction of the holder: %v, want success", err)
		}
	}, strictly())
}

// TestASeatThatHasLostIsNoHolderAgain:
//
//  1. The seat verifies its node.
//  2. Its lease runs out, and it is told.
//  3. The answer comes, and the lease goes on.
//
// The seat holds nothing, though its node is there until its function ends, and no reader may take its place.
func TestASeatThatHasLostIsNoHolderAgain(t *testing.T) {
	sessiontest.InSession(t, func(r *sessiontest.Rig) {
		s := r.SeatedAt(session.Place{Dir: sessiontest.Dir, Kind: events.KindWrite})
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
		s.Do(recipes.Claim{Epoch: 1, Node: node, Held: true})
		time.Sleep(1500 * time.Millisecond)
		s.Want("LeaseRanOut")
		s.WantAnswer(recipes.Claimed{Epoch: 1, Fresh: true, Held: true})
		r.Server.Intercept(nil)
		reader := r.InPlaceOf(s)
		reader.Do(recipes.Create{Epoch: 1, Attempt: 1})
		refusesAPlace(r, reader)
	})
}
