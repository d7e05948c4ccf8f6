package recipes

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// multiMutants returns the seeded bugs of multi-locks.
func multiMutants() []mutant {
	opposite := []multiRole{multiPQ, multiQP}
	seeded := func(bug shell, left budget, roles ...multiRole) config {
		return config{clients: len(roles), places: roles, left: left, options: options{eager: true, shell: bug}}
	}
	of := func(left budget, roles ...multiRole) config { return seeded(0, left, roles...) }
	traded := of(budget{trade: 1}, multiPQ)
	traded.writer = true
	return []mutant{
		{"creates its nodes in two transactions", nil, seeded(shellTwoTransactions, budget{}, opposite...), stuck},
		{"takes one place anew and keeps the others", nil, seeded(shellOneAnew, budget{remove: 1}, mutexP, multiPQ, multiQP), noWayOut},
		{"claims one of its nodes", nil, seeded(shellClaimsOne, budget{remove: 1}, opposite...), unproven},
		{"gives up its nodes together, or none", nil, seeded(shellAllNodesOrNone, budget{remove: 1}, opposite...), leftBehind},
		// The machine finds out that it has no place at all in one of the queues.
		{"takes the nodes that it finds for all", nil, seeded(shellTakenForWhole, budget{remove: 1}, opposite...), unfounded},
		{"is alone if it is so in one directory", nil, seeded(shellAloneInOne, budget{}, multiPQ, mutexQ), unproven},
		{"is the first if it is so in its first directory", alter(func(_ Machine, in Input) Input {
			l, ok := in.(Listed)
			if !ok {
				return in
			}
			var queue []events.Name
			for _, c := range l.Queue {
				if member, _, ok := ParseMember(c.Text); !ok || member == 0 || guidOf(c) == guidOf(l.Own.Name) {
					queue = append(queue, c)
				}
			}
			l.Queue = queue
			return l
		}), of(budget{}, multiPQ, mutexQ), unproven},
		{"enters when the one is gone that it watched", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			g, ok := in.(Gone)
			ok = ok && m.state == Waiting && g.Node == m.older[0] && len(m.older[0]) > 1 && m.older[0][1] == '/'
			next := m
			return next, next.first(), ok
		}), of(budget{}, multiPQ, mutexP, mutexQ), unproven},
		{"leaves the other nodes where they are when one is gone", after(func(_, next Machine, _ Input, effects []Effect) (Machine, []Effect) {
			return next, without[Discard](effects)
		}), of(budget{remove: 1}, opposite...), noWayOut},
		{"enters behind a writer that may have become a reader", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			g, ok := in.(Gone)
			ok = ok && m.state == Waiting && g.Node == m.older[0] && kindOf(g.Node) == events.KindWrite
			next := m
			return next, next.first(), ok
		}), traded, unproven},
		{"waits for its own delete in the next session", instead(func(m Machine, in Input) (Machine, []Effect, bool) {
			_, ok := in.(Expired)
			if !ok || m.state != Held {
				return m, nil, false
			}
			m.epoch, m.session, m.up, m.removed = 0, 0, false, true
			next := m
			return next, next.lose(events.ReasonSessionExpired), true
		}), of(budget{kill: 1}, opposite...), noWayOut},
	}
}

// TestExploreReportsMultiMutants holds that the explorer of multi-locks can fail.
func TestExploreReportsMultiMutants(t *testing.T) {
	var all, count atomic.Int64
	atATime(2, multiMutants(), func(m mutant) {
		f := exploreMutant(m, most)
		t.Logf("%-60s %v, %d steps long", m.name, f, len(f.trace))
		if f.violation != m.want {
			t.Errorf("a machine that %s: found %q, want %q\n%s", m.name, f.violation, m.want, strings.Join(f.trace, "\n"))
		}
		count.Add(1)
		all.Add(int64(f.states))
	})
	fmt.Printf("reported %d seeded bugs of multi-locks after %d worlds\n", count.Load(), all.Load())
}
