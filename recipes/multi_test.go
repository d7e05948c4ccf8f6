package recipes

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// place is a node of an attempt, in a member of a multi-lock.
func place(member int, id string, kind events.Kind, seq int64) events.Name {
	n := contender(seq)
	return events.Name{Text: MemberName(member, "_c_"+id+"-"+kind.Marker()+n.Text[len(n.Text)-10:]), Kind: kind, Seq: seq}
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
		"no contender's name":       {lockLock, []events.Name{{Text: "config"}, {Text: "7/x"}, {Text: "-1/x"}, own0, own1}, own0, "", 0},
	} {
		got := c.rule.Blockers(c.queue, c.me)
		if c.want == "" && len(got) != 0 || c.want != "" && (len(got) != 1 || got[0].Text != c.want) {
			t.Errorf("%s: blocked by %v, want %q", name, got, c.want)
		}
		if n := ahead(c.rule, c.queue, c.me); n != c.ahead {
			t.Errorf("%s: %d ahead, want %d", name, n, c.ahead)
		}
	}
	if lockLock.Exclusive() || readWrite.Kind() != events.KindRead || Multi("").Kind() != 0 {
		t.Error("it leaves floors, or is of another kind than its first member")
	}
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
		if got := lockLock.usable(c.queue, own0); got != c.want {
			t.Errorf("%s: usable %v, want %v", name, got, c.want)
		}
	}
}

// stepsOf feeds a multi-lock's machine.
func stepsOf(inputs ...Input) (Machine, []Effect) {
	return run(NewMachine(lockLock), append([]Input{opened, Started{}}, inputs...)...)
}

func TestAMultiLockIsHeldWhenItIsFirstEverywhere(t *testing.T) {
	joined := Enqueued{Epoch: 1, Nodes: []events.Name{own0, own1}}
	alone := Enqueued{Epoch: 1, Nodes: []events.Name{own0, own1}, Alone: true, Fresh: true, Token: 500}
	end := place(1, "me", events.KindLock, events.SeqEnd)
	first := Listed{Epoch: 1, Queue: []events.Name{own0, own1, later0, later1}, Own: ownMulti}
	one := Listed{Epoch: 1, Queue: []events.Name{other1, own0, own1}, Own: ownMulti}
	both := Listed{Epoch: 1, Queue: []events.Name{other0, other1, own0, own1}, Own: ownMulti}
	writer := place(1, "w", events.KindWrite, 8)
	for name, c := range map[string]struct {
		inputs []Input
		want   State
		does   []string
	}{
		"alone":                     {[]Input{alone}, Held, []string{"GRANT #5 token 500"}},
		"made, and not alone":       {[]Input{joined}, Listing, []string{"list"}},
		"alone, and withdrawn":      {[]Input{Withdrawn{Why: WhyReleased}, alone}, Releasing, []string{"delete #5"}},
		"made in a past session":    {[]Input{Enqueued{Epoch: 7, Nodes: joined.Nodes}}, Creating, []string{"discard #5", "discard #9"}},
		"made when it is over":      {[]Input{alone, Withdrawn{Why: WhyReleased}, Deleted{1}, joined}, Over, []string{"discard #5", "discard #9"}},
		"no node at all":            {[]Input{Enqueued{Epoch: 1}}, Creating, nil},
		"at the end of one":         {[]Input{Enqueued{Epoch: 1, Nodes: []events.Name{own0, end}, Alone: true, Fresh: true}}, Releasing, []string{"delete #5"}},
		"first everywhere":          {[]Input{joined, first}, Claiming, []string{"claim #5"}},
		"claimed":                   {[]Input{joined, first, Claimed{Epoch: 1, Fresh: true}}, Held, []string{"GRANT #5 token 500"}},
		"one ahead":                 {[]Input{joined, one}, Waiting, []string{"QUEUED behind 1", "watch #8"}},
		"that one gone":             {[]Input{joined, one, Gone{1, other1.Text}}, Claiming, []string{"claim #5"}},
		"one ahead at both":         {[]Input{joined, both}, Waiting, []string{"QUEUED behind 2", "watch #4"}},
		"gone from one":             {[]Input{joined, both, Gone{1, other0.Text}}, Listing, []string{"list"}},
		"behind a writer":           {[]Input{joined, Listed{Epoch: 1, Queue: []events.Name{own0, writer, own1}, Own: ownMulti}, Gone{1, writer.Text}}, Listing, []string{"list"}},
		"a node gone while waiting": {[]Input{joined, one, Gone{1, own0.Text}}, Creating, []string{"discard #5", "create attempt 2", "REQUEUED"}},
		"a node missing":            {[]Input{joined, first, Refused{Epoch: 1, Op: OpClaim, Missing: true}}, Creating, []string{"discard #5", "create attempt 2", "REQUEUED"}},
		"a node lost":               {[]Input{alone, Gone{1, own0.Text}}, Lapsed, []string{`LOST "node removed"`}},
		"the session lost":          {[]Input{alone, Expired{}}, Lapsed, []string{`LOST "session expired"`}},
		"the session gone":          {[]Input{joined, one, Expired{}}, Idle, []string{"REQUEUED"}},
		"released":                  {[]Input{alone, Withdrawn{Why: WhyReleased}}, Releasing, []string{"delete #5"}},
		"released behind a wait":    {[]Input{joined, one, Gone{1, other1.Text}, Claimed{Epoch: 1, Fresh: true}, Withdrawn{Why: WhyReleased}}, Releasing, []string{"delete #5"}},
	} {
		m, effects := stepsOf(c.inputs...)
		if does := texts(effects); m.State() != c.want || does != strings.Join(c.does, ", ") {
			t.Errorf("%s: %v %q, want %v %q", name, m.State(), does, c.want, c.does)
		}
	}
}

// TestMultiThatIsParted: some of its nodes are gone. All are given up, and others are made.
func TestMultiThatIsParted(t *testing.T) {
	joined := Enqueued{Epoch: 1, Nodes: []events.Name{own0, own1}}
	parted := Listed{Epoch: 1, Queue: []events.Name{own1, later0}, Own: Own{Name: own1, Owner: 77, Token: 500}, Parted: true}
	for name, c := range map[string]struct {
		inputs []Input
		want   State
		does   []Effect
	}{
		"listing":    {[]Input{joined, parted}, Creating, []Effect{Discard{own1.Text}, Create{1, 2}, Requeue{}}},
		"recovering": {[]Input{Unknown{1, OpCreate}, parted}, Creating, []Effect{Discard{own1.Text}, Create{1, 2}, Requeue{}}},
		"withdrawn":  {[]Input{Unknown{1, OpCreate}, Withdrawn{Why: WhyContext}, parted}, Releasing, []Effect{Delete{Epoch: 1, Node: own1.Text}}},
	} {
		m, effects := stepsOf(c.inputs...)
		if m.State() != c.want || !slices.Equal(effects, c.does) {
			t.Errorf("%s: %v %v, want %v %v", name, m.State(), effects, c.want, c.does)
		}
	}
}

func TestAMembersNameTellsItsMemberAndNode(t *testing.T) {
	for name, want := range map[string]struct {
		member int
		node   string
		ok     bool
	}{
		"0/a": {0, "a", true}, "31/a/b": {31, "a/b", true}, "a": {}, "": {}, "-1/a": {}, "x/a": {}, "leases/a": {},
	} {
		if member, node, ok := ParseMember(name); ok != want.ok || ok && (member != want.member || node != want.node) {
			t.Errorf("%q is %d, %q, %v; want %+v", name, member, node, ok, want)
		}
	}
}

// TestEachMemberHasItsOwnContenders, in the order of the queue, whether they are neighbours there or not.
func TestEachMemberHasItsOwnContenders(t *testing.T) {
	rule := MultiOf(events.KindLock, events.KindLock)
	heads := []string{"0/", "1/", "2/", "10/", "", "x/", "-1/"} // of members, and of none
	for code := range 7 * 7 * 7 * 7 {
		var queue []events.Name
		want := make([][]events.Name, 2)
		for i := range 4 {
			head := heads[code%len(heads)]
			code /= len(heads)
			c := events.Name{Text: fmt.Sprintf("%slock-%010d", head, i), Kind: events.KindLock, Seq: int64(i)}
			queue = append(queue, c)
			for member := range want {
				if head == MemberName(member, "") {
					want[member] = append(want[member], c)
				}
			}
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

// enabledOutside appends the steps of processes other than the clients.
func (e *multiEnv) enabledOutside(w *world, steps []step) []step {
	for m := w.outsiders(); m != 0; m &= m - 1 {
		if id := uint8(bits.TrailingZeros8(m)); id != 2 || w.past[0]&1 == 0 { // its reader leaves behind its writer
			steps = append(steps, step{kind: stepLeaves, node: id})
		}
	}
	if w.left.trade > 0 && w.past[0]&1 != 0 {
		steps = append(steps, step{kind: stepDowngrade})
	}
	return steps
}

// told is the name by which a client's machine hears of a node. For each of its own nodes that is the name of the first.
func (e *multiEnv) told(w *world, c int, id uint8) string {
	if own := w.clients[c].known; own&(1<<id) != 0 {
		id = uint8(bits.TrailingZeros8(e.first(c, own)))
	}
	return e.name(w, c, id/2, id%2).Text
}

// feed lets a client's machine take an input, and carries its effects out.
func (e *multiEnv) feed(w *world, c int, in Input) {
	cl := &w.clients[c]
	before := cl.machine
	next, effects := e.step(e.machines[before], in)
	cl.machine = e.intern(next)
	if e.log != nil {
		e.log(c, e.describe(before, in, 0))
	}
	for _, ef := range effects {
		if v := e.perform(w, c, ef); v != "" && e.bad == "" {
			e.bad = v
		}
	}
	e.over(w, c)
	if _, told := in.(Withdrawn); !told && e.machines[cl.machine].State() == Lapsed && cl.flags&flagKeep == 0 { // its side says at once that no function runs
		e.feed(w, c, Withdrawn{Why: WhyLost})
	}
}

// perform does what the shell promises to do.
func (e *multiEnv) perform(w *world, c int, ef Effect) violation {
	cl := &w.clients[c]
	about := func(name string) uint8 {
		g, d, ok := e.node(c, name)
		switch bit := multiNode(g, d); {
		case !ok:
			return 0
		case cl.known&bit != 0:
			return cl.known
		default:
			return bit
		}
	}
	switch ef := ef.(type) {
	case Create:
		if e.shell != shellOneAnew {
			cl.known = 0
		}
		return e.send(w, c, request{op: uint8(OpCreate), epoch: uint8(ef.Epoch), arg: uint8(ef.Attempt)})
	case Cancel:
		cl.unwant(uint8(ef.Epoch))
		return ""
	case List:
		r := request{op: uint8(OpList), epoch: uint8(ef.Epoch), arg: uint8(ef.Attempt)}
		if ef.Barrier {
			r.flags = reqBarrier
		}
		return e.send(w, c, r)
	case Watch:
		g, d, ok := e.node(c, ef.Node)
		if !ok {
			return nameless
		}
		return e.send(w, c, request{op: uint8(OpWatch), epoch: uint8(ef.Epoch), arg: 2*g + d})
	case Claim:
		nodes := about(ef.Node)
		if ef.Incomplete(bits.OnesCount8(nodes), len(e.roles[c].dirs)) != nil {
			nodes = 0 // no server is asked
		}
		return e.send(w, c, request{op: uint8(OpClaim), epoch: uint8(ef.Epoch), mask: nodes, flags: e.effect(ef).flag * reqHeld})
	case Advance:
		g, d, _ := e.node(c, ef.Next)
		return e.send(w, c, request{op: uint8(OpAdvance), epoch: uint8(ef.Epoch), mask: about(ef.Node), own: 2*g + d, flags: reqWhole})
	case Delete:
		if cl.flags&flagKeep != 0 && cl.told&(toldLost|toldWithdrawn) == toldLost {
			return letIn
		}
		return e.send(w, c, request{op: uint8(OpDelete), epoch: uint8(ef.Epoch), mask: about(ef.Node)})
	case Discard:
		if e.shell == shellOneAnew {
			return ""
		}
		cl.discard |= about(ef.Node)
		return ""
	default:
		return e.tell(w, c, ef)
	}
}

// send makes a request.
func (e *multiEnv) send(w *world, c int, r request) violation {
	cl := &w.clients[c]
	r.status = sent
	switch {
	case cl.conn == connNone || r.epoch != cl.epoch:
		r = request{op: r.op, status: lost, epoch: r.epoch, arg: r.arg}
	case cl.conn == connDown:
		r.status = parked
	}
	if Op(r.op) == OpWatch && r.status != sent {
		return ""
	}
	if r.status != lost {
		cl.tenure = cl.tenure.Asked(Op(r.op), Op(r.op), Op(r.op) == OpClaim && r.flags&reqHeld != 0)
	}
	if !cl.push(r) || cl.requests[maxRequests-1].op != 0 { // its machines have one request less under way than others
		return overflow
	}
	return ""
}
