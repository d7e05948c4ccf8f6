package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// next is a seat that waits for another seat's node in a queue, both of one session.
type next struct {
	*rig
	ahead, seat *seat
	node        string
	claim       recipes.Claim
}

func nextIn(r *rig) next {
	r.Helper()
	r.Warm()
	n := next{rig: r, ahead: r.Seated(), seat: r.Seated()}
	n.node = n.ahead.Makes(1).Node.Text
	n.claim = recipes.Claim{Epoch: 1, Node: named(n.seat.Makes(1).Node.Text)}
	n.seat.Look(1, false)
	n.seat.Watches(n.node)
	return n
}

// leave makes the contender ahead leave.
func (n next) leave() {
	n.Helper()
	n.ahead.DeleteNode(n.node)
	n.seat.WantGone(n.node)
}

// TestAWarmSessionKnowsTheFirst: it needs no request, whether the contender was first in
// a listing or the event arrived that the node ahead is gone. An event does not say how
// current the servers are. So a write through the quorum precedes the first read, and
// none precedes the next one.
func TestAWarmSessionKnowsTheFirst(t *testing.T) {
	for name, c := range map[string]struct {
		listed bool
		want   []zktest.Op
	}{
		"granted by news":      {false, []zktest.Op{zktest.OpMulti, zktest.OpGetData}},
		"granted by a listing": {true, []zktest.Op{zktest.OpGetData}},
	} {
		run(t, name, func(r *rig) {
			n := nextIn(r)
			n.leave()
			if c.listed {
				n.seat.Look(1, false)
			}
			asked := r.Asked()
			n.seat.Asks(n.claim, recipes.Claimed{Epoch: 1, Fresh: true})
			r.WantAsked(asked())
			for _, want := range [][]zktest.Op{c.want, {zktest.OpGetData}} {
				_, err := n.seat.Read(r.Context(), 1, lockDir)
				r.Must(err)
				r.WantAsked(asked(), want...)
			}
		})
	}
}

// TestAColdSessionClaims: each of these is a reason to claim, and so is a claim that says
// more than that the node exists. The claim is a write, and the machine waits for its
// answer.
func TestAColdSessionClaims(t *testing.T) {
	for name, spoil := range map[string]func(n *next){
		"nothing was written for two probe intervals": func(*next) { time.Sleep(sessionTimeout / 4) },
		"the lease is short, though something was written": func(n *next) {
			n.NoPings()
			time.Sleep(sessionTimeout / 2) // nothing is answered
			n.Settle()
			n.Seated().Makes(1)
		},
		"the contender was listed on another connection": func(n *next) {
			n.Server.Cut(n.Only())
			n.Settle()
			n.SetData(n.claim.Node.Text) // so that its watch is armed on this one,
			n.Seated().Makes(1)          // and something is written
		},
		"the node's watch was armed on another connection": func(n *next) {
			n.Server.Cut(n.Only())
			n.Settle()
			n.seat.Look(1, false)
		},
		"it is unknown whether the node is watched": func(n *next) {
			n.On(zktest.OpGetData, zktest.Swallow())
			n.SetData(n.claim.Node.Text) // the event arrives, and the request that arms the watch again is not answered
		},
		"with a record":     func(n *next) { n.claim.Record = recipes.RecordMade },
		"of one that holds": func(n *next) { n.claim.Held = true },
	} {
		run(t, name, func(r *rig) {
			n := nextIn(r)
			n.leave()
			spoil(&n)
			n.seat.Fresh()
			multis := r.Multis()
			r.On(zktest.OpMulti, zktest.Swallow())
			n.seat.Do(n.claim)
			multis(1, 10, "for a claim")
			n.seat.Want("") // before the claim is answered
		})
	}
}

// TestALateRenewalIsToldBeforeAnythingIsGranted: a lease is renewed after it has run out.
// Its end is reported before the renewed lease grants a lock, or the grant would become a
// loss.
func TestALateRenewalIsToldBeforeAnythingIsGranted(t *testing.T) {
	inSession(t, func(r *rig) {
		r.Warm()
		r.Plant(stranger)
		s, writer := r.Seated(), r.Seated()
		own := s.Makes(1).Node.Text
		s.Look(1, false)
		s.Watches(stranger)
		for s.Until() > -time.Second { // reads are signs of life, and the next write makes a long lease of them
			time.Sleep(time.Second / 2)
			writer.Look(1, false)
		}
		r.DeleteNode(stranger)
		s.WantGone(stranger)
		s.Look(1, false)
		r.Once(zktest.Delay(time.Second), isA(zktest.OpMulti))
		writer.Do(recipes.Claim{Epoch: 1, Node: named("none")})
		synctest.Wait()
		wait, open := gate(r)
		r.Session.Loop().Post(wait) // nothing is granted meanwhile
		synctest.Wait()
		go s.Do(recipes.Claim{Epoch: 1, Node: named(own)})
		time.Sleep(2 * time.Second) // the write is answered
		open()
		s.WantOnly(recipes.Claimed{Epoch: 1, Fresh: true})
	})
}

// TestNoSessionIsWarmInAnOutage: a claim waits for a connection.
func TestNoSessionIsWarmInAnOutage(t *testing.T) {
	inSession(t, func(r *rig) {
		n := nextIn(r)
		n.leave()
		n.seat.Look(1, false) // it says that the contender is first
		r.Server.Down(true)
		n.seat.Want("Suspended")
		n.seat.Do(n.claim)
		n.seat.Want("")
		r.Server.Down(false)
		r.Settle()
		n.seat.Want("Reconnected Claimed")
	})
}

// TestAGrantWithoutAWriteIsProbedFor: the probe is sent as soon as after a grant with a
// write, because the lease continues from the last write.
func TestAGrantWithoutAWriteIsProbedFor(t *testing.T) {
	inSession(t, func(r *rig) {
		n := nextIn(r)
		n.leave()
		time.Sleep(probe + probe/4)
		multis := r.Multis()
		n.seat.Asks(n.claim, recipes.Claimed{Epoch: 1, Fresh: true})
		time.Sleep(3*probe/4 + 10*time.Millisecond) // two intervals after the last write
		multis(1, 2, "two intervals after the last write")
	})
}
