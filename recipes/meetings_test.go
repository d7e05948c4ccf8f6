package recipes

import (
	"reflect"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// A meeting is an input that a machine in some state was given, as far as its content
// matters.
type meeting struct {
	State

	in any
}

// meetings returns what the machines were given.
func (it *interpreter) meetings() map[meeting]bool {
	met := map[meeting]bool{}
	for k := range it.memo {
		m := it.machines[k.machine]
		met[meeting{m.state, bare(k.in, m.own.Name)}] = true
	}
	return met
}

// bare leaves out of an input's key what differs from node to node and from epoch to
// epoch.
func bare(in any, own events.Name) any {
	switch in := in.(type) {
	case Created:
		return Created{Alone: in.Alone, Fresh: in.Fresh}
	case Advanced:
		in.Epoch = 0
		return in
	case Claimed:
		return Claimed{Fresh: in.Fresh}
	case AskedBack:
		return AskedBack{By: in.By}
	case Refused:
		in.Epoch, in.Node, in.Held = 0, events.Name{}, false
		return in
	case Unknown:
		in.Epoch, in.Held = 0, false
		return in
	case Gone:
		return Gone{Node: events.Name{Text: also(in.Node.Same(own), "own")}}
	case flat:
		return flat{of: in.of, is: in.is}
	default:
		return reflect.Zero(reflect.TypeOf(in)).Interface()
	}
}

// reached checks that the exploration comes to what it is there for: every answer that
// the fast path may get, and everything that may come in between.
func reached(t *testing.T, met map[meeting]bool) {
	t.Helper()
	for state, want := range map[State][]Input{
		Creating: {
			Created{Alone: true, Fresh: true}, Created{Alone: true}, Created{}, Canceled{}, Occupied{},
			Refused{Op: OpCreate, Missing: true},
		},
		Looking: {Listed{}},
		Waiting: {Gone{}, Reconnected{}, AskedBack{By: momentLate}},
		Advancing: {
			Advanced{Floor: true, Fresh: true}, Advanced{Floor: true}, Advanced{Stands: true}, Advanced{}, Gone{}, Gone{Node: events.Name{Text: "own"}},
			Refused{Op: OpAdvance, Missing: true}, Refused{Op: OpAdvance}, Unknown{Op: OpAdvance}, Withdrawn{}, LeaseRanOut{},
			Suspended{}, Reconnected{}, Expired{},
		},
		Claiming:   {Claimed{Fresh: true}, Claimed{}, AskedBack{By: momentSoon}, Refused{Op: OpClaim, Missing: true}},
		Held:       {AskedBack{By: momentSoon}, Overdue{}},
		Lapsed:     {Overdue{}},
		Releasing:  {Overdue{}},
		Recovering: {Listed{Entered: true}},
		Surveying: {
			Surveyed{}, Changed{}, Reconnected{}, Unknown{Op: OpSurvey}, Refused{Op: OpSurvey, Missing: true},
		},
		Full: {Changed{}, Reconnected{}, Gone{Node: events.Name{Text: "own"}}},
		Entering: {
			Entered{Fresh: true}, Entered{}, Refused{Op: OpEnter, Stale: true}, Refused{Op: OpEnter, Missing: true},
			Unknown{Op: OpEnter}, Withdrawn{},
		},
		Pausing: {Paused{}, Reconnected{}, Withdrawn{}},
	} {
		for _, in := range want {
			if !met[meeting{state, bare(keyOf(in), events.Name{Text: "own"})}] {
				t.Errorf("no machine in %v was given %T %+v", state, in, in)
			}
		}
	}
}

// A change is a step of a machine that makes a difference. Steps of a machine that is over count for nothing.
type change struct {
	Machine

	in any
}

func (it *interpreter) changes() map[change]bool {
	all := map[change]bool{}
	for k, r := range it.memo {
		if len(r.effects) > 0 || r.next != k.machine && it.traits[k.machine].state != Over {
			all[change{it.machines[k.machine], k.in}] = true
		}
	}
	return all
}
