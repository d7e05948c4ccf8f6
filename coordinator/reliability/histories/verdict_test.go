package histories_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// searchMax is how long the search for a legal order may take. It takes seconds for the longest histories here.
const searchMax = 2 * time.Minute

// search looks for an order in which the model can have answered.
func search(ops []operation) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	history := make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		history[i] = porcupine.Operation{ClientId: op.Worker, Input: op, Call: op.Call, Return: op.Return}
	}
	return porcupine.CheckOperationsVerbose(model(), history, searchMax)
}

// checkHistory fails the test if the history is not legal, and keeps a drawing of it then.
func checkHistory(t *testing.T, name string, h *history) (verdict string) {
	t.Helper()
	ops := h.operations()
	result, info := search(ops)
	switch result {
	case porcupine.Ok:
		return "legal"
	case porcupine.Unknown:
		t.Errorf("%s: %d operations were too much to decide about in %v", name, len(ops), searchMax)
		return "undecided"
	default:
		// The drawing is looked at when the test is over, so it is not put where the test cleans up.
		t.Errorf("%s: %d operations, and no fenced mutex can have answered them so; %s%s",
			name, len(ops), draw(info, os.TempDir()), impasse(ops, h.notes, info))
		return "illegal"
	}
}

// impasse says for each lock whose history is illegal how far an order was found: its last operations, and the first
// of those that nothing can be made of.
func impasse(ops []operation, notes []note, info porcupine.LinearizationInfo) string {
	const shown = 6
	var text strings.Builder
	for _, orders := range info.PartialLinearizationsOperations() {
		longest := map[operation]bool{}
		var path, end string
		for _, order := range orders {
			if len(order) <= len(longest) {
				continue
			}
			clear(longest)
			end = ""
			for i, op := range order {
				in := op.Input.(operation)
				longest[in], path = true, in.Path
				if i >= len(order)-shown {
					end += fmt.Sprintf("\n\t%d to %d: %v", in.Call, in.Return, in)
				}
			}
		}
		left := slices.DeleteFunc(slices.Clone(ops), func(op operation) bool { return op.Path != path || longest[op] })
		if len(left) == 0 {
			continue
		}
		slices.SortFunc(left, func(a, b operation) int { return cmp.Compare(a.Return, b.Return) })
		fmt.Fprintf(&text, "\n%s goes well until%s\nbut then comes", path, end)
		for _, op := range left[:min(shown, len(left))] {
			fmt.Fprintf(&text, "\n\t%d to %d: %v", op.Call, op.Return, op)
		}
		before := slices.DeleteFunc(slices.Clone(notes), func(n note) bool { return n.count > left[0].Return })
		text.WriteString("\nafter")
		for _, n := range before[max(0, len(before)-2*shown):] {
			fmt.Fprintf(&text, "\n\t%d: %s", n.count, n.text)
		}
	}
	return text.String()
}

// draw writes the picture of a history into a folder and says where it is.
func draw(info porcupine.LinearizationInfo, folder string) string {
	file, err := os.CreateTemp(folder, "zkgrant-history-*.html")
	if err != nil {
		return fmt.Sprintf("no drawing: %v", err)
	}
	err = porcupine.Visualize(model(), info, file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Sprintf("no drawing: %v", err)
	}
	return "see " + file.Name()
}

// tally counts operations.
type tally struct {
	grants, readers, downgrades, reads, holds, accepted, refused, losses, releases int

	multi, upgradable, upgrades, asked, revoked, gone int
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
			if op.Upgrades {
				n.upgradable++
			}
			if op.From != 0 && !op.Shares {
				n.upgrades++
			}
		case kindRead:
			n.reads++
		case kindHold:
			n.holds++
		case kindWrite, kindGuard:
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

// want fails the test if there were none of something: then the history says nothing about it.
func (n *tally) want(t *testing.T) {
	t.Helper()
	var none []string
	for what, count := range map[string]int{
		"grants": n.grants, "moments of holding": n.holds, "writes accepted": n.accepted, "writes refused": n.refused,
		"losses": n.losses, "releases": n.releases, "grants to readers": n.readers, "downgrades": n.downgrades, "reads": n.reads,
		"grants of several locks": n.multi, "upgradable readers": n.upgradable, "upgrades": n.upgrades,
	} {
		if count == 0 {
			none = append(none, what)
		}
	}
	if n.asked > 0 && n.revoked*n.gone == 0 {
		none = append(none, "losses to those who asked, or holders gone when Revoke returned")
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
		text += fmt.Sprintf("; %d of the grants to readers, %d in a writer's place, who read %d times", n.readers, n.downgrades, n.reads)
	}
	if n.multi > 0 {
		text += fmt.Sprintf("; %d grants at members of multi-locks, %d upgradable, %d upgrades", n.multi, n.upgradable, n.upgrades)
	}
	if n.asked > 0 {
		text += fmt.Sprintf("; Revoke called %d times, %d losses for it, %d gone when it returned", n.asked, n.revoked, n.gone)
	}
	return text
}
