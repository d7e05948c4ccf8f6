package histories

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// kind is the kind of an operation.
type kind uint8

const (
	kindAcquire kind = iota + 1 // a Grant was read
	kindHold                    // Valid returned true
	kindWrite                   // a read or a write showed the token to a resource that compares tokens
	kindTxn                     // a transaction of the acquisition was sent to the servers
	kindLose                    // a Lost was read
	kindRelease                 // Release was called, or the wait ended
	kindRead                    // the resource's value was read
	kindAsk                     // Revoke was called; no worker's operation
	kindGone                    // a Revoke that began while this acquisition held returned nil
)

func (k kind) String() string {
	return [...]string{
		"none", "Grant", "valid", "write", "Txn", "loss", "release", "read", "Revoke", "gone after Revoke",
	}[k]
}

// operation is what a worker did, from the call to the answer.
type operation struct {
	Path   string
	Kind   kind
	Worker int   // from 0, below maxWorkers
	Round  int32 // number of the worker's acquisition, from 1

	Permits int   // of a semaphore
	Shares  bool  // acquired for reading
	Writer  int64 // for a reader in a writer's place, the writer's token
	Value   int64 // what was read

	From    int32 // for a reader in a writer's place, the round of the worker's write lock
	With    int   // the number of other members of the multi-lock
	Revoked bool  // of a loss: the grace of a Revoke ran out

	fence         // of the Grant
	Accepted bool // of a write and a transaction

	Call, Return int64
}

func (op operation) String() string {
	return fmt.Sprintf("%v of %d/%d at %v, value %#x (accepted %t, shares %t, with %d more, revoked %t), %d to %d",
		op.Kind, op.Worker, op.Round, op.fence, op.Value, op.Accepted, op.Shares, op.With, op.Revoked,
		op.Call, op.Return)
}

// fence grows from Grant to Grant. Holders of a cached lock that share a node have the
// same token, and different turns.
type fence struct {
	Token int64
	Turn  uint64 // 0 unless the lock is cached
}

func (f fence) after(other fence) bool {
	return f.Token > other.Token || f.Token == other.Token && f.Turn > other.Turn
}

func (f fence) or(other fence) fence {
	if other.after(f) {
		return other
	}
	return f
}

// maxWorkers is the most workers that a history may have.
const maxWorkers = 16

// The sides of a lock. A mutex and a semaphore have only one.
const (
	toWrite = iota
	toRead
	sides
)

func (op operation) side() int {
	if op.Shares {
		return toRead
	}
	return toWrite
}

// rounds has the rounds of the workers' acquisitions; 0 means none.
type rounds [maxWorkers]int32

// state is the model of one lock of any kind, and of the resource that it protects. It is
// comparable, because the search often compares states.
//
// Holders show their fences to the resource. It refuses a writer with a smaller fence
// than it has seen, but never a reader. A reader that took a writer's place shows the
// writer's token: a token of its own would be greater than that of a writer waiting
// behind it. So what a reader has read does not change while it holds.
type state struct {
	kind    lockKind
	held    [sides]rounds // the rounds in which the workers hold
	over    [sides]rounds // the last rounds that are over
	permits [maxWorkers]int
	wrote   fence // of the newest writer, or holder
	read    fence // the greatest fence of a reader
	seen    fence // the greatest fence that the resource has seen
	value   int64 // the resource's value: the token of the last writer
	granted rounds
	asked   rounds // granted at the latest Revoke
}

// admits reports whether a Grant is in order: no holder excludes it, and its fence is
// new.
func (m state) admits(op operation) bool {
	free, none := m.held == [sides]rounds{}, rounds{}
	switch {
	case m.kind == semaphore: // a holder is younger than all earlier ones, whether or not they still hold
		taken := op.Permits
		for _, n := range m.permits {
			taken += n
		}
		return m.held[toWrite][op.Worker] == 0 && op.fence.after(m.wrote) && taken <= mostPermits
	case m.kind != readWrite: // the model does not know which contender is next
		return free && op.fence.after(m.wrote)
	case op.Shares && op.Writer != 0: // the writer may still hold, and no other has written after it
		others := m.held[toWrite]
		others[op.Worker] = 0
		return m.wrote.Token == op.Writer && op.Token == op.Writer && others == none
	case op.Shares:
		return m.held[toWrite] == none && op.fence.after(m.wrote)
	default:
		return free && op.fence.after(m.wrote.or(m.read))
	}
}

// step returns the state after the operation, and whether the lock can have given this
// answer.
func (m state) step(op operation) (state, bool) {
	side := op.side()
	holds, fresh := m.held[side][op.Worker] == op.Round, op.Round > m.over[side][op.Worker]
	switch op.Kind {
	case kindAsk:
		m.asked = m.granted
		return m, true
	case kindAcquire:
		legal := fresh && m.admits(op)
		m.granted[op.Worker] = max(m.granted[op.Worker], op.Round)
		m.held[side][op.Worker], m.permits[op.Worker] = op.Round, op.Permits
		if op.Shares {
			m.read = m.read.or(op.fence)
		} else {
			m.wrote = op.fence
		}
		return m, legal
	case kindHold:
		return m, holds
	case kindGone:
		return m, !holds
	case kindLose: // a Revoke before the Grant does not justify a loss
		untold := op.Revoked && m.asked[op.Worker] < op.Round && (op.From == 0 || m.asked[op.Worker] < op.From)
		return m.free(op), holds && !untold
	case kindRelease: // or a withdrawal
		return m.free(op), fresh || holds && m.kind == semaphore
	default:
		return m.use(op)
	}
}

// use is step for an operation on the resource. A semaphore has no resource: several
// holders could not write it.
func (m state) use(op operation) (state, bool) {
	switch {
	case m.kind == semaphore:
		return m, false
	case op.Kind == kindWrite && !op.Accepted:
		return m, m.seen.after(op.fence)
	case op.Kind == kindWrite:
		legal := !m.seen.after(op.fence)
		m.seen, m.value = op.fence, op.Token
		return m, legal
	case op.Kind == kindRead && m.kind == readWrite: // other locks have no readers
		m.seen = m.seen.or(op.fence)
		return m, op.Value == m.value
	case op.Kind == kindTxn && m.kind != readWrite:
		// The node may stay for a while after its owner was notified of a loss, but not
		// beside a newer Grant.
		return m, !op.Accepted || op.fence == m.wrote
	default:
		return m, false
	}
}

func (m state) free(op operation) state {
	side := op.side()
	if m.held[side][op.Worker] == op.Round {
		m.held[side][op.Worker], m.permits[op.Worker] = 0, 0
	}
	m.over[side][op.Worker] = op.Round
	return m
}

// model returns the model for the search. Each path has its own history, and determines
// the kind of lock.
func model() porcupine.Model {
	return porcupine.Model{
		Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
			places := map[string]int{}
			for _, op := range all {
				path := op.Input.(operation).Path
				if _, ok := places[path]; !ok {
					places[path], parts = len(parts), append(parts, nil)
				}
				parts[places[path]] = append(parts[places[path]], op)
			}
			return parts
		},
		Init: func() any { return state{} },
		Step: func(before, input, _ any) (bool, any) {
			now, op := before.(state), input.(operation)
			now.kind = kindAt(op.Path)
			next, legal := now.step(op)
			return legal, next
		},
	}
}

// searchMax bounds the search for a legal order, which takes seconds for the longest
// histories here. It is less than half of go test's own limit of ten minutes, so an
// undecided search is reported.
const searchMax = 4 * time.Minute

// check fails the test unless there is an order in which the model can have given these
// answers. It returns the verdict.
func check(t *testing.T, name string, ops []operation, notes []note) (verdict string) {
	t.Helper()
	history := make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		history[i] = porcupine.Operation{ClientId: op.Worker, Input: op, Call: op.Call, Return: op.Return}
	}
	result, info := porcupine.CheckOperationsVerbose(model(), history, searchMax)
	switch result {
	case porcupine.Ok:
		return "legal"
	case porcupine.Unknown:
		t.Errorf("%s: %d operations were too much to decide about in %v", name, len(ops), searchMax)
		return "undecided"
	default:
		t.Errorf("%s: %d operations, and no lock can have answered them so%s",
			name, len(ops), impasse(ops, notes, info))
		return "illegal"
	}
}

// impasse reports, for each illegal history of a lock, how far an order was found: its
// last operations, the first operations that do not fit, and the preceding faults.
func impasse(ops []operation, notes []note, info porcupine.LinearizationInfo) string {
	const shown = 8
	var text strings.Builder
	for _, orders := range info.PartialLinearizationsOperations() {
		longest := slices.MaxFunc(append(orders, nil), func(a, b []porcupine.Operation) int { return cmp.Compare(len(a), len(b)) })
		in := map[operation]bool{}
		for _, op := range longest {
			in[op.Input.(operation)] = true
		}
		left := slices.DeleteFunc(slices.Clone(ops), func(op operation) bool {
			return in[op] || len(longest) > 0 && op.Path != longest[0].Input.(operation).Path
		})
		if len(left) == 0 {
			continue
		}
		slices.SortFunc(left, func(a, b operation) int { return cmp.Compare(a.Return, b.Return) })
		fmt.Fprintf(&text, "\n%s goes well until", left[0].Path)
		for _, op := range longest[max(0, len(longest)-shown):] {
			fmt.Fprintf(&text, "\n\t%v", op.Input)
		}
		fmt.Fprintf(&text, "\nbut then comes")
		for _, op := range left[:min(shown, len(left))] {
			fmt.Fprintf(&text, "\n\t%v", op)
		}
		before := slices.DeleteFunc(slices.Clone(notes), func(n note) bool { return n.at > left[0].Return })
		fmt.Fprintf(&text, "\nafter %v", before[max(0, len(before)-2*shown):])
	}
	return text.String()
}
