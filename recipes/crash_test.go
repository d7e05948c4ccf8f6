package recipes

import (
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// somebody has crashed; a machine does not care which contender it was.
var somebody = events.Abandoned{Node: "somebody's"}

// crashSituations are machines of a lock that tells of crashes, in the states in which that makes a difference.
func crashSituations() map[string][]Input {
	s := map[string][]Input{}
	from := func(name, base string, more ...Input) {
		s[name] = append(append([]Input(nil), s[base]...), more...)
	}
	from("creating", "", opened, Started{Detect: true})
	from("claiming", "creating", Created{1, ours, true, true, 500})
	from("claiming, first listed", "creating", Created{Epoch: 1, Node: ours}, first)
	from("claiming behind a floor", "creating", Created{Epoch: 1, Node: ours}, third, Gone{1, ahead4.Text}, Advanced{1, true, false, true})
	from("claiming, withdrawn", "claiming", Withdrawn{Why: WhyContext})
	from("claiming, own gone", "claiming", Gone{1, ours.Text})
	from("claiming, no connection", "claiming", Suspended{})
	from("held", "claiming", Claimed{1, true, true, nil})
	from("held behind a crash", "claiming", Claimed{1, true, true, &somebody})
	from("lost", "held", LeaseRanOut{})
	from("lost behind a crash", "held behind a crash", LeaseRanOut{})
	from("creating, withdrawn", "creating", Withdrawn{Why: WhyContext})
	from("verifying", "held", Suspended{}, Reconnected{})
	from("releasing", "held", Withdrawn{Why: WhyReleased, Taken: true})
	from("releasing uncleanly", "held", Withdrawn{Why: WhyClosed, Taken: true})
	from("strict, claiming, no connection", "", opened, Started{Detect: true, Strict: true}, Created{1, ours, true, true, 500}, Suspended{})
	return s
}

func TestCrashTransitions(t *testing.T) {
	for _, c := range []struct {
		when string
		in   Input
		next State
		want string // the effects
	}{
		{"creating", Created{1, ours, true, true, 500}, Claiming, "claim #5 with a record"},
		{"creating, withdrawn", Created{1, ours, true, true, 500}, Releasing, "delete #5"},
		{"claiming", Claimed{1, true, true, nil}, Held, "GRANT #5 token 500"},
		{"claiming", Claimed{1, true, true, &somebody}, Held, "GRANT #5 token 500 behind a crash"},
		{"claiming", Claimed{1, false, true, &somebody}, Claiming, "claim #5 with a record"},
		{"claiming", Claimed{2, true, true, nil}, Claiming, ""},
		{"claiming", Unknown{1, OpClaim}, Claiming, "claim #5 with a record"},
		{"claiming", Refused{Epoch: 1, Op: OpClaim}, Releasing, "delete #5"},
		{"claiming", Refused{Epoch: 1, Op: OpClaim, Missing: true}, Creating, "create attempt 2, REQUEUED"},
		{"claiming", Withdrawn{Why: WhyContext}, Claiming, ""},
		{"claiming, own gone", Withdrawn{Why: WhyContext}, Over, `END "context ended"`},
		{"claiming, own gone", Claimed{1, true, true, nil}, Creating, "create attempt 2, REQUEUED"},
		{"claiming, no connection", Withdrawn{Why: WhyContext}, Claiming, `END "context ended"`},
		{"claiming, withdrawn", Claimed{1, true, true, nil}, Releasing, "delete #5 and the record"},
		{"claiming, withdrawn", Claimed{1, false, true, nil}, Releasing, "delete #5 and the record"},
		{"claiming, withdrawn", Claimed{1, true, true, &somebody}, Releasing, "delete #5"},
		{"claiming, withdrawn", Unknown{1, OpClaim}, Claiming, "claim #5 with a record"},
		{"claiming, withdrawn", Refused{Epoch: 1, Op: OpClaim}, Releasing, "delete #5"},
		{"claiming, withdrawn", Refused{Epoch: 1, Op: OpClaim, Missing: true}, Over, `END "context ended"`},
		{"claiming, withdrawn", Expired{}, Over, `END "context ended"`},
		{"claiming, withdrawn", LeaseRanOut{}, Claiming, `END "context ended"`},
		{"strict, claiming, no connection", Claimed{1, true, true, nil}, Claiming, "claim #5 with a record"},
		{"held", Withdrawn{Why: WhyReleased, Taken: true}, Releasing, "delete #5 and the record"},
		{"held", Withdrawn{Why: WhyReleased, Taken: false}, Releasing, "delete #5 and the record"},
		{"held", Withdrawn{Why: WhyClosed, Taken: false}, Releasing, "delete #5 and the record"},
		{"held", Withdrawn{Why: WhyContext}, Releasing, "delete #5 and the record"},
		{"held", Withdrawn{Why: WhyClosed, Taken: true}, Releasing, "delete #5"},
		{"held", Withdrawn{Why: WhyPanicked, Taken: true}, Releasing, "delete #5"},
		{"held", LeaseRanOut{}, Lapsed, `LOST "lease ran out"`},
		{"lost", Withdrawn{Why: WhyReleased, Taken: true}, Releasing, `delete #5 and the record, END "lost"`}, // the caller was quicker
		{"lost", Withdrawn{Why: WhyLost, Taken: true}, Releasing, `delete #5, END "lost"`},
		{"lost", Withdrawn{Why: WhyLost, Taken: false}, Releasing, `delete #5 and the record, END "lost"`},
		{"lost behind a crash", Withdrawn{Why: WhyLost, Taken: false}, Releasing, `delete #5, END "lost"`},
		{"lost", Gone{1, ours.Text}, Lapsed, ""},
		{"held", Gone{1, ours.Text}, Lapsed, `LOST "node removed"`},
		{"held", Suspended{}, Held, ""},
		{"held behind a crash", Withdrawn{Why: WhyReleased, Taken: true}, Releasing, "delete #5 and the record"},
		{"held behind a crash", Withdrawn{Why: WhyReleased, Taken: false}, Releasing, "delete #5"},
		{"verifying", Unknown{1, OpClaim}, Held, "claim #5"},
		{"verifying", Withdrawn{Why: WhyReleased, Taken: true}, Releasing, "delete #5 and the record"},
		{"releasing", Unknown{1, OpDelete}, Releasing, "delete #5 and the record"},
		{"releasing uncleanly", Unknown{1, OpDelete}, Releasing, "delete #5"},
		{"releasing uncleanly", Withdrawn{Why: WhyReleased, Taken: true}, Releasing, ""},
	} {
		m := NewMachine(Mutex{})
		for _, in := range crashSituations()[c.when] {
			m, _ = m.Step(in)
		}
		next, effects := m.Step(c.in)
		if got := effectTexts(effects); next.State() != c.next || got != c.want {
			t.Errorf("%s, %s: %v; %s, want %v; %s", c.when, inputText(c.in), next.State(), got, c.next, c.want)
		}
	}
}

// TestReadersMakeNoRecord, and remove none.
func TestReadersMakeNoRecord(t *testing.T) {
	m := NewMachine(Read{})
	for _, c := range []struct {
		in   Input
		want string
	}{
		{opened, ""},
		{Started{Detect: true}, "create attempt 1"},
		{Created{1, ours, true, true, 500}, "claim #5 and read the record"},
		{Claimed{1, true, true, &somebody}, "GRANT #5 token 500 behind a crash"},
		{Withdrawn{Why: WhyReleased, Taken: true}, "delete #5"},
	} {
		var effects []Effect
		m, effects = m.Step(c.in)
		if got := effectTexts(effects); got != c.want {
			t.Errorf("%s: %s, want %s", inputText(c.in), got, c.want)
		}
	}
	// A reader that gives up while it claims has nothing to wait for.
	m = NewMachine(Read{})
	for _, in := range []Input{opened, Started{Detect: true}, Created{1, ours, true, true, 500}} {
		m, _ = m.Step(in)
	}
	if next, effects := m.Step(Withdrawn{Why: WhyContext}); next.State() != Releasing || effectTexts(effects) != "delete #5" {
		t.Errorf("withdrawn while it claims: %v, %q; want %v, %q", next.State(), effectTexts(effects), Releasing, "delete #5")
	}
}

// TestAClaimWithinALockDelayProvesNothing: it makes no holder.
func TestAClaimWithinALockDelayProvesNothing(t *testing.T) {
	if _, _, proves := Proves(Delayed{Epoch: 1, For: 1}, true); proves {
		t.Error("an answer within a lock-delay proves a holder, want no proof")
	}
}

// TestAnotherNodeHasARecordOfItsOwn: what was known of the node before does not count.
func TestAnotherNodeHasARecordOfItsOwn(t *testing.T) {
	m := NewMachine(Mutex{})
	for _, in := range []Input{
		opened, Started{Detect: true}, Created{1, ours, true, true, 500}, Claimed{1, false, true, nil}, Expired{}, reopened,
		Created{2, later, true, true, 600}, Claimed{2, true, true, &somebody},
	} {
		m, _ = m.Step(in)
	}
	if _, effects := m.Step(Withdrawn{Why: WhyContext}); effectTexts(effects) != "delete #6" {
		t.Errorf("another contender's record was removed: %s", effectTexts(effects))
	}
}

func effectTexts(effects []Effect) string {
	var texts []string
	for _, e := range effects {
		texts = append(texts, effectText(e))
	}
	return strings.Join(texts, ", ")
}
