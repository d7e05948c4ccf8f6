package recipes

import (
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes/internal/searchtest"
)

// TestExploreStays visits every interleaving of contenders that share cached nodes.
func TestExploreStays(t *testing.T) {
	for name, c := range map[string]struct {
		left     stayBudget
		handoffs int32
		locals   int
		rounds   uint8
	}{
		"far":                   {stayBudget{tick: 2, withdraw: 1, stranger: 1}, 1, 0, 2}, // from the servers
		"alone":                 {stayBudget{tick: 2, withdraw: 1}, 1, 0, 3},
		"stranger":              {stayBudget{tick: 1, withdraw: 1, stranger: 1}, 1, 0, 2},
		"strict":                {stayBudget{tick: 1, stranger: 1, junk: 1}, 0, 0, 2},
		"two sessions":          {stayBudget{tick: 1, withdraw: 1}, 1, 2, 1},
		"cut":                   {stayBudget{tick: 1, cut: 1, stranger: 1}, 1, 0, 2},
		"removed":               {stayBudget{remove: 1, stranger: 1}, 1, 0, 2},
		"lapse":                 {stayBudget{tick: 1, lapse: 1, stranger: 1}, 1, 0, 2},
		"expired":               {stayBudget{lapse: 1, expire: 1, stranger: 1}, 1, 0, 2},
		"lapse, cut, removed":   {stayBudget{lapse: 1, cut: 1, remove: 1}, 1, 0, 2},
		"expired, two sessions": {stayBudget{lapse: 1, expire: 1}, 1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := &stayModel{handoffs: c.handoffs, locals: c.locals, rounds: c.rounds, far: name == "far"}
			f := searchtest.Visit(m, m.first(c.left), 5_000_000)
			t.Log(f)
			eventstest.Expect(t, f.Violation == "" && !f.Truncated, "%s", strings.Join(f.Trace, "\n"))
		})
	}
}

// TestStayMoves: what a stay does next.
func TestStayMoves(t *testing.T) {
	const known, unknown = true, false
	next := func(s Stay, known bool) (Stay, StayMove) {
		move := s.Next(func() bool { return known })
		return s, move
	}
	held, move := next(Stay{Waiting: 1, Stands: true, Worth: true}, unknown)
	if move != StayGrants || held.Turns != 1 || held.Holders != 1 {
		t.Fatalf("a contender waits for a node that was granted: %v and %+v, want the first turn", move, held)
	}
	released := held
	released.Holders = 0
	idle, move := next(released, known)
	if move != StayWatches {
		t.Fatalf("a node was released: %v, want it watched", move)
	}
	three := idle
	three.Waiting = 3
	with := func(s Stay, does ...func(*Stay)) Stay {
		for _, do := range does {
			do(&s)
		}
		return s
	}
	wanted := func(handoffs int32) func(*Stay) { return func(s *Stay) { s.Want(handoffs) } }
	spent := func(s *Stay) { s.Spent = true }
	for name, c := range map[string]struct {
		stay   Stay
		known  bool
		want   StayMove
		excess int32
	}{
		"idle":                               {idle, known, StayWaits, 0},
		"idle and wanted":                    {with(idle, wanted(2)), known, StayGoes, 0},
		"idle after a reconnect":             {with(idle, (*Stay).Resume), known, StayGoes, 0},
		"held after a reconnect":             {with(held, (*Stay).Resume), known, StayWaits, 0},
		"waited for":                         {three, known, StayGrants, 0},
		"waited for and not known":           {three, unknown, StayWaits, 0},
		"waited for and wanted":              {with(three, wanted(2)), known, StayGrants, 1},
		"waited for, wanted and strict":      {with(three, wanted(0)), known, StayGoes, 3},
		"waited for, wanted for long enough": {with(three, wanted(2), (*Stay).EndHandoffs), known, StayGoes, 3},
		"wanted after a reconnect":           {with(three, wanted(2), (*Stay).Resume), known, StayGoes, 3},
		"spent":                              {with(three, spent), known, StayGoes, 3},
		"spent before it was watched":        {with(released, spent), known, StayGoes, 0},
		"wanted before it was watched":       {with(released, wanted(2), func(s *Stay) { s.Waiting = 1 }), known, StayGrants, 0},
		"lost":                               {with(three, func(s *Stay) { s.Over = true }), known, StayWaits, 3},
		"a transaction under way":            {with(three, func(s *Stay) { s.Busy = 1 }), known, StayWaits, 0},
		"held":                               {with(held, func(s *Stay) { s.Waiting = 1 }), known, StayWaits, 0},
		"not granted and not wanted":         {Stay{}, known, StayGoes, 0},
		"not granted and waited for":         {Stay{Waiting: 1}, known, StayWaits, 0},
		"granted and not worth it":           {with(released, func(s *Stay) { s.Worth = false }), known, StayGoes, 0},
	} {
		stay, move := next(c.stay, c.known)
		if excess := c.stay.Excess(); move != c.want || excess != c.excess && stay.Excess() != c.excess {
			t.Errorf("%s: %v with %d waiters too many, want %v with %d", name, move, excess, c.want, c.excess)
		}
	}
}

// TestContentionIsFoundOut: the requests that it takes to know every contender.
func TestContentionIsFoundOut(t *testing.T) {
	const waits, proven = true, true
	alive := true
	next := func(c Contention, waits, proven bool) (Contention, bool, Op) {
		known, request := c.Next(waits, func(Epoch) (bool, bool) { return alive, proven })
		op, _, _ := Requested(request)
		return c, known, op
	}
	after := func(c Contention, inputs ...Input) Contention {
		for _, in := range inputs {
			c.Hear(in)
		}
		return c
	}
	var granted Contention
	granted.Grant(1, "own")
	watching := granted
	watching.Watched = true
	arming, _, op := next(watching, false, proven)
	if op != OpArm || arming.Paced {
		t.Fatalf("a directory is to be watched: %v, paced %v; want an Arm, and the next one at once", op, arming.Paced)
	}
	armed := after(arming, Armed{Epoch: 1})
	resting := armed
	eventstest.Expect(t, resting.Rest(), "a node does not rest")
	proving, _, _ := next(resting, waits, proven)
	again := proving
	eventstest.Expect(t, !again.Rest(), "a node rests while a claim is under way")
	// The machine's own claim after a reconnect is another claim.
	verified := Claim{Held: true}.Marks(Claimed{Epoch: 1, Fresh: true})
	both, _, _ := next(after(proving, Suspended{}, Reconnected{}), waits, proven)
	both = after(both, Armed{Epoch: 1})
	claimed := after(proving, Claimed{Epoch: 1, Fresh: true})
	used, _, _ := next(claimed, waits, !proven)
	unused, _, _ := next(claimed, !waits, !proven)
	neighbour := Contention{Found: true}
	neighbour.Grant(1, "own")
	paced, _, _ := next(after(armed, Changed{1}), false, proven)
	alone, others := Armed{Epoch: 1}, Armed{Epoch: 1, Others: true}
	for name, c := range map[string]struct {
		book          Contention
		waits, proven bool
		known         bool
		op            Op
	}{
		"not asked for":           {granted, waits, proven, false, 0},
		"under way":               {arming, waits, proven, false, 0},
		"watched":                 {armed, waits, proven, true, 0},
		"watched, nobody waits":   {armed, false, proven, false, 0},
		"watched, and not proven": {armed, waits, false, false, OpClaim},
		"changed":                 {after(armed, Changed{1}), false, proven, false, OpArm},
		"changed elsewhere":       {after(armed, Changed{2}), waits, proven, true, 0},
		"changed meanwhile":       {after(arming, Changed{1}, alone), waits, proven, false, OpArm},
		"changed again":           {after(paced, alone, Changed{1}), false, proven, false, 0},
		"changed, somebody waits": {after(paced, alone, Changed{1}), waits, proven, false, OpArm},
		"suspended":               {after(armed, Suspended{}), waits, proven, false, 0},
		"resumed":                 {after(armed, Suspended{}, Reconnected{}), false, proven, false, OpArm},
		"found":                   {after(arming, others), waits, proven, true, 0},
		"found, and not proven":   {after(arming, others), waits, false, false, OpClaim},
		"found before the Grant":  {neighbour, waits, proven, true, 0},
		"refused":                 {after(arming, Refused{Epoch: 1, Op: OpArm}), waits, proven, false, 0},
		"unknown":                 {after(arming, Unknown{Epoch: 1, Op: OpArm}), waits, proven, true, 0},
		"unknown elsewhere":       {after(arming, Unknown{Epoch: 2, Op: OpArm}), waits, proven, false, 0},
		"resting":                 {resting, waits, proven, false, OpClaim},
		"proving":                 {proving, waits, proven, false, 0},
		"claimed":                 {claimed, waits, proven, true, 0},
		"claimed, far away":       {claimed, waits, !proven, true, 0},
		"the turn after that":     {used, waits, !proven, false, OpClaim},
		"a later turn":            {unused, waits, !proven, false, OpClaim},
		"claimed too late":        {after(proving, Claimed{Epoch: 1}), waits, proven, false, OpClaim},
		"claimed elsewhere":       {after(proving, Claimed{Epoch: 2, Fresh: true}), waits, proven, false, 0},
		"claim unknown":           {after(proving, Unknown{Epoch: 1, Op: OpClaim}), waits, proven, false, OpClaim},
		"verified":                {after(resting, verified), waits, proven, false, OpClaim},
		"verified and not proven": {after(armed, verified), waits, !proven, false, OpClaim},
		"verified while proving":  {after(both, verified), waits, proven, false, 0},
		"not verified, proving":   {after(both, Unknown{Epoch: 1, Op: OpClaim, Held: true}), waits, proven, false, 0},
		"and then claimed":        {after(both, verified, Claimed{Epoch: 1, Fresh: true}), waits, proven, true, 0},
		"not held":                {after(Contention{}, Reconnected{}), waits, proven, false, 0},
	} {
		if _, known, op := next(c.book, c.waits, c.proven); known != c.known || op != c.op {
			t.Errorf("%s: known %v, and asks for %v; want %v, and %v", name, known, op, c.known, c.op)
		}
	}
	refused := Refused{Epoch: 1, Op: OpClaim}
	if !after(arming, Refused{Epoch: 1, Op: OpArm}).Blind || !after(proving, refused).Blind || after(armed, refused).Blind ||
		after(proving, Claim{Held: true}.Marks(refused)).Blind {
		t.Error("a refusal of its own Arm or Claim makes it blind, and no other one")
	}
	alive = false
	if _, known, op := next(claimed, waits, proven); known || op != OpClaim {
		t.Errorf("the lease has run out since the claim: known %v, and asks for %v; want another claim", known, op)
	}
}

// TestHabit: nodes are kept from the second consecutive one on. If another contender soon
// arrives each time, more and more nodes are let go.
func TestHabit(t *testing.T) {
	var h Habit
	seq := int64(0)
	next := func(step int64) (worth bool) {
		seq += step
		h, worth = h.Worth(seq)
		return worth
	}
	for i, c := range []struct {
		step int64
		want bool
	}{{1, false}, {1, true}, {1, true}, {2, false}, {1, true}} {
		eventstest.Equal(t, next(c.step), c.want, "worth of node %d, %d behind the one before", i, c.step)
	}
	soon := Stay{Turns: 1, watched: true, wanted: true}
	skipped := func() (n int) {
		for !next(1) {
			n++
		}
		return n
	}
	for _, want := range []int{1, 3, 7, 15, 31, 63, 63} {
		h = h.Ended(soon)
		eventstest.Equal(t, skipped(), want, "nodes let go when another contender came soon")
	}
	h = h.Ended(Stay{Turns: 100, watched: true, wanted: true})
	h = h.Ended(soon)
	eventstest.Equal(t, skipped(), 1, "nodes let go behind a stay that has paid")
}
