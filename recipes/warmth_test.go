package recipes

import (
	"math/bits"
	"testing"
)

// This file is about how the explorer deals with claims that are not sent.

// warms tells whether sessions may be warm in the world. They may if contenders watch their own nodes, and answers of an earlier
// connection are told apart.
func (e *environment) warms() bool {
	return e.ownWatch && e.several == nil && !e.single && (!e.late || e.dated)
}

// firsts returns the nodes without another contender before them at the leader.
func (w *world) firsts() (mask uint8) {
	for m := w.past[0]; m != 0; m &= m - 1 {
		if id := uint8(bits.TrailingZeros8(m)); w.past[0]&w.forms.blocking(id) == 0 {
			mask |= 1 << id
		}
	}
	return mask
}

// warmth is what a client's session knows of the client.
func (e *environment) warmth(cl *client) Warmth {
	own := e.traits[cl.machine].own
	return Warmth{
		Connected: cl.conn == connUp,
		Listed:    cl.told&toldPlace != 0,
		Watched:   own != noNode && cl.armed&(1<<own) != 0,
		Lease:     cl.lease,
	}
}

// knows returns a request that is about to be sent, with what a warm session knows of the answer.
func (e *environment) knows(w *world, c int, r request) request {
	cl := &w.clients[c]
	claim := Claim{Held: r.flags&reqHeld != 0, Record: Recording(r.mask & maskRecord)}
	switch {
	case r.status == lost || !e.warms() || !e.warmth(cl).Claims():
		return r
	case r.op == OpClaim && claim.Knowable(LayoutQueue):
		if r.own = glances; e.listed {
			r.status = executed
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
	if w.past[0]&w.forms.blocking(r.arg&7) == 0 {
		r.flags |= reqFirst
	}
	return r
}

// glances, in a claim's own, says that the claim only looks whether the own node is there.
const glances = 0x80

// glance makes that look, at the client's replica. It reports false for any other request.
func (w *world) glance(cl *client, r *request) bool {
	if r.op != OpClaim || r.own != glances {
		return false
	}
	if w.past[cl.lag]&(1<<(r.arg&7)) == 0 {
		r.flags |= reqMissing
	}
	r.status, r.age = executed, cl.lag
	return true
}

// TestAWarmSessionKnowsAllThatAClaimWouldSay: it needs each of the facts of Warmth.
func TestAWarmSessionKnowsAllThatAClaimWouldSay(t *testing.T) {
	for set := range 16 {
		w := Warmth{Connected: set&1 != 0, Listed: set&2 != 0, Watched: set&4 != 0, Lease: set&8 != 0}
		if got := w.Claims(); got != (set == 15) {
			t.Errorf("%+v: the claim need not be sent: %v", w, got)
		}
	}
	for _, c := range []struct {
		claim  Claim
		layout Layout
		want   bool
	}{
		{Claim{}, LayoutQueue, true}, {Claim{}, LayoutPlace, true}, {Claim{}, LayoutNode, false}, {Claim{}, LayoutSeveral, false},
		{Claim{Held: true}, LayoutQueue, false}, {Claim{Record: RecordMade}, LayoutQueue, false}, {Claim{Record: RecordRead}, LayoutQueue, false},
	} {
		if got := c.claim.Knowable(c.layout); got != c.want {
			t.Errorf("%+v, with %v: knowable %v, want %v", c.claim, c.layout, got, c.want)
		}
	}
}
