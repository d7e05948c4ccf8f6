package histories

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

// searchMax bounds the search for a legal order, which takes seconds for the longest histories here. It is less than half of go
// test's own limit of ten minutes, so that an undecided search is reported.
const searchMax = 4 * time.Minute

// noted is an operation of a history.
type noted interface {
	comparable
	fmt.Stringer
	place() place
	model() porcupine.Model // for histories of such operations
}

// place is where an operation belongs to: a lock, a worker, and the time from the call to the answer.
type place struct {
	path       string
	worker     int
	call, back int64
}

// partition makes a history for each lock.
func partition[O noted](all []porcupine.Operation) (parts [][]porcupine.Operation) {
	places := map[string]int{}
	for _, op := range all {
		path := op.Input.(O).place().path
		i, ok := places[path]
		if !ok {
			i = len(parts)
			places[path] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}

// search looks for an order in which the model can have answered.
func search[O noted](ops []O) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	history := make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		at := op.place()
		history[i] = porcupine.Operation{ClientId: at.worker, Input: op, Call: at.call, Return: at.back}
	}
	return porcupine.CheckOperationsVerbose((*new(O)).model(), history, searchMax)
}

// check fails the test and keeps a drawing if the history is not legal. It returns how far an order was found.
func check[O noted](t *testing.T, name string, ops []O, notes []note) (verdict string) {
	t.Helper()
	result, info := search(ops)
	switch result {
	case porcupine.Ok:
		return "legal"
	case porcupine.Unknown:
		t.Errorf("%s: %d operations were too much to decide about in %v", name, len(ops), searchMax)
		return "undecided"
	default:
		// The drawing is looked at after the test, so it is not in a folder that the test removes.
		t.Errorf("%s: %d operations, and no lock can have answered them so; %s%s",
			name, len(ops), draw[O](info, os.TempDir()), impasse(ops, notes, info))
		return "illegal"
	}
}

// impasse reports, for each illegal history of a lock, how far an order was found: its last operations, the first operations that
// do not fit, and the faults before.
func impasse[O noted](ops []O, notes []note, info porcupine.LinearizationInfo) string {
	const shown = 8
	var text strings.Builder
	for _, orders := range info.PartialLinearizationsOperations() {
		longest := slices.MaxFunc(append(orders, nil), func(a, b []porcupine.Operation) int { return cmp.Compare(len(a), len(b)) })
		in := map[O]bool{}
		var path, end string
		for i, op := range longest {
			o := op.Input.(O)
			in[o], path = true, o.place().path
			if i >= len(longest)-shown {
				end += fmt.Sprintf("\n\t%d to %d: %v", op.Call, op.Return, o)
			}
		}
		left := slices.DeleteFunc(slices.Clone(ops), func(op O) bool { return op.place().path != path || in[op] })
		if len(left) == 0 {
			continue
		}
		slices.SortFunc(left, func(a, b O) int { return cmp.Compare(a.place().back, b.place().back) })
		fmt.Fprintf(&text, "\n%s goes well until%s\nbut then comes", path, end)
		for _, op := range left[:min(shown, len(left))] {
			fmt.Fprintf(&text, "\n\t%d to %d: %v", op.place().call, op.place().back, op)
		}
		before := slices.DeleteFunc(slices.Clone(notes), func(n note) bool { return n.count > left[0].place().back })
		text.WriteString("\nafter")
		for _, n := range before[max(0, len(before)-2*shown):] {
			fmt.Fprintf(&text, "\n\t%d: %s", n.count, n.text)
		}
	}
	return text.String()
}

// draw writes the picture of a history into a folder and returns where it is.
func draw[O noted](info porcupine.LinearizationInfo, folder string) string {
	file, err := os.CreateTemp(folder, "zkgrant-history-*.html")
	if err != nil {
		return fmt.Sprintf("no drawing: %v", err)
	}
	err = porcupine.Visualize((*new(O)).model(), info, file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Sprintf("no drawing: %v", err)
	}
	return "see " + file.Name()
}
