package recipes

import (
	"strings"
	"testing"
)

// ends are the ways in which a holder of a lock with a record leaves.
var ends = []Withdrawn{
	{WhyReleased, true, false}, {WhyReleased, false, false}, {WhyPanicked, true, true}, {WhyClosed, true, true}, {WhyLost, true, false},
	{WhyLost, false, false},
}

// TestTheLastHolderLeavesForAll has three holders leave, in every way. The machine hears of the last only. Then the record goes if each
// that had taken its Grant has released, and if none had taken it, too.
func TestTheLastHolderLeavesForAll(t *testing.T) {
	held := machineAfter([]Input{opened, Started{Detect: true}, Created{1, ours, true, true, 500}, Claimed{1, true, true, nil}})
	for _, a := range ends {
		for _, b := range ends {
			for _, c := range ends {
				share := NewShare()
				for range 2 {
					share, _ = share.Enters()
				}
				var heard Withdrawn
				for i, in := range []Withdrawn{a, b, c} {
					var last bool
					if share, heard, last = share.Leaves(in); last != (i == 2) || heard.Ran != in.Ran {
						t.Fatalf("%v %v %v: holder %d is the last: %v, and of a function: %v", a, b, c, i, last, heard.Ran)
					}
				}
				clean := true
				for _, in := range []Withdrawn{a, b, c} {
					clean = clean && (!in.Taken || in.Why == WhyReleased)
				}
				want := map[bool]string{true: "delete #5 and the record", false: "delete #5"}[clean]
				_, effects := held.Step(heard)
				if got := strings.TrimSuffix(effectTexts(effects), `, END "lost"`); got != want {
					t.Errorf("%v %v %v: the machine hears %v and does %q, want %q", a, b, c, heard, got, want)
				}
			}
		}
	}
}

// TestSharesInEveryOrder: a contender enters as long as there is a holder and the lock is not lost, in every order of up to seven steps.
func TestSharesInEveryOrder(t *testing.T) {
	var visit func(s Share, holders int, lost bool, history string)
	visit = func(s Share, holders int, lost bool, history string) {
		if len(history) > 7 {
			return
		}
		next, entered := s.Enters()
		if want := holders > 0 && !lost; entered != want {
			t.Fatalf("after %q a contender enters: %v, want %v", history, entered, want)
		}
		if entered {
			visit(next, holders+1, lost, history+"+")
		}
		visit(s.Lost(), holders, true, history+"!")
		left := max(0, holders-1)
		if next, _, last := s.Leaves(Withdrawn{Why: WhyReleased}); last != (left == 0) {
			t.Fatalf("after %q a holder leaves as the last: %v, want %v", history, last, left == 0)
		} else {
			visit(next, left, lost, history+"-")
		}
	}
	visit(Share{}, 0, false, "")
	visit(NewShare(), 1, false, "1")
}
