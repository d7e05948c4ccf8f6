package recipes

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// everyInput has each kind of input, in the current epoch and in others.
func everyInput() []Input {
	all := []Input{
		Started{}, Started{Try: true}, Started{Keep: true}, Withdrawn{WhyReleased}, Withdrawn{WhyContext},
		Started{Detect: true}, Parted{WhyReleased, true}, Parted{WhyReleased, false}, Parted{WhyPanicked, true},
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
			Entered{epoch, []string{"leases/1", "leases/2"}, 9, true}, Listed{Epoch: epoch, Own: Own{Name: events.Name{Text: "leases/1"}, Owner: 77}, Leased: true, Taken: 9},
			Listed{Epoch: epoch, Own: Own{Name: events.Name{Text: "leases/1"}, Owner: 77}, Leased: true}, Gone{epoch, "leases/1"},
			Refused{Epoch: epoch, Op: OpEnter, Stale: true}, AskedBack{epoch, ours.Text}, AskedBack{epoch, ahead3.Text}, AskedBack{epoch, ""},
			Taken{epoch}, Paused{epoch}, Listed{Epoch: epoch, Queue: []events.Name{single}},
			Created{epoch, single, true, true, 500}, Created{epoch, single, true, false, 500}, Gone{epoch, single.Text},
			Claimed{epoch, true}, Claimed{epoch, false}, Deleted{epoch}, Recorded{epoch, true, nil}, Recorded{epoch, false, nil},
			Recorded{epoch, true, &somebody}, Joined{Created{epoch, ours, true, true, 500}, nil}, Joined{Created{epoch, ours, true, true, 500}, &somebody},
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

// past tells whether an input is an answer of an epoch that is not the machine's.
func past(in Input, epoch Epoch) bool {
	switch in := in.(type) {
	case Created:
		return in.Epoch != epoch
	case Listed:
		return in.Epoch != epoch
	case Claimed:
		return in.Epoch != epoch
	case Recorded:
		return in.Epoch != epoch
	case Joined:
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
	case Taken:
		return in.Epoch != epoch
	case Paused:
		return in.Epoch != epoch
	default:
		return false
	}
}

// permitSituations are machines of a semaphore in the states that only those know.
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
		"found again": {Surveyed{1, 3, 0, 0}, Unknown{1, OpEnter}, Listed{Epoch: 1, Own: Own{Name: events.Name{Text: "leases/1"}, Owner: 77}, Leased: true}},
	} {
		s[name] = append(append([]Input(nil), alone...), more...)
	}
	return s
}

// heard is a machine, and what its caller has been told.
type heard struct {
	Machine
	told uint8
}

// TestAnyInputInAnyState feeds every input, expected or not, to every situation
// and to whatever comes out of it, three deep, for every rule.
func TestAnyInputInAnyState(t *testing.T) {
	for name, c := range map[string]struct {
		rule       Rule
		situations map[string][]Input
	}{
		"queue": {Mutex{}, situations()}, "readers": {Read{}, situations()}, "writers": {Write{}, situations()},
		"queue, detecting": {Mutex{}, crashSituations()}, "readers, detecting": {Read{}, crashSituations()},
		"one node": {Unfair{}, singleSituations()}, "semaphore": {Semaphore{Size: 3, Permits: 2}, permitSituations()},
	} {
		t.Run(name, func(t *testing.T) { anyInput(t, c.rule, c.situations) })
	}
}

func anyInput(t *testing.T, rule Rule, situations map[string][]Input) {
	t.Helper()
	var level []heard
	visited := map[heard]bool{}
	for name, inputs := range situations {
		m, told := NewMachine(rule), uint8(0)
		for _, in := range inputs {
			var effects []Effect
			m, effects = m.Step(in)
			told = hear(t, name, told, effects)
		}
		level = append(level, heard{m, told})
	}
	inputs := everyInput()
	for range 3 {
		var deeper []heard
		for _, s := range level {
			for _, in := range inputs {
				before := s.Machine
				next, effects := s.Step(in)
				again, _ := s.Step(in)
				where := s.State().String() + ", " + inputText(in)
				if s.Machine != before || next != again {
					t.Fatalf("%s: Step is not pure", where)
				}
				for _, e := range effects {
					if _, ok := e.(Discard); !ok && (s.State() == Over || past(in, s.Epoch())) {
						t.Fatalf("%s: %s", where, effectText(e))
					}
				}
				if next != before && (s.State() == Over && next.State() != Over || past(in, s.Epoch())) {
					t.Fatalf("%s: went to %v", where, next.State())
				}
				if next.State() == Over && !next.finished {
					t.Fatalf("%s: over, and the caller was not told", where)
				}
				listensToNoMore(t, where, s.Machine, next, in, effects)
				n := heard{next, hear(t, where, s.told, effects)}
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

// hear keeps account of what a caller is told: a grant, then a loss, then the
// end, each at most once.
func hear(t *testing.T, where string, told uint8, effects []Effect) uint8 {
	t.Helper()
	for _, e := range effects {
		var bit, excluded uint8
		switch e.(type) {
		case Grant:
			bit, excluded = toldGrant, toldGrant|toldLost|toldFinish
		case Lose:
			bit, excluded = toldLost, toldLost|toldFinish
			if told&toldGrant == 0 {
				t.Fatalf("%s: lost what was never granted", where)
			}
		case Finish:
			bit, excluded = toldFinish, toldFinish
		case Revoke:
			excluded = toldFinish | toldLost
			if told&toldGrant == 0 {
				t.Fatalf("%s: asked back what was never granted", where)
			}
		case Queue, Requeue:
			excluded = toldGrant | toldFinish
		}
		if told&excluded != 0 {
			t.Fatalf("%s: %s, out of order", where, effectText(e))
		}
		told |= bit
	}
	return told
}

// listensToNoMore holds what the explorer's simplifications rest on: that of which a
// machine need not be told, because it makes no difference then or later.
func listensToNoMore(t *testing.T, where string, m, next Machine, in Input, effects []Effect) {
	t.Helper()
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
			t.Fatalf("%s: a machine that is leaving listens", where)
		}
	case Held, Lapsed:
		g, gone := in.(Gone)
		if next.state < Held || reads || gone && changes && g.Node != m.own.Name.Text {
			t.Fatalf("%s: a machine that has held listens", where)
		}
	case Creating, Recovering, Claiming:
		if reads && !answers(in) {
			t.Fatalf("%s: a machine reads before it has written", where)
		}
	default: // there it may read
	}
}

// dropped tells whether the explorer leaves the input out for a machine that is leaving.
func dropped(in Input, s State) bool {
	var op Op
	switch in := in.(type) {
	case Gone, Listed, Claimed, Recorded, Advanced, Changed, Surveyed:
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
	case Created, Joined, Taken, Listed: // a machine that recovers lists behind a write
		return true
	default:
		return false
	}
}
