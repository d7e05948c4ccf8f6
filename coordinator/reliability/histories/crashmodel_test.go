package histories_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// crashKind is what an operation on a lock that tells of crashes is about.
type crashKind uint8

const (
	crashGranted  crashKind = iota + 1 // a Grant was read
	crashReleased                      // its holder has released, and the servers have heard of it
	crashUnheard                       // its holder has released, and nobody knows whether they have
	crashCrashed                       // its holder has ended in another way
	crashUnseen                        // a claim of somebody who may never have heard that he held, nor the servers that he gave up
)

// crashOperation is what a worker did with a lock that tells of crashes, from the call to the answer. An end takes effect
// when the node goes. When that is nobody knows, but that it is before the next Grant; so its answer comes at no certain time.
type crashOperation struct {
	Path   string
	Kind   crashKind
	Worker int
	Who    string // what it stores in its node, which no other acquisition does
	Shares bool   // it reads

	Holder holding // its own node
	Told   holding // of a Grant: who has crashed

	Call, Return int64
}

// never is when something is answered whose answer nobody reads.
const never = int64(1) << 62

// holding is the node of a holder; the zero value is nobody's. No node has the token of another.
type holding struct {
	Token int64
	Node  string // the last component of its path
	Who   string
}

func (h holding) String() string {
	if h == (holding{}) {
		return "nobody"
	}
	return fmt.Sprintf("%s (%#x)", h.Who, h.Token)
}

// crashTeller is the model of one lock that tells of crashes: who holds it, and who has left without a release since there was
// one. It is an order of claims and of nodes that go. It is comparable.
//
// The read/write lock's model sees to readers who hold. Here they come while nobody writes, are told, and change nothing.
type crashTeller struct {
	holder  holding
	left    holding // the first who crashed since the last release
	granted int64   // the token of the newest holder
}

// steps returns the states in which the lock may be after the operation, none if it cannot have answered so. There are two
// where nobody knows what the servers have heard.
func (m crashTeller) steps(op crashOperation) []crashTeller {
	free, released := m, m
	free.holder = holding{}
	released.holder, released.left = holding{}, holding{}
	if m.left == (holding{}) {
		free.left = m.holder
	}
	ends := m.holder == op.Holder && m.holder != (holding{})
	switch op.Kind {
	case crashGranted:
		if m.holder != (holding{}) || op.Holder.Token <= m.granted || op.Told != m.left {
			return nil
		}
		if !op.Shares {
			m.holder, m.granted = op.Holder, op.Holder.Token
		}
		return []crashTeller{m}
	case crashReleased:
		if ends {
			return []crashTeller{released}
		}
	case crashCrashed:
		if ends {
			return []crashTeller{free}
		}
	case crashUnheard:
		switch {
		case ends && free == released:
			return []crashTeller{free}
		case ends:
			return []crashTeller{released, free}
		}
	case crashUnseen: // it held and crashed at once, or it did not hold at all
		if m.holder == (holding{}) && m.left == (holding{}) && op.Holder.Token > m.granted {
			return []crashTeller{m, {left: op.Holder, granted: op.Holder.Token}}
		}
		return []crashTeller{m}
	}
	return nil
}

func (m crashTeller) String() string {
	return fmt.Sprintf("held by %v, granted %#x, left by %v", m.holder, m.granted, m.left)
}

func (op crashOperation) String() string {
	who := op.Who
	if op.Shares {
		who += ", a reader,"
	}
	switch op.Kind {
	case crashGranted:
		return fmt.Sprintf("%s granted %#x, told of %v", who, op.Holder.Token, op.Told)
	case crashReleased:
		return who + " released"
	case crashUnheard:
		return who + " released, perhaps unheard"
	case crashCrashed:
		return who + " crashed"
	case crashUnseen:
		return fmt.Sprintf("%s may have held %#x", who, op.Holder.Token)
	default:
		return "?"
	}
}

// crashModel is the model in the terms of the search.
func crashModel() porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
			byPath := map[string][]porcupine.Operation{}
			for _, op := range all {
				path := op.Input.(crashOperation).Path
				byPath[path] = append(byPath[path], op)
			}
			for _, part := range byPath {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() []any { return []any{crashTeller{}} },
		Step: func(before, input, _ any) (after []any) {
			for _, m := range before.(crashTeller).steps(input.(crashOperation)) {
				after = append(after, m)
			}
			return after
		},
		DescribeOperation: func(input, _ any) string { return input.(crashOperation).String() },
		DescribeState:     func(state any) string { return fmt.Sprint(state) },
	}
	return nondeterministic.ToModel()
}

// searchCrashes looks for an order in which the model can have answered.
func searchCrashes(ops []crashOperation) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	history := make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		history[i] = porcupine.Operation{ClientId: op.Worker, Input: op, Call: op.Call, Return: op.Return}
	}
	return porcupine.CheckOperationsVerbose(crashModel(), history, searchMax)
}

// checkCrashes fails the test if the history is not legal, and says how far an order was found.
func checkCrashes(t *testing.T, name string, ops []crashOperation, notes []note) (verdict string) {
	t.Helper()
	result, info := searchCrashes(ops)
	switch result {
	case porcupine.Ok:
		return "legal"
	case porcupine.Unknown:
		t.Errorf("%s: %d operations were too much to decide about in %v", name, len(ops), searchMax)
		return "undecided"
	default:
		t.Errorf("%s: %d operations, and no lock that tells of crashes can have answered them so; %s%s",
			name, len(ops), drawCrashes(info, os.TempDir()), crashImpasse(ops, notes, info))
		return "illegal"
	}
}

// crashImpasse says where the longest order of a lock ends, what cannot follow, and what was done to the workers before that.
func crashImpasse(ops []crashOperation, notes []note, info porcupine.LinearizationInfo) string {
	const shown = 8
	var text strings.Builder
	for _, orders := range info.PartialLinearizationsOperations() {
		longest := slices.MaxFunc(append(orders, nil), func(a, b []porcupine.Operation) int { return cmp.Compare(len(a), len(b)) })
		in := map[crashOperation]bool{}
		var path, end string
		for i, op := range longest {
			o := op.Input.(crashOperation)
			in[o], path = true, o.Path
			if i >= len(longest)-shown {
				end += fmt.Sprintf("\n\t%d to %d: %v", o.Call, o.Return, o)
			}
		}
		left := slices.DeleteFunc(slices.Clone(ops), func(op crashOperation) bool { return op.Path != path || in[op] })
		if len(left) == 0 {
			continue
		}
		slices.SortFunc(left, func(a, b crashOperation) int { return cmp.Compare(a.Return, b.Return) })
		fmt.Fprintf(&text, "\n%s goes well until%s\nbut then comes", path, end)
		for _, op := range left[:min(shown, len(left))] {
			fmt.Fprintf(&text, "\n\t%d to %d: %v", op.Call, op.Return, op)
		}
		before := slices.DeleteFunc(slices.Clone(notes), func(n note) bool { return n.count > left[0].Return })
		text.WriteString("\nafter")
		for _, n := range before[max(0, len(before)-shown):] {
			fmt.Fprintf(&text, "\n\t%d: %s", n.count, n.text)
		}
	}
	return text.String()
}

// drawCrashes writes the picture of a history into a folder and says where it is.
func drawCrashes(info porcupine.LinearizationInfo, folder string) string {
	file, err := os.CreateTemp(folder, "zkgrant-crashes-*.html")
	if err != nil {
		return fmt.Sprintf("no drawing: %v", err)
	}
	err = porcupine.Visualize(crashModel(), info, file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Sprintf("no drawing: %v", err)
	}
	return "see " + file.Name()
}
