package recipes

import (
	"fmt"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// TestWhatEndsTheClaimToANode has each input that a contender may hear of its node.
func TestWhatEndsTheClaimToANode(t *testing.T) {
	own := Own{Name: events.Name{Text: "lock"}, Owner: 7, Token: 5}
	for _, c := range []struct {
		in   Input
		ends bool
	}{
		{Created{}, false}, {Unknown{Op: OpCreate}, false}, {Unknown{Op: OpDelete}, false}, {Occupied{}, true},
		{Refused{Op: OpCreate}, true}, {Refused{Op: OpCreate, Missing: true}, true},
		{Listed{Own: own}, false}, {Listed{}, true}, {Refused{Op: OpList}, false},
		{Claimed{}, false}, {Refused{Op: OpClaim}, false}, {Refused{Op: OpClaim, Missing: true}, true},
		{Deleted{}, true}, {Refused{Op: OpDelete}, true}, {Gone{}, true}, {Canceled{}, false},
	} {
		book, _ := OwnerBook[byte]{}.Enter('a')
		if got := book.Heard('a', c.in, 5).Owner() == 0; got != c.ends {
			t.Errorf("%+v ends the claim: %v, want %v", c.in, got, c.ends)
		}
		if got := book.Heard('b', c.in, 5); got != book {
			t.Errorf("%+v, heard by another contender, makes of %v %v", c.in, book, got)
		}
	}
}

// TestOneOwnerAtAPath goes through all histories of two contenders of a session at one path. In each the owner is the first to
// enter since the last owner left.
func TestOneOwnerAtAPath(t *testing.T) {
	var visit func(b OwnerBook[byte], history string, owner byte, past int64)
	visit = func(b OwnerBook[byte], history string, owner byte, past int64) {
		for _, who := range []byte("ab") {
			for _, czxid := range []int64{5, 6} {
				if got, want := b.Owns(who, czxid), who == owner && czxid != past; got != want || b.Owner() != owner {
					t.Fatalf("after%s node %d is %c's: %v, want %v; the owner is %q", history, czxid, who, got, want, b.Owner())
				}
			}
		}
		if len(history) > 15 {
			return
		}
		for _, who := range []byte("ab") {
			next, entered := b.Enter(who)
			if free := owner == 0 || owner == who; entered != free || !free && next != b {
				t.Fatalf("after%s %c enters: %v, want %v", history, who, entered, free)
			}
			before, left, stuck := owner, byte(0), past
			if owner == 0 {
				before = who
			}
			if owner != who {
				left = owner
			} else {
				stuck = 5
			}
			visit(next, history+fmt.Sprintf(" e%c", who), before, past)
			visit(b.Leave(who), history+fmt.Sprintf(" l%c", who), left, past)
			visit(b.Heard(who, Deleted{}, 5), history+fmt.Sprintf(" d%c", who), left, past)
			visit(b.Heard(who, Refused{Op: OpDelete}, 5), history+fmt.Sprintf(" r%c", who), left, stuck)
		}
	}
	visit(OwnerBook[byte]{}, "", 0, 0)
}
