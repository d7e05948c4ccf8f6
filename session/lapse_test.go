package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// The lock is lost, but its node stays for a function that is still running.

// TestNoReaderTakesThePlaceOfAnOverdueWriter: a reader requests the place before the
// revocation deadline, but does not get it afterwards. The message about the deadline is
// still in the mailbox after the request, or comes late because the machine was
// suspended.
func TestNoReaderTakesThePlaceOfAnOverdueWriter(t *testing.T) {
	var slept atomic.Int64
	asleep := configured(func(c *session.Config) {
		c.Asleep = func() time.Duration { return time.Duration(slept.Load()) }
	})
	for name, pass := range map[string]func(time.Duration){
		"awake":  time.Sleep,
		"asleep": func(d time.Duration) { slept.Add(int64(d)) },
	} {
		run(t, name, func(r *rig) {
			slept.Store(0)
			w, _ := r.Writer()
			reader := r.InPlaceOf(w)
			w.Do(recipes.Revoke{By: actors.MomentOf(time.Now().Add(time.Second))})
			r.Together(func() { // in the session's loop
				reader.Do(recipes.Create{Epoch: 1, Attempt: 1})
				pass(2 * time.Second)
			})
			reader.WantAnswer(placeRefused)
			r.WantChildren(1)
		}, asleep)
	}
}

// TestADeadlineIsToldOnce: a seat is notified of its deadline once, and not at all if it
// was closed before. An earlier deadline replaces a later one.
func TestADeadlineIsToldOnce(t *testing.T) {
	const slept = 10 * time.Millisecond // before the requests
	asleep := configured(func(c *session.Config) { c.Asleep = func() time.Duration { return slept } })
	for name, closes := range map[string]bool{"held": false, "closed before": true} {
		run(t, name, func(r *rig) {
			w, node := r.Writer()
			now := time.Now().Add(slept)
			first := actors.MomentOf(now.Add(time.Second))
			w.Do(recipes.Revoke{By: actors.MomentOf(now.Add(time.Minute))})
			w.Do(recipes.Revoke{By: first})
			time.Sleep(time.Second - 1)
			w.Want("")
			if closes {
				w.Close()
				time.Sleep(2 * time.Minute)
				w.Want("")
				return
			}
			time.Sleep(time.Nanosecond)
			w.WantOnly(recipes.Overdue{By: first})
			time.Sleep(2 * time.Minute)
			w.Want("")
			w.Asks(recipes.Claim{Epoch: 1, Node: node, Held: true}, recipes.Claimed{Epoch: 1, Fresh: true, Held: true})
			r.InPlaceOf(w).Asks(recipes.Create{Epoch: 1, Attempt: 1}, placeRefused)
		}, asleep)
	}
}

// strictly makes a lost connection count as a loss.
func strictly() session.Option {
	return configured(func(c *session.Config) { c.LossOnSuspend = true })
}

// transacts makes a transaction guarded by a lock's single node.
func transacts(ctx context.Context, s *seat) error {
	ops := []any{&zk.CreateRequest{Path: "/x", Acl: zk.WorldACL(zk.PermAll)}}
	_, err := s.Transact(ctx, 1, []string{taskNode}, ops)
	return err
}

// TestNoTransactionBehindALoss: a lost connection counts as a loss, and a lock's single
// node is kept for a function that is still running. During the outage, the node is
// deleted by hand, before it was ever watched, and another contender creates the next
// one. A late transaction of the seat that has lost is not executed under the other node.
func TestNoTransactionBehindALoss(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.Owner()
		s.Strict = true
		s.MakesAlone()
		admin := r.Admin()
		r.Server.Cut(s.Session(1))
		s.Want("Suspended")
		r.Must(r.Server.Delete(taskNode))
		_, err := admin.Create(taskNode, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		r.Must(err)
		r.Settle()
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		eventstest.ErrorIs(t, transacts(ctx, s), session.ErrGuard, "a transaction after a loss, at another's node")
		synctest.Wait()
	}, strictly())
}

// A create may prove everything that a grant needs, and the machine still claims: for a
// record, or because it received the proof when the connection was gone. Its hold by the
// create may end before the claim is in the mailbox, or before it is answered.

// TestTheNodeOfALateClaimIsWatched: a holder by a claim receives a revocation request,
// however often it has stopped holding before the claim.
func TestTheNodeOfALateClaimIsWatched(t *testing.T) {
	for name, c := range map[string]struct {
		options []session.Option
		before  func(r *rig, s *seat) // runs before the claim
	}{
		"cut before the claim": {[]session.Option{strictly()}, func(r *rig, _ *seat) {
			r.Server.CutAll()
			r.Settle()
		}},
		"cut after the claim": {[]session.Option{strictly()}, func(r *rig, _ *seat) {
			r.Once(zktest.CutBefore(), isA(zktest.OpMulti))
		}},
		"lease ran out before the claim": {nil, func(r *rig, s *seat) {
			r.On(zktest.OpMulti, zktest.Swallow()) // the probes
			r.Until("the lease runs out", func() bool { return count[recipes.LeaseRanOut](s.Fresh()) > 0 })
			r.Server.Intercept(nil)
		}},
	} {
		run(t, name, func(r *rig) {
			r.Warm()
			s := r.Seated()
			s.Strict = c.options != nil
			node := s.Makes(1).Node.Text
			c.before(r, s)
			claim := recipes.Claim{Epoch: 1, Node: named(node), Record: recipes.RecordMade}
			for granted := false; !granted; {
				s.Do(claim)
				in, ok := s.Answer().(recipes.Claimed)
				granted = ok && in.Fresh
			}
			time.Sleep(3 * probe)
			synctest.Wait()
			r.Must(r.Server.SetData(lockDir+"/"+node, []byte("__REVOKE__")))
			time.Sleep(time.Second)
			if told := s.Fresh(); count[recipes.RevocationRequested](told) != 1 {
				r.Errorf("asked back once, the seat is told %+v, want one RevocationRequested", told)
			}
		}, c.options...)
	}
}

// TestTheOneNodeOfALateClaimIsKnown: a transaction of its holder is executed.
func TestTheOneNodeOfALateClaimIsKnown(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.Owner()
		s.Strict = true
		claim := recipes.Claim{Epoch: 1, Node: s.MakesAlone().Node}
		r.Once(zktest.CutBefore(), isA(zktest.OpMulti))
		ask[recipes.Unknown](s, claim)
		s.Asks(claim, recipes.Claimed{Epoch: 1, Fresh: true})
		err := transacts(r.Context(), s)
		expect(t, err == nil, "a transaction of the holder: %v, want success", err)
	}, strictly())
}

// TestASeatThatHasLostIsNoHolderAgain:
//
//  1. The seat verifies its node.
//  2. Its lease runs out, and it is notified.
//  3. The answer arrives, and the lease is renewed.
//
// The seat holds nothing, although its node exists until its function ends, and no reader
// may take its place.
func TestASeatThatHasLostIsNoHolderAgain(t *testing.T) {
	inSession(t, func(r *rig) {
		s := r.SeatedAt(session.Place{Dir: lockDir, Kind: events.KindWrite})
		node := s.Makes(1).Node
		s.Look(1, false)
		s.ClaimNode(node.Text)
		time.Sleep(100 * time.Second)
		lost := r.Multis()
		r.On(zktest.OpMulti, zktest.Swallow())
		time.Sleep(probe)
		lost(1, 2, "in an interval, which are not answered")
		time.Sleep(s.Until() - time.Second)
		r.OnAll(zktest.Delay(2 * time.Second))
		s.Do(recipes.Claim{Epoch: 1, Node: node, Held: true})
		time.Sleep(1500 * time.Millisecond)
		s.Want("LeaseRanOut")
		s.WantAnswer(recipes.Claimed{Epoch: 1, Fresh: true, Held: true})
		r.Server.Intercept(nil)
		r.InPlaceOf(s).Asks(recipes.Create{Epoch: 1, Attempt: 1}, placeRefused)
	})
}

// A reader takes the place of a writer.

// placeRefused is the answer to a reader that does not get a writer's place.
var placeRefused = recipes.Refused{Epoch: 1, Op: recipes.OpCreate, Missing: true}

// TestAPlaceIsGivenByAHolderOnly: a seat that does not hold, or is about to leave, may
// have a request in progress that is correct only without a reader in its place.
func TestAPlaceIsGivenByAHolderOnly(t *testing.T) {
	inSession(t, func(r *rig) {
		w, node := r.Writer()
		second := r.SeatedAt(session.Place{Dir: lockDir, Kind: events.KindWrite})
		second.Makes(1)
		second.Look(1, false)
		later := r.InPlaceOf(w)
		r.InPlaceOf(second).Asks(recipes.Create{Epoch: 1, Attempt: 1}, placeRefused)
		r.WantChildren(2)
		asked := r.Asked()
		r.Together(func() {
			w.Do(recipes.Delete{Epoch: 1, Node: node, Floor: true})
			later.Do(recipes.Create{Epoch: 1, Attempt: 1})
		})
		later.WantAnswer(placeRefused)
		equal(r, len(asked()), 1, "kinds of requests, of which one is the release")
	})
}

// TestAWriterThatGaveItsPlaceLeavesNoFloor: the reader in its place is older than the
// contender that reads the floor.
func TestAWriterThatGaveItsPlaceLeavesNoFloor(t *testing.T) {
	inSession(t, func(r *rig) {
		w, node := r.Writer()
		made := r.InPlaceOf(w).Makes(1)
		expect(r, made.Node.Seq == node.Seq && made.Alone,
			"the reader has %+v, want the place of %v, and no older contender", made, node)
		owner := r.Server.Owner(lockDir + "/" + made.Node.Text)
		expect(r, owner == r.Only(), "%s is owned by 0x%x, want a node of the session", made.Node.Text, owner)
		w.Asks(recipes.Delete{Epoch: 1, Node: node, Floor: true}, recipes.Deleted{Epoch: 1})
		r.WantData(ourData)
	})
}
