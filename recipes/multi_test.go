package recipes

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// place returns the node of an attempt in a member of a multi-lock.
func place(member int, id string, kind events.Kind, seq int64) events.Name {
	n := contender(seq)
	return events.Name{Text: "_c_" + id + "-" + kind.Marker() + n.Text[len(n.Text)-10:], Kind: kind, Member: int32(member), Seq: seq}
}

var (
	lockLock = MultiOf(events.KindLock, events.KindLock)

	own0, own1     = place(0, "me", events.KindLock, 5), place(1, "me", events.KindLock, 9)
	other0, other1 = place(0, "you", events.KindLock, 4), place(1, "you", events.KindLock, 8)
	later0, later1 = place(0, "late", events.KindLock, 6), place(1, "late", events.KindLock, 10)
	ownMulti       = Own{Name: own0, Owner: 77, Token: 500}
)

func TestMultiFollowsTheRuleOfEachMember(t *testing.T) {
	read0, read1 := place(0, "r", events.KindRead, 3), place(1, "r", events.KindRead, 7)
	mine0, mine1 := place(0, "me", events.KindRead, 5), place(1, "me", events.KindWrite, 9)
	readWrite := MultiOf(events.KindRead, events.KindWrite)
	for name, c := range map[string]struct {
		rule  Multi
		queue []events.Name
		me    events.Name
		want  string
		ahead int
	}{
		"no other contender":        {lockLock, []events.Name{own0, own1}, own0, "", 0},
		"no older contender":        {lockLock, []events.Name{later1, own1, later0, own0}, own0, "", 0},
		"another in both":           {lockLock, []events.Name{other1, own1, other0, own0}, own0, other0.Text, 2},
		"another in the second":     {lockLock, []events.Name{other1, own0, own1}, own0, other1.Text, 1},
		"known by the other place":  {lockLock, []events.Name{other1, own0, own1}, own1, other1.Text, 1},
		"nearest of two":            {lockLock, []events.Name{place(1, "x", events.KindLock, 2), other1, own0, own1}, own0, other1.Text, 2},
		"a number of the other one": {lockLock, []events.Name{place(1, "x", events.KindLock, 11), own0, own1}, own0, "", 0},
		"a reader before a reader":  {readWrite, []events.Name{read0, mine0, mine1}, mine0, "", 0},
		"a reader before a writer":  {readWrite, []events.Name{read0, read1, mine0, mine1}, mine0, read1.Text, 1},
		"a newcomer, alone":         {lockLock, nil, newcomer, "", 0},
		"a newcomer":                {lockLock, []events.Name{later1}, newcomer, later1.Text, 1},
		"without a place in one":    {lockLock, []events.Name{own0, later1}, own0, later1.Text, 1},
	} {
		blockers := ""
		for _, n := range c.rule.Blockers(c.queue, c.me) {
			blockers += n.Text
		}
		eventstest.Equal(t, blockers, c.want, "%s: blocked by", name)
		eventstest.Equal(t, ahead(c.rule, c.queue, c.me), c.ahead, "%s: contenders ahead", name)
	}
	eventstest.Expect(t, !lockLock.Exclusive(), "it leaves floors")
	eventstest.Equal(t, readWrite.Kind(), events.KindRead, "the kind, which is that of its first member")
	eventstest.Equal(t, Multi("").Kind(), 0, "the kind without a member")
}

// TestMultiIsUsableIfEachQueueIs: numbers are compared within one directory.
func TestMultiIsUsableIfEachQueueIs(t *testing.T) {
	same := place(1, "you", events.KindLock, 5) // the number of own0, in another directory
	for name, c := range map[string]struct {
		queue []events.Name
		want  bool
	}{
		"own":                       {[]events.Name{own0, own1}, true},
		"a number of another one":   {[]events.Name{own0, own1, same}, true},
		"the same number":           {[]events.Name{own0, own1, place(1, "you", events.KindLock, 9)}, false},
		"the end of the second":     {[]events.Name{own0, own1, place(1, "you", events.KindLock, events.SeqEnd)}, false},
		"below all numbers":         {[]events.Name{own0, own1, place(0, "you", events.KindLock, -1)}, false},
		"without one of the places": {[]events.Name{own0}, false},
	} {
		eventstest.Equal(t, lockLock.usable(c.queue, own0), c.want, "%s: usable", name)
	}
}

// TestAMultiLockIsHeldWhenItIsFirstEverywhere has the steps that no transcript in
// testdata/multi shows.
func TestAMultiLockIsHeldWhenItIsFirstEverywhere(t *testing.T) {
	joined := Enqueued{Epoch: 1, Nodes: []events.Name{own0, own1}}
	alone := Enqueued{Epoch: 1, Nodes: []events.Name{own0, own1}, Alone: true, Fresh: true, Token: 500}
	end := place(1, "me", events.KindLock, events.SeqEnd)
	writer := place(1, "w", events.KindWrite, 8)
	listed := func(others ...events.Name) Listed {
		return Listed{Epoch: 1, Queue: append(others, own0, own1), Own: ownMulti}
	}
	first, one := listed(later0, later1), listed(other1)
	parted := Listed{Epoch: 1, Queue: []events.Name{own1, later0}, Own: Own{Name: own1, Owner: 77, Token: 500}, Parted: true}
	s := cases{"started": {opened, Started{}}}
	s.from("joined", "started", joined)
	s.from("alone", "started", alone)
	s.from("over", "alone", Withdrawn{Why: WhyReleased}, Deleted{1})
	s.from("claiming", "joined", first)
	s.from("behind one", "joined", one)
	s.from("behind a writer", "joined", listed(writer))
	s.from("held after waiting", "behind one", Gone{1, other1}, Claimed{Epoch: 1, Fresh: true})
	s.from("recovering", "started", Unknown{Epoch: 1, Op: OpCreate})
	s.from("recovering, withdrawn", "recovering", Withdrawn{Why: WhyContext})
	s.follow(t, lockLock, []row{
		{"started", Enqueued{Epoch: 7, Nodes: joined.Nodes}, Creating, "discard #5, discard #9"},
		{"over", joined, Over, "discard #5, discard #9"},
		{"started", Enqueued{Epoch: 1}, Creating, ""},
		{"started", Enqueued{Epoch: 1, Nodes: []events.Name{own0, end}, Alone: true, Fresh: true}, Releasing, "delete #5"},
		{"claiming", Refused{Epoch: 1, Op: OpClaim, Missing: true}, Creating, "discard #5, create attempt 2, REQUEUED"},
		{"joined", one, Waiting, "QUEUED behind 1, watch #8"},
		{"behind one", Gone{1, other1}, Claiming, "claim #5"},
		{"behind a writer", Gone{1, writer}, Listing, "list"},
		{"alone", Expired{}, Lapsed, `LOST "session expired"`},
		{"held after waiting", Withdrawn{Why: WhyReleased}, Releasing, "delete #5"},
		// Some of its nodes are gone. It gives up all of them and creates new ones.
		{"joined", parted, Creating, "discard #9, create attempt 2, REQUEUED"},
		{"recovering, withdrawn", parted, Releasing, "delete #9"},
	})
}

// TestEachMemberHasItsOwnContenders, in the order of the queue, whether they are
// neighbours there or not.
func TestEachMemberHasItsOwnContenders(t *testing.T) {
	rule := MultiOf(events.KindLock, events.KindLock, events.KindLock)
	for code := range 3 * 3 * 3 * 3 * 3 * 3 {
		var queue []events.Name
		want := make([][]events.Name, len(rule))
		for i := range 6 {
			member := code % len(rule)
			code /= len(rule)
			c := events.Name{Text: fmt.Sprintf("lock-%010d", i), Kind: events.KindLock, Member: int32(member), Seq: int64(i)}
			queue = append(queue, c)
			want[member] = append(want[member], c)
		}
		got := rule.apart(queue)
		for member := range want {
			if !slices.Equal(got[member], want[member]) {
				t.Fatalf("of %v member %d has %v, want %v", queue, member, got[member], want[member])
			}
		}
	}
}

// This part is about what multi-locks do in the explorer's world.

func (e *multiEnv) enabledOutside(w *world, steps []step) []step {
	for m := w.outsiders(); m != 0; m &= m - 1 {
		if id := uint8(bits.TrailingZeros8(m)); id != 2 || w.past[0]&1 == 0 { // its reader leaves after its writer
			steps = append(steps, step{kind: stepLeaves, node: id})
		}
	}
	if w.left.trade > 0 && w.past[0]&1 != 0 {
		steps = append(steps, step{kind: stepDowngrade})
	}
	return steps
}

// told returns the name that a client's machine gets for a node. For each of its own
// nodes, that is the name of the first one.
func (e *multiEnv) told(w *world, c int, id uint8) events.Name {
	if own := w.clients[c].known; own&(1<<id) != 0 {
		id = uint8(bits.TrailingZeros8(e.first(c, own)))
	}
	return e.name(w, c, id/2, id%2)
}

// about returns the nodes that a machine means by a name. A node of its own attempt means
// all of the attempt's nodes that the shell knows.
func (e *multiEnv) about(w *world, c int, name events.Name) uint8 {
	g, d, ok := e.node(c, name)
	switch bit := multiNode(g, d); {
	case !ok:
		return 0
	case w.clients[c].known&bit != 0:
		return w.clients[c].known
	default:
		return bit
	}
}

// requestOf fills in the nodes that a request is about. It returns false if the machine
// names none.
func (e *multiEnv) requestOf(w *world, c int, ef Effect, r request) (_ request, ok bool) {
	r.arg, ok = 0, true
	switch ef := ef.(type) {
	case Watch:
		g, d, named := e.node(c, ef.Node)
		r.arg, ok = 2*g+d, named
	case Claim:
		r.mask = e.about(w, c, ef.Node)
		if ef.Incomplete(bits.OnesCount8(r.mask), len(e.roles[c].dirs)) != nil {
			r.mask = 0 // no server is asked
		}
		if ef.Held {
			r.flags = reqHeld
		}
	case Advance:
		g, d, _ := e.node(c, ef.Next)
		r.own, r.flags, r.mask = 2*g+d, reqWhole, e.about(w, c, ef.Node)
	case Delete:
		r.mask = e.about(w, c, ef.Node)
	}
	return r, ok
}
