package histories

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// tally counts operations.
type tally struct {
	grants, readers, downgrades, reads, holds, accepted, refused, losses, releases int

	multi, turns, asked, revoked, gone int
}

func (n *tally) count(ops []operation) {
	for _, op := range ops {
		switch op.Kind {
		case kindAcquire:
			n.grants++
			if op.Shares {
				n.readers++
			}
			if op.Writer != 0 {
				n.downgrades++
			}
			if op.With > 0 {
				n.multi++
			}
			if op.Turn > 0 {
				n.turns++
			}
		case kindRead:
			n.reads++
		case kindHold:
			n.holds++
		case kindWrite, kindTxn:
			if op.Accepted {
				n.accepted++
			} else {
				n.refused++
			}
		case kindLose:
			n.losses++
			if op.Revoked {
				n.revoked++
			}
		case kindAsk:
			n.asked++
		case kindGone:
			n.gone++
		case kindRelease:
			n.releases++
		}
	}
}

// want fails the test if something did not occur: then the history proves nothing about it.
func (n *tally) want(t *testing.T) {
	t.Helper()
	var none []string
	for what, count := range map[string]int{
		"grants": n.grants, "moments of holding": n.holds, "writes accepted": n.accepted, "writes refused": n.refused,
		"losses": n.losses, "releases": n.releases, "grants to readers": n.readers, "downgrades": n.downgrades, "reads": n.reads,
		"grants of several locks": n.multi, "turns of a cached lock": n.turns,
	} {
		if count == 0 {
			none = append(none, what)
		}
	}
	if n.asked > 0 && n.revoked*n.gone == 0 {
		none = append(none, "losses to a Revoke, or holders gone when Revoke returned")
	}
	if len(none) > 0 {
		slices.Sort(none)
		t.Errorf("no %s in the whole history", strings.Join(none, ", "))
	}
}

func (n *tally) String() string {
	text := fmt.Sprintf("%d grants, %d losses, %d releases and withdrawals, %d times valid, %d writes accepted, %d refused",
		n.grants, n.losses, n.releases, n.holds, n.accepted, n.refused)
	if n.readers > 0 {
		text += fmt.Sprintf("; %d of the grants to readers, %d in a writer's place; %d reads", n.readers, n.downgrades, n.reads)
	}
	if n.multi > 0 {
		text += fmt.Sprintf("; %d grants at members of multi-locks", n.multi)
	}
	if n.turns > 0 {
		text += fmt.Sprintf("; %d turns of a cached lock", n.turns)
	}
	if n.asked > 0 {
		text += fmt.Sprintf("; Revoke called %d times, %d losses for it, %d gone when it returned", n.asked, n.revoked, n.gone)
	}
	return text
}
