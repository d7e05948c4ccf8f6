package recipes

import (
	"reflect"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// everyInput returns inputs of every kind, in the current epoch and in others.
func everyInput() []Input {
	all := []Input{
		Started{}, Started{Try: true}, Started{Detect: true}, Withdrawn{Why: WhyReleased}, Withdrawn{Why: WhyContext},
		Withdrawn{Why: WhyReleased, Taken: true}, Withdrawn{Why: WhyPanicked, Taken: true}, Adopted{},
		opened, reopened, Suspended{}, Reconnected{}, LeaseRanOut{}, Expired{}, nil, third, Overdue{7}, Overdue{6},
	}
	for epoch := range Epoch(4) {
		for _, queue := range [][]events.Name{{ours}, {ours, ahead3}, {writer, ours}, {reading, ours, ahead4}, {twin, ours}} {
			all = append(all, Listed{Epoch: epoch, Queue: queue, Own: ownNode})
		}
		all = append(all, Listed{Epoch: epoch}, Listed{Epoch: epoch, Queue: []events.Name{single}},
			Listed{Epoch: epoch, Queue: []events.Name{ours}, Own: ownNode, Size: 9},
			Listed{Epoch: epoch, Own: permitOwn, Entered: true}, Listed{Epoch: epoch, Own: permitOwn, Entered: true, InUse: 9})
		for _, alone := range []bool{true, false} {
			all = append(all, Created{epoch, ours, true, alone, 500}, Created{epoch, single, true, alone, 500},
				Claimed{Epoch: epoch, Fresh: alone}, Claimed{Epoch: epoch, Fresh: alone, Recorded: true}, Advanced{epoch, alone, !alone, true},
				Entered{Epoch: epoch, Permits: ownPermits, InUse: 3, Fresh: alone},
				Entered{Epoch: epoch, Permits: ownPermits, Fresh: alone, Size: 4, Token: 7}, Entered{Epoch: epoch, Permits: ownPermits, Fresh: alone, Size: 4, Token: 7, Spare: true})
		}
		all = append(all, Created{Epoch: epoch, Node: ours}, Created{Epoch: epoch, Node: contender(9)},
			Advanced{epoch, false, false, false}, Claimed{Epoch: epoch, Fresh: true, Recorded: true, Abandoned: &somebody}, Delayed{epoch, 1}, Deleted{epoch},
			Entered{Epoch: epoch}, Entered{Epoch: epoch, Permits: ownPermits, InUse: 9, Fresh: true}, Canceled{epoch}, Occupied{epoch}, Paused{epoch}, Changed{epoch},
			Refused{Epoch: epoch, Op: OpEnter, Stale: true}, Surveyed{epoch, 4, 0, 0}, Surveyed{epoch, 4, 1, 2}, Surveyed{epoch, 2, 2, 0})
		for _, node := range []events.Name{ours, ahead3, single, permitOwn.Name, {}} {
			all = append(all, Gone{epoch, node}, RevocationRequested{epoch, node, 0}, RevocationRequested{epoch, node, 7}, RevocationRequested{epoch, node, 6})
		}
		for _, node := range []events.Name{ahead4, writer, reading, twin, {Text: ownPermits[1]}, {Text: "no-such-node"}} {
			all = append(all, Gone{epoch, node})
		}
		for op := OpCreate; op <= OpEnter+1; op++ {
			all = append(all, Unknown{Epoch: epoch, Op: op}, Refused{Epoch: epoch, Op: op}, Refused{Epoch: epoch, Op: op, Node: ahead3, Missing: true})
		}
		for _, answer := range []Input{Claimed{Epoch: epoch, Fresh: true}, Unknown{Epoch: epoch, Op: OpClaim}, Refused{Epoch: epoch, Op: OpClaim}, Refused{Epoch: epoch, Op: OpClaim, Missing: true}} {
			all = append(all, Claim{Held: true}.Marks(answer))
		}
	}
	return all
}

// epochOf returns the epoch of an answer, or of news about one epoch.
func epochOf(in Input) (epoch Epoch, has bool) {
	if _, opened := in.(Opened); opened || in == nil {
		return 0, false
	}
	field := reflect.ValueOf(in).FieldByName("Epoch")
	if !field.IsValid() {
		return 0, false
	}
	return Epoch(field.Uint()), true
}

func past(in Input, epoch Epoch) bool {
	of, has := epochOf(in)
	return has && of != epoch
}

type heard struct {
	Machine
	told uint8
}

// TestAnyInputInAnyState feeds every input, expected or not, to every situation and to
// every machine that results, three deep, for every rule.
func TestAnyInputInAnyState(t *testing.T) {
	every := everyInput()
	for name, c := range map[string]struct {
		rule       Rule
		situations cases
	}{
		"queue": {Mutex{}, situations()}, "readers": {Read{}, situations()}, "writers": {Write{}, situations()},
		"queue, detecting": {Mutex{}, crashSituations()}, "readers, detecting": {Read{}, crashSituations()},
		"one node": {Unfair{}, singleSituations()}, "semaphore": {permitsOf, semaphoreSituations()},
	} {
		t.Run(name, func(t *testing.T) {
			visited := map[heard]bool{}
			feed := func(h heard, in Input) heard {
				next, wrong := h.hear(in)
				if wrong != "" {
					t.Fatalf("%v, %s: %s", h.state, inputText(in), wrong)
				}
				return next
			}
			var level []heard
			for _, inputs := range c.situations {
				h := heard{Machine: NewMachine(c.rule)}
				for _, in := range inputs {
					h = feed(h, in)
				}
				level = append(level, h)
			}
			for range 3 {
				var deeper []heard
				for _, h := range level {
					for _, in := range every {
						if next := feed(h, in); !visited[next] {
							visited[next] = true
							deeper = append(deeper, next)
						}
					}
				}
				level = deeper
			}
			t.Logf("%d machines", len(visited))
		})
	}
}

// hear passes an input to the machine, and describes what is wrong with the step. It
// takes no t, because it is called a million times.
func (h *heard) hear(in Input) (_ heard, wrong string) {
	m := h.Machine
	next, effects := after(m, in)
	again, _ := after(m, in)
	late := past(in, m.epoch)
	switch {
	case next != again:
		wrong = "Step is not pure"
	case next.state == Over && !next.finished:
		wrong = "the machine is over, and the caller was not told"
	case next != m && (m.state == Over && next.state != Over || late):
		wrong = "went to " + next.state.String() + ", want no change"
	}
	for _, e := range effects {
		if _, ok := e.(Discard); !ok && (m.state == Over || late) {
			wrong = "asked for " + effectText(e) + ", want nothing but a discard"
		}
		if !h.tell(e) {
			wrong = "told out of order: " + effectText(e)
		}
	}
	return heard{next, h.told}, wrong
}

// tell notes what is reported to the caller, and returns whether that is in order: a
// grant, then a loss, then the end, each at most once.
func (h *heard) tell(e Effect) bool {
	var bit, needed, excluded uint8
	switch e.(type) {
	case Grant:
		bit, excluded = toldGrant, toldGrant|toldLost|toldFinish
	case Lose:
		bit, needed, excluded = toldLost, toldGrant, toldLost|toldFinish
	case Finish:
		bit, excluded = toldFinish, toldFinish
	case Revoke:
		needed, excluded = toldGrant, toldFinish|toldLost
	case Queue, Requeue:
		excluded = toldGrant | toldFinish
	}
	ok := h.told&excluded == 0 && h.told&needed == needed
	h.told |= bit
	return ok
}
