package histories

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// crashKind is what an operation on a lock with DetectCrash is about.
type crashKind uint8

const (
	crashGranted  crashKind = iota + 1 // a Grant was read
	crashReleased                      // its holder has released, and the servers have executed it
	crashUnheard                       // its holder has released, and it is unknown whether the servers have executed it
	crashCrashed                       // its holder has ended in another way
	crashUnseen                        // a claim without a Grant that was read, or an end that the servers may not have heard of
)

// crashOperation is what a worker did with a lock that reports crashes, from the call to the answer. An end takes effect when
// the node goes. That is before the next Grant, at an unknown time, so its answer has no certain time.
type crashOperation struct {
	Path   string
	Kind   crashKind
	Worker int
	Who    string // what it stores in its node; unique among the acquisitions
	Shares bool   // it reads

	Holder holding // its node
	Told   holding // of a Grant: the crashed holder that it names

	Call, Return int64
}

// never is the time of an answer that is never read.
const never = int64(1) << 62

// holding is the node of a holder; the zero value is no node. No two nodes have the same token.
type holding struct {
	Token int64
	Node  string // the last component of its path
	Who   string
}

func (h holding) String() string {
	if h == (holding{}) {
		return "none"
	}
	return fmt.Sprintf("%s (%#x)", h.Who, h.Token)
}

// crashTeller is the model of one lock that reports crashes: its holder, and the first holder that left without a release
// since there was one. It is an order of claims and of nodes that go. It is comparable.
//
// The read/write lock's own model checks which readers hold. Here readers come while there is no writer, are told, and change
// nothing.
type crashTeller struct {
	holder  holding
	left    holding // the first that crashed since the last release
	granted int64   // the token of the newest holder
}

// steps returns the states that the lock may have after the operation; none if it cannot have answered so. There are two if it
// is unknown what the servers have executed.
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

func (op crashOperation) place() place { return place{op.Path, op.Worker, op.Call, op.Return} }

// model is the model in the terms of the search.
func (crashOperation) model() porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Partition: partition[crashOperation],
		Init:      func() []any { return []any{crashTeller{}} },
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
