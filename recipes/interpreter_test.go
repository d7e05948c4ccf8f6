package recipes

import (
	"math/bits"

	"github.com/zkgrant/zkgrant/events"
)

// A stepFunc is Machine.Step, or a seeded bug around it.
type stepFunc func(Machine, Input) (Machine, []Effect)

// An input is an Input in numbers, so that it can be part of a key. A node is its index in the order of creation, which is also its
// sequence number.
type input struct {
	kind  inputKind
	epoch uint8
	arg   uint8  // a node, a reason, or an Op
	mask  uint8  // Listed: the queue
	own   uint8  // Listed: index + 1 of the node found, and its owner's epoch << 4; Refused: the node
	names uint16 // the names of the nodes, a number that naming returns
	flag  uint8  // Started: flagTry, flagKeep, flagStrict; Created, Claimed, Advanced: flagFresh and the like; Refused: missing
}

type inputKind uint8

const (
	inStarted inputKind = iota + 1
	inWithdrawn
	inOpened
	inSuspended
	inReconnected
	inLeaseRanOut
	inExpired
	inGone
	inCreated
	inListed
	inClaimed
	inDeleted
	inRefused
	inUnknown
	inAdvanced
	inSurveyed
	inEntered
	inChanged
	inOccupied
	inPaused
	inAskedBack
	inOverdue
	inCanceled
	inDelayed
)

const (
	flagTry uint8 = 1 << iota
	flagKeep
	flagStrict
	flagDetect
)

const (
	flagFresh uint8 = 1 << iota
	flagAlone
	flagFloor
	flagStands

	flagEntered  = flagFresh // Listed
	flagMissing  = flagFresh // Refused
	flagStale    = flagAlone
	flagLeft     = flagAlone // Claimed
	flagRecorded = flagFloor // Claimed
	flagTaken    = flagFresh // Withdrawn
	flagRan      = flagAlone // Withdrawn
)

// An effect is an Effect in numbers.
type effect struct {
	kind  effectKind
	epoch uint8
	arg   uint8 // a node or an attempt
	flag  uint8 // List: barrier; Delete: floor; Claim: held; Grant: the node that the token belongs to
	past  uint8 // Advance: the blocker that is gone
	next  uint8 // Advance: the next one
}

type effectKind uint8

const (
	efCreate effectKind = iota + 1
	efList
	efWatch
	efClaim
	efDelete
	efDiscard
	efGrant
	efLose
	efQueue
	efRequeue
	efFinish
	efAdvance
	efSurvey
	efEnter
	efPause
	efRevoke
	efCancel
)

const (
	noNode    = 0xff
	tokenBase = 100
)

// An interpreter runs machines by number. It interns each machine, and computes each of its steps once, so a world is small, and
// its successors are quick to find.
type interpreter struct {
	step     stepFunc
	first    int64 // the sequence number of node 0
	machines []Machine
	traits   []traits // of the machines
	index    map[Machine]uint32
	memo     map[uint64]int32
	results  []result
	nodes    map[string]uint8
	namings  []forms
	numbers  map[uint64]uint16 // of the namings
	spread   [1 << maxNodes]uint64
}

// traits are what a world needs to know of a machine.
type traits struct {
	state State
	epoch uint8
	own   uint8 // the index of its node, or noNode
	older uint8 // the contenders ahead that it remembers
	reads bool
	kazoo bool
}

type result struct {
	next    uint32
	effects []effect
}

// newInterpreter numbers the nodes from a number on.
func newInterpreter(step stepFunc, first int64) *interpreter {
	it := &interpreter{
		step: step, first: first, index: map[Machine]uint32{}, memo: map[uint64]int32{}, nodes: map[string]uint8{},
		namings: []forms{{}}, numbers: map[uint64]uint16{},
	}
	for mask := range it.spread {
		it.spread[mask] = spread(uint8(mask))
	}
	over := NewMachine(Mutex{})
	over.state, over.finished = Over, true
	it.intern(over) // machineOver
	for _, rule := range []Rule{Mutex{}, Read{}, Write{}, Mutex{Kazoo: true}, Read{Kazoo: true}, Write{Kazoo: true}} {
		it.intern(NewMachine(rule)) // machineNew and those that follow
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
	t := traits{state: m.state, epoch: uint8(m.epoch), own: it.node(m.own.Name.Text), reads: m.rule.Kind().Reads(), kazoo: m.rule.Kind().Kazoo()}
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

func (it *interpreter) run(machine uint32, in input) *result {
	key := in.key(machine)
	if i, ok := it.memo[key]; ok {
		return &it.results[i]
	}
	next, effects := it.step(it.machines[machine], it.input(in))
	r := result{next: it.intern(next)}
	for _, e := range effects {
		r.effects = append(r.effects, it.effect(e))
	}
	it.memo[key] = int32(len(it.results))
	it.results = append(it.results, r)
	return &it.results[len(it.results)-1]
}

// key puts a machine and an input into one number.
func (in input) key(machine uint32) uint64 {
	if machine >= 1<<20 || in.kind > 31 || in.epoch > 7 || in.flag > 15 || in.arg > 15 || in.names >= 1<<12 {
		panic("the key is too small for this world")
	}
	return uint64(machine)<<44 | uint64(in.kind)<<39 | uint64(in.epoch)<<36 | uint64(in.flag)<<32 |
		uint64(in.arg)<<28 | uint64(in.mask)<<20 | uint64(in.own)<<12 | uint64(in.names)
}

func ofKey(key uint64) (machine uint32, in input) {
	return uint32(key >> 44), input{
		kind: inputKind(key >> 39 & 0x1f), epoch: uint8(key >> 36 & 7), flag: uint8(key >> 32 & 0xf),
		arg: uint8(key >> 28 & 0xf), mask: uint8(key >> 20), own: uint8(key >> 12), names: uint16(key & 0xfff),
	}
}

// input turns numbers into what a machine takes.
func (it *interpreter) input(in input) Input {
	epoch := Epoch(in.epoch)
	name := func(id uint8) events.Name { return it.name(id, it.namings[in.names][id]) }
	switch in.kind {
	case inStarted:
		return Started{Try: in.flag&flagTry != 0, Strict: in.flag&flagStrict != 0, Detect: in.flag&flagDetect != 0}
	case inWithdrawn:
		return Withdrawn{Why: Why(in.arg), Taken: in.flag&flagTaken != 0, Ran: in.flag&flagRan != 0}
	case inOpened:
		return Opened{Epoch: epoch, Session: sessionID(in.epoch)}
	case inSuspended:
		return Suspended{}
	case inReconnected:
		return Reconnected{}
	case inLeaseRanOut:
		return LeaseRanOut{}
	case inExpired:
		return Expired{}
	case inGone:
		return Gone{Epoch: epoch, Node: name(in.arg).Text}
	case inCreated:
		c := Created{Epoch: epoch, Node: name(in.arg), Alone: in.flag&flagAlone != 0, Fresh: in.flag&flagFresh != 0}
		if c.Alone {
			c.Token = tokenBase + int64(in.arg)
		}
		return c
	case inListed:
		l := Listed{Epoch: epoch, Entered: in.flag&flagEntered != 0, Size: int32(in.arg)}
		for m := in.mask; m != 0; {
			i := 7 - bits.LeadingZeros8(m)
			m &^= 1 << i
			l.Queue = append(l.Queue, name(uint8(i)))
		}
		if id := in.own & 0xf; id != 0 {
			l.Own = Own{Name: name(id - 1), Owner: sessionID(in.own >> 4), Token: tokenBase + int64(id-1)}
			if l.Entered {
				l.Own.Token = 0 // the token is not known
			}
		}
		return l
	case inClaimed:
		claimed := Claimed{Epoch: epoch, Fresh: in.flag&flagFresh != 0, Recorded: in.flag&flagRecorded != 0}
		if in.flag&flagLeft != 0 {
			claimed.Abandoned = &somebody
		}
		return claimed
	case inDelayed:
		return Delayed{Epoch: epoch, For: 1}
	case inAdvanced:
		return Advanced{Epoch: epoch, Floor: in.flag&flagFloor != 0, Stands: in.flag&flagStands != 0, Fresh: in.flag&flagFresh != 0}
	case inSurveyed:
		return Surveyed{Epoch: epoch, Size: int32(in.own & 0xf), Version: int32(in.own >> 4), InUse: int32(in.arg)}
	case inEntered:
		return Entered{Epoch: epoch, Permits: []string{name(in.arg).Text}, Fresh: in.flag&flagFresh != 0}
	case inChanged:
		return Changed{Epoch: epoch}
	case inDeleted:
		return Deleted{Epoch: epoch}
	case inRefused:
		r := Refused{Epoch: epoch, Op: Op(in.arg), Missing: in.flag&flagMissing != 0, Stale: in.flag&flagStale != 0}
		if in.own < maxNodes {
			r.Node = name(in.own).Text
		}
		return r
	case inCanceled:
		return Canceled{Epoch: epoch}
	case inOccupied:
		return Occupied{Epoch: epoch}
	case inPaused:
		return Paused{Epoch: epoch}
	case inAskedBack:
		return AskedBack{Epoch: epoch, Node: name(in.arg).Text, By: Moment(in.flag)}
	case inOverdue:
		return Overdue{By: Moment(in.arg)}
	case inUnknown:
		return Unknown{Epoch: epoch, Op: Op(in.arg)}
	default:
		panic("no such input")
	}
}

func sessionID(epoch uint8) int64 { return 0x1000 + int64(epoch) }

// effect turns what a machine asks for into numbers.
func (it *interpreter) effect(e Effect) effect {
	switch e := e.(type) {
	case Create:
		return effect{kind: efCreate, epoch: uint8(e.Epoch), arg: uint8(e.Attempt)}
	case Cancel:
		return effect{kind: efCancel, epoch: uint8(e.Epoch)}
	case List:
		f := effect{kind: efList, epoch: uint8(e.Epoch), arg: uint8(e.Attempt)}
		if e.Barrier {
			f.flag = 1
		}
		if e.Size {
			f.past = 1
		}
		return f
	case Survey:
		f := effect{kind: efSurvey, epoch: uint8(e.Epoch), arg: it.node(e.Node)}
		if e.Watch {
			f.flag = 1
		}
		return f
	case Enter:
		f := effect{kind: efEnter, epoch: uint8(e.Epoch), arg: it.node(e.Node), past: uint8(e.Permits), next: uint8(e.Version)}
		if e.Floor {
			f.flag = 1
		}
		return f
	case Watch:
		return effect{kind: efWatch, epoch: uint8(e.Epoch), arg: it.node(e.Node)}
	case Claim:
		f := effect{kind: efClaim, epoch: uint8(e.Epoch), arg: it.node(e.Node), past: uint8(e.Record)}
		if e.Held {
			f.flag = 1
		}
		return f
	case Advance:
		return effect{kind: efAdvance, epoch: uint8(e.Epoch), arg: it.node(e.Node), past: it.node(e.Past), next: it.node(e.Next)}
	case Delete:
		f := effect{kind: efDelete, epoch: uint8(e.Epoch), arg: it.node(e.Node)}
		if e.Floor {
			f.flag = 1
		}
		if e.Clean {
			f.past = maskClean
		}
		return f
	case Pause:
		return effect{kind: efPause, epoch: uint8(e.Epoch), arg: uint8(e.Attempt)} // a delay is a pause, too
	case Discard:
		return effect{kind: efDiscard, arg: it.node(e.Node)}
	case Grant:
		f := effect{kind: efGrant, arg: it.node(e.Node), flag: uint8(e.Token - tokenBase)}
		if e.Abandoned != nil {
			f.past = 1
		}
		return f
	case Lose:
		return effect{kind: efLose, arg: uint8(e.Reason)}
	case Queue:
		return effect{kind: efQueue, arg: uint8(e.Ahead)}
	case Requeue:
		return effect{kind: efRequeue}
	case Revoke:
		return effect{kind: efRevoke, arg: uint8(e.By)}
	case Finish:
		return effect{kind: efFinish, arg: uint8(e.Why)}
	default:
		panic("no such effect")
	}
}
