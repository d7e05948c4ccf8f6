package recipes

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// exploreMutant does without the simplifications that rest on what the machine does.
func exploreMutant(m mutant, limit int) finding {
	if m.step == nil {
		m.step = Machine.Step
	}
	m.cfg.whole = true
	return explore(m.step, m.cfg, limit)
}

// TestExploreNeedsNotEverything names what the machine does though no promise
// hangs on it. If one of these is reported, its reason has gone.
func TestExploreNeedsNotEverything(t *testing.T) {
	atATime(2, []mutant{
		// No attempt's number is used twice, an answer of another epoch is dropped,
		// and news of a session comes before answers from it: so a node that bears
		// the GUID looked for can only be the current session's. The check is a
		// second line behind those three.
		{"does not ask who owns the node it finds", alter(anybodysNode), config{clients: 2, left: budget{expire: 2}, options: options{ghost: true}}, ""},
		{"the same, when connections break", alter(anybodysNode), config{clients: 2, left: budget{expire: 1, cut: 2}}, ""},
		// The listing or the claim finds out in the end. Until then the place in the
		// queue is lost without a word.
		{"ignores that its own node is gone while it waits", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			g, ok := in.(Gone)
			return m, nil, ok && m.state == Waiting && g.Node == m.own.Name.Text
		}), config{clients: 3, left: budget{remove: 1}, options: options{ownWatch: true, eager: true}}, ""},
		// Everybody wakes up at each release and lists again: a herd, but in order.
		{"watches the oldest", after(func(m, next Machine, in Input, effects []Effect) (Machine, []Effect) {
			if l, ok := in.(Listed); ok && next.state == Waiting {
				next.older = neighbours{oldest(l).Text}
				return next, []Effect{Watch{Epoch: m.epoch, Node: next.older[0]}}
			}
			return next, effects
		}), config{clients: 3, left: budget{withdraw: 1, remove: 1}, options: options{eager: true}}, ""},
		// To claim is proof enough; watching once more the one that was ahead finds out
		// whether it still is.
		{"watches again after a reconnect, and does not list", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(Reconnected)
			ok = ok && m.state == Waiting
			m.up = m.up || ok
			return m, []Effect{Watch{Epoch: m.epoch, Node: m.older[0]}}, ok
		}), config{clients: 3, left: budget{cut: 1, withdraw: 1}, options: options{eager: true}}, ""},
		// Whoever was first stays first for as long as its node exists, and its word
		// may come at any time.
		{"writes the floor after the delete and not with it", nil,
			config{clients: 3, left: budget{withdraw: 1, guest: 1}, options: options{eager: true, plain: true, shell: shellApart}}, ""},
		{"the same, in a directory made again", nil,
			config{clients: 2, left: budget{foreign: 1, guest: 2, reap: 1}, options: options{eager: true, plain: true, shell: shellApart}}, ""},
		// It wakes a herd, and one of them wins.
		{"creates at once when the one node goes", after(func(m, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			if next.state != Pausing {
				return next, effects
			}
			effects = next.create()
			return next, effects
		}), config{clients: 3, left: budget{withdraw: 1}, rules: []Rule{Unfair{}, Unfair{}, Unfair{}}, options: options{eager: true, single: true}}, ""},
	}, func(m mutant) {
		limit := eventstest.Amount(5*mostQuick, most)
		f := exploreMutant(m, limit)
		t.Logf("%-55s %v", m.name, f)
		if f.violation != "" || f.truncated && limit == most {
			t.Errorf("a machine that %s: %q\n%s", m.name, f.violation, strings.Join(f.trace, "\n"))
		}
	})
}

// TestExploreReportsMutants holds that the explorer can fail: each repair that
// is taken away is missed by somebody.
func TestExploreReportsMutants(t *testing.T) {
	var all, count atomic.Int64
	atATime(2, slices.Concat(mutants(), fastMutants(), sharedMutants(), permitsMutants(), unfairMutants(), kazooMutants(), revokeMutants(), crashMutants(),
		upgradeMutants()), func(m mutant) {
		f := exploreMutant(m, most)
		t.Logf("%-55s %v, %d steps long", m.name, f, len(f.trace))
		if f.violation != m.want {
			t.Errorf("a machine that %s: found %q, want %q\n%s", m.name, f.violation, m.want, strings.Join(f.trace, "\n"))
		}
		count.Add(1)
		all.Add(int64(f.states))
	})
	fmt.Printf("reported %d seeded bugs after %d worlds\n", count.Load(), all.Load())
}
