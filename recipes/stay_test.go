package recipes

import (
	"strings"
	"testing"

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
			m := newStayModel()
			m.handoffs, m.locals, m.rounds = c.handoffs, c.locals, c.rounds
			f := searchtest.Visit(m, m.first(c.left), 5_000_000)
			t.Log(f)
			if f.Violation != "" || f.Truncated {
				t.Errorf("%s", strings.Join(f.Trace, "\n"))
			}
		})
	}
}

// TestStayMoves: what a stay does next.
func TestStayMoves(t *testing.T) {
	granted := Stay{}.Asks().Stands(1, true)
	held, move := granted.Next(true)
	if move != StayGrants || held.Turn() != 0 || !held.Held() {
		t.Fatalf("a contender waits for a node that was granted: %v, want the first turn", move)
	}
	arming, move := held.Parts().Next(true)
	if move != StayArms {
		t.Fatalf("a node was released: %v, want it armed", move)
	}
	idle := arming.Hears(Armed{Epoch: 1}, 2)
	stranger := Armed{Epoch: 1, Others: true}
	three := idle.Asks().Asks().Asks()
	for name, c := range map[string]struct {
		stay   Stay
		proven bool
		want   StayMove
		excess int
	}{
		"idle":                               {idle, true, StayWaits, 0},
		"idle and wanted":                    {idle.Wants(2), true, StayGoes, 0},
		"idle and another in the directory":  {arming.Hears(stranger, 2), true, StayGoes, 0},
		"idle and the directory changed":     {idle.Hears(Changed{1}, 2), true, StayArms, 0},
		"changed in another epoch":           {idle.Hears(Changed{2}, 2), true, StayWaits, 0},
		"idle behind a reconnect":            {idle.Hears(Suspended{}, 2).Hears(Reconnected{}, 2), true, StayGoes, 0},
		"armed and missing":                  {arming.Hears(Refused{Op: OpArm, Missing: true}, 2).Asks(), true, StayGoes, 1},
		"waited for":                         {three, true, StayGrants, 0},
		"waited for and unproven":            {three, false, StayClaims, 0},
		"waited for and wanted":              {three.Wants(2), true, StayGrants, 1},
		"waited for, wanted and strict":      {three.Wants(0), true, StayGoes, 3},
		"waited for, wanted for long enough": {three.Wants(2).TimeIsUp(), true, StayGoes, 3},
		"spent":                              {three.Spends(), true, StayGoes, 3},
		"lost":                               {three.Ends(), true, StayWaits, 3},
		"a transaction under way":            {three.Transacts(1), true, StayWaits, 0},
		"and answered":                       {three.Transacts(1).Transacts(-1), true, StayGrants, 0},
		"held":                               {held.Asks(), true, StayWaits, 0},
		"held twice":                         {held.Asks().Joins().Parts(), true, StayWaits, 0},
		"not granted and not wanted":         {Stay{}.Asks().Leaves(), true, StayGoes, 0},
		"granted and not worth it":           {stayOf(Stay{}.Asks().Stands(1, false).Next(true)).Parts(), true, StayGoes, 0},
	} {
		stay, move := c.stay.Next(c.proven)
		if excess := c.stay.Excess(); move != c.want || excess != c.excess && stay.Excess() != c.excess {
			t.Errorf("%s: %v with %d waiters too many, want %v with %d", name, move, excess, c.want, c.excess)
		}
	}
	if _, rests := idle.Rests(); !rests {
		t.Error("an idle node does not rest")
	}
	if _, rests := held.Rests(); rests {
		t.Error("a node that is held rests")
	}
}

func stayOf(s Stay, _ StayMove) Stay { return s }

// TestHabit: a node is kept from the second in succession on. If another contender comes soon each time, more and more nodes are
// let go.
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
		if got := next(c.step); got != c.want {
			t.Errorf("node %d is %d behind the one before: worth %v, want %v", i, c.step, got, c.want)
		}
	}
	soon := Stay{turns: 1}.with(stayWatched).Wants(1)
	skipped := func() (n int) {
		for !next(1) {
			n++
		}
		return n
	}
	for _, want := range []int{1, 3, 7, 15, 31, 63, 63} {
		h = h.Ended(soon)
		if got := skipped(); got != want {
			t.Errorf("another contender came soon: %d nodes let go, want %d", got, want)
		}
	}
	h = h.Ended(Stay{turns: 100}.with(stayWatched).Wants(1))
	h = h.Ended(soon)
	if got := skipped(); got != 1 {
		t.Errorf("behind a stay that has paid, %d nodes let go, want 1", got)
	}
}
