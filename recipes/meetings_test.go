package recipes

// This file is about the inputs that machines were given, and what they made of them.

// A meeting is an input that a machine was given, as far as its state and the content matter.
type meeting struct {
	state State
	kind  inputKind
	flag  uint8 // as the input's; Gone: 1 for the own node
	op    Op    // of Refused and Unknown
}

// meetings returns what the machines were given.
func (it *interpreter) meetings() map[meeting]bool {
	met := map[meeting]bool{}
	for key := range it.memo {
		machine, in := ofKey(key)
		t := it.traits[machine]
		m := meeting{state: t.state, kind: in.kind, flag: in.flag}
		switch m.kind {
		case inGone:
			if in.arg == t.own {
				m.flag = 1
			}
		case inRefused, inUnknown:
			m.op = Op(in.arg)
		default:
		}
		met[m] = true
	}
	return met
}

// A change is a step of a machine that makes a difference. Steps of a machine that is over count for nothing.
type change struct {
	Machine
	input
	forms // which name the nodes; their number differs from run to run
}

func (it *interpreter) changes() map[change]bool {
	all := map[change]bool{}
	for key, i := range it.memo {
		machine, in := ofKey(key)
		effects := len(it.results[i].effects) > 0
		if effects || it.results[i].next != machine && it.traits[machine].state != Over {
			named := it.namings[in.names]
			in.names = 0
			all[change{it.machines[machine], in, named}] = true
		}
	}
	return all
}
