package recipes

import (
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

// needless are things that the machine does though no promise depends on them: a step without each, and the spec of a world that
// stays clean; see specVariable.
var needless = []struct {
	does  string
	step  stepFunc
	shell shell
	spec  string
}{
	// 1. No attempt's number is used twice. 2. An answer of another epoch is dropped. 3. News of a session come before its answers.
	// Hence a node with the GUID that is looked for is the current session's. The check is a second line of defence.
	{"does not ask which session owns the node that it finds", anybodysNode, 0, "clients=2 expire=2 ghost"},
	{"the same, when connections break", anybodysNode, 0, "clients=2 expire=1 cut=2"},
	// In the end the listing or the claim finds out. Until then the loss of the place in the queue is not told.
	{"ignores that its own node is gone while it waits", func(m Machine, in Input) (Machine, []Effect) {
		if g, ok := in.(Gone); ok && m.state == Waiting && g.Node == m.own.Name.Text {
			return m, nil
		}
		return m.Step(in)
	}, 0, "clients=3 remove=1 ownWatch eager"},
	// Every waiter wakes up at each release and lists again: a herd, but in order.
	{"watches the oldest", func(m Machine, in Input) (Machine, []Effect) {
		next, effects := m.Step(in)
		if l, ok := in.(Listed); ok && next.state == Waiting {
			next.older = neighbours{slices.MinFunc(l.Queue, events.CompareNames).Text}
			return next, []Effect{Watch{Epoch: m.epoch, Node: next.older[0]}}
		}
		return next, effects
	}, 0, "clients=3 withdraw=1 remove=1 eager"},
	// The claim is proof enough. Another watch on the contender ahead finds out whether it is still there.
	{"watches again after a reconnect, and does not list", func(m Machine, in Input) (Machine, []Effect) {
		if _, ok := in.(Reconnected); ok && m.state == Waiting {
			m.up = true
			return m, []Effect{Watch{Epoch: m.epoch, Node: m.older[0]}}
		}
		return m.Step(in)
	}, 0, "clients=3 cut=1 withdraw=1 eager"},
	// The first stays the first for as long as its node exists, so its floor may come at any time.
	{"writes the floor after the delete and not with it", Machine.Step, shellApart, "clients=3 withdraw=1 guest=1 eager plain"},
	{"the same, in a directory made again", Machine.Step, shellApart, "clients=2 foreign=1 guest=2 reap=1 eager plain"},
	// It wakes a herd, and one of them wins.
	{"creates at once when the one node goes", func(m Machine, in Input) (Machine, []Effect) {
		next, effects := m.Step(in)
		if next.state == Pausing {
			effects = next.create()
		}
		return next, effects
	}, 0, "rules=unfair,unfair,unfair withdraw=1 single eager"},
}

// anybodysNode takes a node that is found for the current session's.
func anybodysNode(m Machine, in Input) (Machine, []Effect) {
	if l, ok := in.(Listed); ok && l.Own != (Own{}) {
		l.Own.Owner = m.session
		return m.Step(l)
	}
	return m.Step(in)
}

// TestExploreWithoutTheNeedless checks that no promise depends on what is needless. If one of these is reported, it is needed now.
// By default the test does not go to the end of the largest worlds.
func TestExploreWithoutTheNeedless(t *testing.T) {
	for _, n := range needless {
		s, err := parseSpec(n.spec)
		if err != nil {
			t.Errorf("%q: %v", n.spec, err)
			continue
		}
		s.shell = n.shell
		f := explore(n.step, s.config, eventstest.Amount(5*mostQuick, most))
		t.Logf("%-55s %v", n.does, f)
		if f.Violation != "" || f.Truncated && eventstest.Full() {
			t.Errorf("a machine that %s: found %q, want nothing\n%s", n.does, f.Violation, strings.Join(f.Trace, "\n"))
		}
	}
}
