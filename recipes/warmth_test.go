package recipes

import (
	"math/bits"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// This file is about how the explorer handles claims that are not sent.

// warms reports whether sessions may be warm in the world. They may if contenders watch
// their own nodes, and answers of an earlier connection are recognized.
func (e *environment) warms() bool {
	return e.ownWatch && e.several == nil && !e.single && (!e.late || e.dated)
}

// firsts returns the nodes that have no contender ahead of them at the leader.
func (w *world) firsts() (mask uint8) {
	for m := w.past[0]; m != 0; m &= m - 1 {
		if id := uint8(bits.TrailingZeros8(m)); w.past[0]&w.forms.blocking(id) == 0 {
			mask |= 1 << id
		}
	}
	return mask
}

// warmth returns what a client's session knows about the client.
func (e *environment) warmth(cl *client) Warmth {
	own := e.traits[cl.machine].own
	return Warmth{
		Connected: cl.conn == connUp,
		Listed:    cl.told&toldPlace != 0,
		Watched:   own != noNode && cl.armed&(1<<own) != 0,
		Lease:     cl.lease,
	}
}

// knows returns a request that is about to be sent, with what a warm session knows about
// its answer.
func (e *environment) knows(w *world, c int, r request) request {
	cl := &w.clients[c]
	claim := Claim{Held: r.flags&reqHeld != 0, Record: Recording(r.mask & maskRecord)}
	switch {
	case r.status == lost || !e.warms() || !e.warmth(cl).Claims():
		return r
	case r.op == OpClaim && claim.Knowable(LayoutQueue, 1):
		if r.status, r.own = executed, unsent; !e.listed {
			r.own |= news
		}
	case r.op == OpAdvance:
		a := r.handoff().Claims()
		if r = r.keeping(a); !a.Wants(PartFloor) {
			r.status = executed
		}
	default:
		return r
	}
	r.age = cl.lag
	r.flag(w.past[0]&w.forms.blocking(r.arg&7) == 0, reqFirst)
	return r
}

// Values of a claim's field own. unsent means that it is not sent, and news that its
// answer rests only on the end of the node ahead, which does not show how far the servers
// are.
const (
	unsent uint8 = 0x80
	news   uint8 = 0x40
)

// TestAWarmSessionKnowsAllThatAClaimWouldSay: it needs each of the facts of Warmth.
func TestAWarmSessionKnowsAllThatAClaimWouldSay(t *testing.T) {
	for set := range 16 {
		w := Warmth{Connected: set&1 != 0, Listed: set&2 != 0, Watched: set&4 != 0, Lease: set&8 != 0}
		eventstest.Equal(t, w.Claims(), set == 15, "%+v: the claim need not be sent", w)
	}
	for _, c := range []struct {
		claim  Claim
		layout Layout
		nodes  int
		want   bool
	}{
		{Claim{}, LayoutQueue, 1, true}, {Claim{}, LayoutPlace, 1, true}, {Claim{}, LayoutNode, 1, false},
		{Claim{}, LayoutSeveral, 2, false}, {Claim{}, LayoutQueue, 3, false}, {Claim{Held: true}, LayoutQueue, 1, false},
		{Claim{Record: RecordMade}, LayoutQueue, 1, false}, {Claim{Record: RecordRead}, LayoutQueue, 1, false},
	} {
		got := c.claim.Knowable(c.layout, c.nodes)
		eventstest.Equal(t, got, c.want, "%+v is knowable, with %v and %d nodes", c.claim, c.layout, c.nodes)
	}
}
