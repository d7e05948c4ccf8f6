package recipes

import (
	"fmt"
	"testing"
)

// A tenancy is what the history of a tenure comes to, by its promises.
type tenancy struct {
	asks                     uint8 // the latest request that may end in a grant, unless it is outdated
	holds, unwatched, traded bool
}

// TestTenureInEveryOrder goes through all histories of a contender: its requests, of which the n-th is n, and what the session
// learns of it.
func TestTenureInEveryOrder(t *testing.T) {
	var visit func(now Tenure[uint8], want tenancy, requests uint8, history string)
	visit = func(now Tenure[uint8], want tenancy, requests uint8, history string) {
		got := tenancy{now.asks, now.Holds(), now.LacksWatch(), !now.Floor()}
		if got != want || now.Awaits(0) || want.asks != 0 && !now.Awaits(want.asks) {
			t.Fatalf("after%s: %+v, want %+v", history, got, want)
		}
		if len(history) > 40 {
			return
		}
		ask := func(op Op, want tenancy, held bool) {
			visit(now.Asked(op, requests+1, held), want, requests+1, fmt.Sprintf("%s %-9v", history, op))
		}
		learn := func(what string, next Tenure[uint8], want tenancy) {
			visit(next, want, requests, fmt.Sprintf("%s %-9s", history, what))
		}
		out := tenancy{traded: want.traded}
		if requests < 2 {
			ask(OpCreate, tenancy{asks: requests + 1, traded: want.traded}, false)
			for _, op := range []Op{OpClaim, OpAdvance, OpEnter} {
				then := want
				then.asks = requests + 1
				ask(op, then, false)
			}
			ask(OpClaim, want, true)
			ask(OpDelete, out, false)
			then := want
			then.asks = 0
			ask(OpSurvey, then, false)
			ask(OpList, want, false)
		}
		for r := uint8(1); r <= requests; r++ {
			then := want
			if then.asks == r {
				then.asks, then.holds = 0, true
			}
			next, fresh := now.Proven(r, true)
			if fresh != then.holds {
				t.Fatalf("after%s, the proof of %d is fresh: %v, want %v", history, r, fresh, then.holds)
			}
			learn(fmt.Sprint("proof ", r), next, then)
			if next, fresh := now.Proven(r, false); fresh || next != now {
				t.Fatalf("after%s, the proof of %d behind the lease: %v, fresh %v", history, r, next, fresh)
			}
			then = want
			then.unwatched = then.unwatched || then.holds || then.asks == r
			learn(fmt.Sprint("unwatched ", r), now.Unwatched(r), then)
		}
		watched, ceased, traded := want, want, want
		watched.unwatched, ceased.holds, traded.traded = false, false, want.traded || want.holds
		next, trades := now.Trades()
		if trades != want.holds {
			t.Fatalf("after%s its place is traded: %v, want %v", history, trades, want.holds)
		}
		learn("watched", now.Watched(), watched)
		learn("ceased", now.Ceased(), ceased)
		learn("traded", next, traded)
		learn("gave up", now.GaveUp(), out)
	}
	visit(Tenure[uint8]{}, tenancy{}, 0, "")
}
