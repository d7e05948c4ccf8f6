package recipes

// What machines were given, and what they made of it.

// A meeting is an input that a machine was given, as far as it matters where it stood
// and what it was told.
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

// A change is a step of a machine that makes a difference, unless it is over anyway.
type change struct {
	Machine
	input
	forms // by which the nodes are named, in the place of a number that differs from run to run
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
