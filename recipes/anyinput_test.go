package recipes

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// everyInput has each kind of input, in the current epoch and in others.
func everyInput() []Input {
	all := []Input{
		Started{}, Started{Try: true}, Withdrawn{Why: WhyReleased}, Withdrawn{Why: WhyContext},
		Started{Detect: true}, Withdrawn{Why: WhyReleased, Taken: true}, Withdrawn{Why: WhyReleased, Taken: false}, Withdrawn{Why: WhyPanicked, Taken: true},
		opened, reopened, Suspended{}, Reconnected{}, LeaseRanOut{}, Expired{}, nil, third,
	}
	for epoch := range Epoch(4) {
		found, behind := first, second
		found.Epoch, behind.Epoch = epoch, epoch
		all = append(all, found, behind, Listed{Epoch: epoch}, Created{Epoch: epoch, Node: ours}, Created{Epoch: epoch, Node: contender(9)},
			Created{epoch, ours, true, true, 500}, Created{epoch, ours, true, false, 500}, Advanced{epoch, true, false, true},
			Advanced{epoch, false, true, true}, Advanced{epoch, false, false, false}, Gone{epoch, ahead4.Text},
			Changed{epoch}, Surveyed{epoch, 3, 0, 0}, Surveyed{epoch, 3, 1, 2}, Surveyed{epoch, 1, 2, 0}, Surveyed{epoch, 2, 2, 0},
			Entered{epoch, []string{"leases/1", "leases/2"}, 2, true}, Entered{epoch, []string{"leases/1", "leases/2"}, 2, false}, Entered{Epoch: epoch},
			Entered{epoch, []string{"leases/1", "leases/2"}, 9, true}, Listed{Epoch: epoch, Own: Own{Name: events.Name{Text: "leases/1"}, Owner: 77}, Entered: true, InUse: 9},
			Listed{Epoch: epoch, Own: Own{Name: events.Name{Text: "leases/1"}, Owner: 77}, Entered: true}, Gone{epoch, "leases/1"},
			Refused{Epoch: epoch, Op: OpEnter, Stale: true}, AskedBack{epoch, ours.Text, 0}, AskedBack{epoch, ahead3.Text, 0}, AskedBack{epoch, "", 0},
			AskedBack{epoch, ours.Text, 7}, AskedBack{epoch, ours.Text, 6}, Overdue{7}, Overdue{6}, AskedBack{epoch, single.Text, 7}, AskedBack{epoch, "leases/1", 7},
			Canceled{epoch}, Occupied{epoch}, Paused{epoch}, Listed{Epoch: epoch, Queue: []events.Name{single}},
			Created{epoch, single, true, true, 500}, Created{epoch, single, true, false, 500}, Gone{epoch, single.Text},
			Claimed{Epoch: epoch, Fresh: true}, Claimed{Epoch: epoch, Fresh: false}, Deleted{epoch}, Delayed{epoch, 1}, Claimed{epoch, true, true, nil}, Claimed{epoch, false, true, nil},
			Claimed{epoch, true, true, &somebody},
			Gone{epoch, ours.Text}, Gone{epoch, ahead3.Text}, Gone{epoch, ""}, Gone{epoch, "no-such-node"})
		for _, other := range []events.Name{writer, reading, twin} {
			all = append(all, Gone{epoch, other.Text}, Listed{Epoch: epoch, Queue: []events.Name{other, ours, ahead4}, Own: ownNode})
		}
		for op := OpCreate; op <= OpEnter+1; op++ {
			all = append(all, Unknown{epoch, op}, Refused{Epoch: epoch, Op: op}, Refused{Epoch: epoch, Op: op, Node: ahead3.Text, Missing: true})
		}
	}
	return all
}

// past tells whether an input is an answer of another epoch than the machine's.
func past(in Input, epoch Epoch) bool {
	switch in := in.(type) {
	case Created:
		return in.Epoch != epoch
	case Listed:
		return in.Epoch != epoch
	case Claimed:
		return in.Epoch != epoch
	case Delayed:
		return in.Epoch != epoch
	case Advanced:
		return in.Epoch != epoch
	case AskedBack:
		return in.Epoch != epoch
	case Changed:
		return in.Epoch != epoch
	case Surveyed:
		return in.Epoch != epoch
	case Entered:
		return in.Epoch != epoch
	case Deleted:
		return in.Epoch != epoch
	case Refused:
		return in.Epoch != epoch
	case Unknown:
		return in.Epoch != epoch
	case Gone:
		return in.Epoch != epoch
	case Canceled:
		return in.Epoch != epoch
	case Occupied:
		return in.Epoch != epoch
	case Paused:
		return in.Epoch != epoch
	default:
		return false
	}
}

// permitSituations are machines of a semaphore, in the states that only semaphores have.
func permitSituations() map[string][]Input {
	s := map[string][]Input{}
	for name, inputs := range situations() {
		s[name] = inputs
	}
	alone := []Input{opened, Started{}, Created{1, ours, true, true, 500}}
	for name, more := range map[string][]Input{
		"surveying":   {},
		"full":        {Surveyed{1, 3, 0, 2}, Surveyed{1, 3, 0, 2}},
		"entering":    {Surveyed{1, 3, 0, 0}},
		"entered":     {Surveyed{1, 3, 0, 0}, Entered{1, []string{"leases/1", "leases/2"}, 2, true}},
		"entered?":    {Surveyed{1, 3, 0, 0}, Unknown{1, OpEnter}},
		"found again": {Surveyed{1, 3, 0, 0}, Unknown{1, OpEnter}, Listed{Epoch: 1, Own: Own{Name: events.Name{Text: "leases/1"}, Owner: 77}, Entered: true}},
	} {
		s[name] = append(append([]Input(nil), alone...), more...)
	}
	return s
}

// heard is a machine, and what its caller was told.
type heard struct {
	Machine
	told uint8
}

// TestAnyInputInAnyState feeds every input, expected or not, to every situation and to every machine that results, three deep, for
// every rule.
func TestAnyInputInAnyState(t *testing.T) {
	for name, c := range map[string]struct {
		rule       Rule
		situations map[string][]Input
	}{
		"queue": {Mutex{}, situations()}, "readers": {Read{}, situations()}, "writers": {Write{}, situations()},
		"queue, detecting": {Mutex{}, crashSituations()}, "readers, detecting": {Read{}, crashSituations()},
		"one node": {Unfair{}, singleSituations()}, "semaphore": {Semaphore{Size: 3, Permits: 2}, permitSituations()},
	} {
		t.Run(name, func(t *testing.T) {
			anyInput(t, c.rule, c.situations, everyInput(), 3, func(in Input, m, next Machine, effects []Effect) (wrong string) {
				again, _ := m.Step(in)
				if next != again {
					return "Step is not pure"
				}
				for _, e := range effects {
					if _, ok := e.(Discard); !ok && (m.state == Over || past(in, m.epoch)) {
						return "asked for " + effectText(e) + ", want nothing but a discard"
					}
				}
				if next != m && (m.state == Over && next.state != Over || past(in, m.epoch)) {
					return "went to " + next.state.String() + ", want no change"
				}
				return listensToNoMore(in, m, next, effects)
			})
		})
	}
}

// anyInput feeds inputs to machines in some situations and to every machine that results, so many deep. It checks the order of what
// a caller is told, and that check returns nothing. The checks do without t, because they are made a million times.
func anyInput(t *testing.T, rule Rule, situations map[string][]Input, inputs []Input, deep int,
	check func(in Input, m, next Machine, effects []Effect) (wrong string),
) {
	t.Helper()
	var level []heard
	visited := map[heard]bool{}
	for name, inputs := range situations {
		h := heard{Machine: NewMachine(rule)}
		for _, in := range inputs {
			var effects []Effect
			h.Machine, effects = h.Step(in)
			if wrong := h.hear(effects); wrong != "" {
				t.Fatalf("%s: %s", name, wrong)
			}
		}
		level = append(level, h)
	}
	for range deep {
		var deeper []heard
		for _, s := range level {
			for _, in := range inputs {
				before := s.Machine
				next, effects := s.Step(in)
				n := heard{next, s.told}
				wrong := n.hear(effects)
				switch {
				case wrong != "":
				case s.Machine != before:
					wrong = "Step has changed its receiver"
				case next.state == Over && !next.finished:
					wrong = "the machine is over, and the caller was not told"
				default:
					wrong = check(in, before, next, effects)
				}
				if wrong != "" {
					t.Fatalf("%v, %s: %s", s.state, inputText(in), wrong)
				}
				if !visited[n] {
					visited[n] = true
					deeper = append(deeper, n)
				}
			}
		}
		level = deeper
	}
	t.Logf("%d machines", len(visited))
}

// hear notes what a caller is told: a grant, then a loss, then the end, each once at most.
func (h *heard) hear(effects []Effect) (wrong string) {
	for _, e := range effects {
		var bit, excluded uint8
		switch e.(type) {
		case Grant:
			bit, excluded = toldGrant, toldGrant|toldLost|toldFinish
		case Lose:
			bit, excluded = toldLost, toldLost|toldFinish
			if h.told&toldGrant == 0 {
				return "a loss of a lock that was not granted"
			}
		case Finish:
			bit, excluded = toldFinish, toldFinish
		case Revoke:
			excluded = toldFinish | toldLost
			if h.told&toldGrant == 0 {
				return "a lock that was not granted is asked back"
			}
		case Queue, Requeue:
			excluded = toldGrant | toldFinish
		}
		if h.told&excluded != 0 {
			return "told out of order: " + effectText(e)
		}
		h.told |= bit
	}
	return ""
}

// listensToNoMore checks what the explorer's simplifications rest on: some inputs make no difference to a machine, now or later, so
// the explorer leaves them out.
func listensToNoMore(in Input, m, next Machine, effects []Effect) (wrong string) {
	reads := false
	for _, e := range effects {
		switch e := e.(type) {
		case List:
			reads = reads || !e.Barrier
		case Watch, Advance, Survey:
			reads = true
		}
	}
	changes := next != m || len(effects) > 0
	switch m.state {
	case Releasing, Over:
		if next.state != Releasing && next.state != Over || reads || changes && dropped(in, m.state) {
			return "a machine that is leaving listens"
		}
	case Held, Lapsed:
		g, gone := in.(Gone)
		if next.state < Held || reads || gone && changes && g.Node != m.own.Name.Text {
			return "a machine that has held listens"
		}
	case Creating, Recovering, Claiming:
		if reads && !answers(in) {
			return "a machine reads before it has written"
		}
	default: // in other states it may read
	}
	return ""
}

// dropped tells whether the explorer leaves the input out for a machine that is leaving.
func dropped(in Input, s State) bool {
	var op Op
	switch in := in.(type) {
	case Canceled, Gone, Listed, Claimed, Delayed, Advanced, Changed, Surveyed:
		return true
	case Deleted:
		op = OpDelete
	case Refused:
		op = in.Op
	case Unknown:
		op = in.Op
	default:
		return false
	}
	return op != OpDelete || s == Over
}

// answers tells whether the input comes from a server that has executed a write.
func answers(in Input) bool {
	switch in.(type) {
	case Created, Occupied, Listed: // a machine that recovers lists behind a write
		return true
	default:
		return false
	}
}
