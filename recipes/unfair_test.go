package recipes

import (
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// single is the one node of an unfair lock, whichever contender made it.
var single = events.Name{Text: "task", Kind: events.KindUnfair}

// singleSituations are machines of an unfair lock, in every state that they can have.
func singleSituations() map[string][]Input {
	taken := Listed{Epoch: 1, Queue: []events.Name{single}}
	mine := Listed{Epoch: 1, Queue: []events.Name{single}, Own: Own{Name: single, Owner: 77, Token: 500}}
	s := map[string][]Input{
		"nothing yet": {},
		"no session":  {Started{}},
		"creating":    {opened, Started{}},
		"trying":      {opened, Started{Try: true}},
	}
	from := func(name, base string, more ...Input) {
		s[name] = append(append([]Input(nil), s[base]...), more...)
	}
	from("looking", "creating", Occupied{1})
	from("waiting", "looking", taken)
	from("waiting, no connection", "waiting", Suspended{})
	from("looking again", "waiting", Suspended{}, Reconnected{})
	from("pausing", "waiting", Gone{1, single.Text})
	from("looked, no node", "pausing", Paused{1}, Listed{Epoch: 1})
	from("too late", "looked, no node", Occupied{1})
	from("tried, taken", "trying", Occupied{1})
	from("tried, free by now", "tried, taken", Listed{Epoch: 1})
	from("recovering", "creating", Unknown{1, OpCreate})
	from("creating, withdrawn", "creating", Withdrawn{Why: WhyContext})
	from("recovering, withdrawn", "recovering", Withdrawn{Why: WhyContext})
	from("claiming", "recovering", mine)
	from("listing", "creating", Created{Epoch: 1, Node: single})
	from("held", "creating", Created{1, single, true, true, 500})
	from("held after waiting", "looked, no node", Created{1, single, true, true, 600})
	from("releasing", "held", Withdrawn{Why: WhyReleased})
	from("over", "releasing", Deleted{1})
	from("lapsed", "held", LeaseRanOut{})
	return s
}

// TestUnfairTransitions has what differs from a queue.
func TestUnfairTransitions(t *testing.T) {
	taken := Listed{Epoch: 1, Queue: []events.Name{single}}
	mine := Listed{Epoch: 1, Queue: []events.Name{single}, Own: Own{Name: single, Owner: 77, Token: 500}}
	for _, c := range []struct {
		when string
		in   Input
		next State
		want string // the effects
	}{
		{"no session", opened, Creating, "create attempt 1"},
		{"trying", Occupied{1}, Looking, "list"}, // the create is the look
		{"creating", Created{1, single, true, true, 500}, Held, `GRANT "task" token 500`},
		{"creating", Created{1, single, true, false, 500}, Claiming, `claim "task"`},
		{"creating", Created{Epoch: 1, Node: single}, Listing, "list"},
		{"creating", Occupied{1}, Looking, "list"},
		{"creating", Occupied{2}, Creating, ""},
		{"creating", Unknown{1, OpCreate}, Recovering, "barrier, list"},
		{"creating, withdrawn", Occupied{1}, Over, `END "context ended"`},
		{"creating, withdrawn", Created{1, single, true, true, 500}, Releasing, `delete "task"`},
		{"recovering", Listed{Epoch: 1}, Creating, "create attempt 2"},
		{"recovering", taken, Creating, "create attempt 2"},
		{"recovering", mine, Claiming, `claim "task"`},
		{"recovering, withdrawn", taken, Over, `END "context ended"`},
		{"recovering, withdrawn", mine, Releasing, `delete "task"`},
		{"listing", mine, Claiming, `claim "task"`},
		{"listing", taken, Creating, "create attempt 2, REQUEUED"},

		{"looking", taken, Waiting, `QUEUED behind 1, watch "task"`},
		{"looking", Listed{Epoch: 1}, Creating, "create attempt 2"},
		{"looking", Gone{1, single.Text}, Looking, ""},
		{"looking", Unknown{1, OpList}, Looking, "list"},
		{"looking", Refused{Epoch: 1, Op: OpList}, Over, `END "refused"`},
		{"looking", Withdrawn{Why: WhyReleased}, Over, `END "released"`},
		{"looking", Expired{}, Idle, ""},
		{"tried, taken", taken, Over, `END "busy"`},
		{"tried, taken", Listed{Epoch: 1}, Creating, "create attempt 2"},
		{"tried, free by now", Occupied{1}, Looking, "list"},

		{"waiting", Gone{1, single.Text}, Pausing, "pause, attempt 1"},
		{"waiting", Gone{2, single.Text}, Waiting, ""},
		{"waiting", Reconnected{}, Looking, "list"},
		{"waiting", LeaseRanOut{}, Waiting, ""},
		{"waiting", Expired{}, Idle, ""}, // and no place is lost
		{"waiting", Unknown{1, OpWatch}, Looking, "list"},
		{"waiting", Refused{Epoch: 1, Op: OpWatch, Node: single.Text}, Over, `END "refused"`},
		{"waiting", Withdrawn{Why: WhyTimeout}, Over, `END "waited too long"`},
		{"waiting, no connection", Withdrawn{Why: WhyTimeout}, Over, `END "waited too long"`},

		{"pausing", Paused{1}, Looking, "list"},
		{"pausing", Paused{2}, Pausing, ""},
		{"pausing", Gone{1, single.Text}, Pausing, ""},
		{"pausing", Suspended{}, Pausing, ""},
		{"pausing", Reconnected{}, Pausing, ""},
		{"pausing", Expired{}, Idle, ""},
		{"pausing", Withdrawn{Why: WhyContext}, Over, `END "context ended"`},
		{"looked, no node", Occupied{1}, Pausing, "pause, attempt 2"}, // steps further back
		{"too late", Paused{1}, Looking, "list"},
		{"held", Paused{1}, Held, ""},

		{"held", Withdrawn{Why: WhyReleased}, Releasing, `delete "task"`},
		{"held after waiting", Withdrawn{Why: WhyReleased}, Releasing, `delete "task"`}, // and leaves no floor
		{"held", Gone{1, single.Text}, Lapsed, `LOST "node removed"`},
		{"held", LeaseRanOut{}, Lapsed, `LOST "lease ran out"`},
		{"lapsed", Withdrawn{Why: WhyReleased}, Releasing, `delete "task", END "lost"`},
	} {
		m := NewMachine(Unfair{})
		for _, in := range singleSituations()[c.when] {
			m, _ = m.Step(in)
		}
		next, effects := m.Step(c.in)
		var texts []string
		for _, e := range effects {
			texts = append(texts, effectText(e))
		}
		if got := strings.Join(texts, ", "); next.State() != c.next || got != c.want {
			t.Errorf("%s, %s: %v, %q; want %v, %q", c.when, inputText(c.in), next.State(), got, c.next, c.want)
		}
	}
}

func TestTheOwnerOfTheOneNodeBlocksTheRest(t *testing.T) {
	other := events.Name{Text: "other", Kind: events.KindUnfair}
	if got := (Unfair{}).Blockers([]events.Name{single, other}, single); len(got) != 1 || got[0] != other {
		t.Errorf("beside another node it is blocked by %v, want that", got)
	}
	if got := (Unfair{}).Blockers([]events.Name{single}, single); len(got) != 0 {
		t.Errorf("alone it is blocked by %v, want no blocker", got)
	}
	if !Single(Unfair{}) || Single(Mutex{}) || Single(Write{}) || Single(Read{}) || !(Unfair{}).Exclusive() || (Unfair{}).Kind() != events.KindUnfair {
		t.Error("another kind of rule")
	}
}
