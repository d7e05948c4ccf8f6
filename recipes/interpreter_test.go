package recipes

import "github.com/zkgrant/zkgrant/events"

// A stepFunc is [after], or a modified version of it.
type stepFunc func(Machine, Input) (Machine, []Effect)

// The flags of a client, like those of Started. With keep, its function continues after a
// loss.
const (
	flagTry uint8 = 1 << iota
	flagKeep
	flagStrict
	flagDetect
)

const (
	noNode    = 0xff
	tokenBase = 100 // the token of node 0
)

// An interpreter runs machines by number. It interns each machine, and computes each of
// its steps once. So a world is small, and its successors are found quickly. A node's
// number is its index in the order of creation.
type interpreter struct {
	step     stepFunc
	first    int64 // the sequence number of node 0
	machines []Machine
	traits   []traits // of the machines
	index    map[Machine]uint32
	memo     map[move]result
	nodes    map[string]uint8              // by name
	names    [maxNodes][1 << 8]events.Name // by form
}

// traits are what a world needs to know about a machine.
type traits struct {
	state State
	epoch uint8
	own   uint8 // the index of its node, or noNode
	older uint8 // the contenders ahead that it remembers
	reads bool
	kazoo bool
}

// A move is a machine and the key of its input.
type move struct {
	machine uint32
	in      any
}

type result struct {
	next    uint32
	effects []Effect
}

// newInterpreter returns an interpreter that numbers the nodes from first on.
func newInterpreter(step stepFunc, first int64) *interpreter {
	it := &interpreter{
		step: step, first: first, index: map[Machine]uint32{}, memo: map[move]result{}, nodes: map[string]uint8{},
	}
	over := NewMachine(Mutex{})
	over.state, over.finished = Over, true
	it.intern(over) // machineOver
	for _, rule := range []Rule{Mutex{}, Read{}, Write{}, Mutex{Kazoo: true}, Read{Kazoo: true}, Write{Kazoo: true}} {
		it.intern(NewMachine(rule)) // machineNew and the following ones
	}
	return it
}

const (
	machineOver uint32 = iota
	machineNew
	machineReader
	machineWriter
	machineKazoo // and a reader and a writer in the same order
)

func (it *interpreter) intern(m Machine) uint32 {
	if id, ok := it.index[m]; ok {
		return id
	}
	id := uint32(len(it.machines))
	it.index[m] = id
	it.machines = append(it.machines, m)
	kind := m.rule.Kind()
	t := traits{state: m.state, epoch: uint8(m.epoch), own: it.node(m.own.Name.Text), reads: kind.Reads(), kazoo: kind.Kazoo()}
	for _, node := range m.older {
		if node != "" {
			t.older |= 1 << it.node(node)
		}
	}
	it.traits = append(it.traits, t)
	return id
}

func (it *interpreter) node(text string) uint8 {
	if id, ok := it.nodes[text]; ok {
		return id
	}
	return noNode
}

func (it *interpreter) run(machine uint32, in Input) result {
	k := move{machine, keyOf(in)}
	r, ok := it.memo[k]
	if !ok {
		next, effects := it.step(it.machines[machine], in)
		r = result{it.intern(next), effects}
		it.memo[k] = r
	}
	return r
}

// A flat represents an input that has a slice, so that it can be part of a key.
type flat struct {
	of    string
	epoch Epoch
	own   Own
	names [maxNodes]events.Name
	is    [2]bool
	n     [2]int64
}

// keyOf returns a comparable form of the input: the input itself, unless it has a slice.
func keyOf(in Input) any {
	switch in := in.(type) {
	case Listed:
		k := flat{of: "Listed", epoch: in.Epoch, own: in.Own, is: [2]bool{in.Entered, in.Parted}}
		copy(k.names[:], in.Queue)
		k.n = [2]int64{int64(in.InUse), int64(in.Size)}
		return k
	case Enqueued:
		k := flat{of: "Enqueued", epoch: in.Epoch, is: [2]bool{in.Alone, in.Fresh}, n: [2]int64{in.Token}}
		copy(k.names[:], in.Nodes)
		return k
	case Entered:
		k := flat{of: "Entered", epoch: in.Epoch, is: [2]bool{in.Fresh, in.Spare}, n: [2]int64{int64(in.InUse)<<8 | int64(in.Size), in.Token}}
		for i, permit := range in.Permits {
			k.names[i].Text = permit
		}
		return k
	default:
		return in
	}
}

func sessionID(epoch uint8) int64 { return 0x1000 + int64(epoch) }
