package recipes

import (
	"math/bits"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
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

// TestWarmIsForTheNextInLine: the contender waits only for the end of the node ahead, and
// the session may know the answer to its claim. A contender that lists again, as all do
// after a reconnect, does not request it again.
func TestWarmIsForTheNextInLine(t *testing.T) {
	writer := place(0, "you", events.KindWrite, 3)
	for name, c := range map[string]struct {
		rule  Rule
		ahead []events.Name
		start Started
		want  bool
	}{
		"of a mutex":                    {Mutex{}, []events.Name{ahead3}, Started{}, true},
		"with two ahead":                {Mutex{}, []events.Name{ahead3, ahead4}, Started{}, false},
		"with a record":                 {Mutex{}, []events.Name{ahead3}, Started{Detect: true}, false},
		"of a semaphore":                {Semaphore{Size: 2, Permits: 1}, []events.Name{ahead3}, Started{}, false},
		"of a multi-lock":               {lockLock, []events.Name{other0, own0}, Started{}, false},
		"a reader behind a writer":      {Read{}, []events.Name{writer}, Started{}, true},
		"a writer behind another one":   {Write{}, []events.Name{writer}, Started{}, false},
		"a mutex that has listed again": {Mutex{}, []events.Name{ahead3}, Started{}, false},
	} {
		inputs := []Input{opened, c.start, Created{Epoch: 1, Node: ours}, Listed{Epoch: 1, Queue: append(c.ahead, ours), Own: ownNode}}
		if c.rule == Rule(lockLock) {
			inputs[2], inputs[3] = Enqueued{Epoch: 1, Nodes: []events.Name{own0, own1}}, Listed{Epoch: 1, Queue: append(c.ahead, own1), Own: ownMulti}
		}
		if name == "a mutex that has listed again" {
			inputs = append(inputs, Suspended{}, Reconnected{}, inputs[3])
		}
		m, effects := run(NewMachine(c.rule), inputs...)
		if got := slices.Contains(effects, Effect(Warm{})); got != c.want || m.state != Waiting {
			t.Errorf("%s: %v, %s; want it to wait, and to be kept warm: %v", name, m.state, texts(effects), c.want)
		}
	}
}
