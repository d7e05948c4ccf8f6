package budget

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is the true state of a session, next to its budget.
type model struct {
	budget Budget
	shares [2]share
	debts  [2]debt
	steps  string
}

// truth returns how many nodes the session may have.
func (m *model) truth() (nodes int64) {
	for i := range m.shares {
		nodes += m.shares[i].nodes + m.shares[i].kept + m.debts[i].nodes + m.debts[i].kept
	}
	return nodes
}

// share is the part of one contender.
type share struct {
	counted, leaving bool
	nodes            int64 // nodes of this contender that its session may have
	kept             int64 // nodes that stay, and belong to no contender
}

// debt is the part of one removal.
type debt struct {
	open  bool
	of    Debt
	nodes int64 // in the current session
	kept  int64
}

// TestEveryOrder plays every order of events for two contenders and two removals, over
// several sessions. The budget never counts fewer nodes than there may be, no create is
// sent beyond the limit, and in the end nothing counts.
func TestEveryOrder(t *testing.T) {
	const limit, depth = 5, 9
	one := Load{1, 1}
	seen := map[model]int{} // the value is the number of steps left
	var play func(m model, depth int)
	check := func(m model) {
		truth := m.truth()
		if used := m.budget.Used; used.Nodes < truth || used.Nodes != used.Bytes {
			t.Fatalf("after%s: %+v count, and there may be %d", m.steps, used, truth)
		}
		var leaving, removing int64
		for i, s := range m.shares {
			if s.leaving {
				leaving += 2
			}
			if d := m.debts[i]; d.open && d.of.session == m.budget.session {
				removing++
			}
		}
		if b := m.budget; b.leaving.Nodes != leaving || b.removing.Nodes != removing {
			t.Fatalf("after%s: %+v, want %d and %d nodes about to go", m.steps, b, leaving, removing)
		}
		for _, s := range m.shares {
			if s.counted {
				m.budget.Return(Load{2, 2}, s.leaving)
			}
		}
		for _, d := range m.debts {
			if d.open {
				m.budget.Removed(d.of, true)
			}
		}
		if m.budget.Next(); m.budget != (Budget{limit: limit, session: m.budget.session}) {
			t.Fatalf("after%s, and when all is over: %+v", m.steps, m.budget)
		}
	}
	play = func(m model, left int) {
		key := m
		key.steps = ""
		key.debts[0].of.session -= m.budget.session
		key.debts[1].of.session -= m.budget.session
		key.budget.session = 0
		if check(m); left <= seen[key] {
			return
		}
		seen[key] = left
		do := func(what string, i int, f func(*model)) {
			next := m
			next.steps += fmt.Sprintf(" %s %d", what, i)
			f(&next)
			play(next, left-1)
		}
		for i, s := range m.shares {
			load := Load{2, 2}
			switch {
			case !s.counted && m.budget.Fits(load):
				do("take", i, func(m *model) { m.budget.Take(load); m.shares[i].counted = true })
			case s.counted:
				if s.nodes == 0 && m.budget.Fits(Load{}) {
					do("create", i, func(m *model) {
						if m.shares[i].nodes = 2; m.truth() > limit {
							t.Fatalf("after%s there may be %d nodes, want %d at most", m.steps, m.truth(), limit)
						}
					})
				}
				if s.nodes == 0 {
					do("return", i, func(m *model) { m.budget.Return(load, s.leaving); m.shares[i] = share{kept: s.kept} })
				} else {
					do("delete", i, func(m *model) { m.shares[i].nodes = 0 })
					do("keep", i, func(m *model) { m.budget.Keep(load, s.leaving); m.shares[i] = share{kept: s.kept + 2} })
				}
				if !s.leaving {
					do("leave", i, func(m *model) { m.budget.Leaving(load); m.shares[i].leaving = true })
				}
				if s.nodes > 0 && !m.debts[i].open { // it queues up again, and the rest of its nodes is removed
					do("discard", i, func(m *model) {
						m.debts[i] = debt{open: true, of: m.budget.Remove(one), nodes: 1, kept: m.debts[i].kept}
						m.shares[i].nodes = 0
					})
				}
			}
		}
		for i, d := range m.debts {
			if d.open {
				do("removed", i, func(m *model) { m.budget.Removed(d.of, true); m.debts[i] = debt{kept: d.kept} })
				do("stays", i, func(m *model) { m.budget.Removed(d.of, false); m.debts[i] = debt{kept: d.kept + d.nodes} })
			}
		}
		do("next session", 0, func(m *model) {
			m.budget.Next()
			for i := range m.shares {
				m.shares[i].nodes, m.shares[i].kept = 0, 0
				m.debts[i].nodes, m.debts[i].kept = 0, 0
			}
		})
	}
	play(model{budget: New(limit)}, depth)
	t.Logf("%d states", len(seen))
}

// Nodes that are about to be deleted are room to wait for, but not room yet.
func TestRoomToWaitFor(t *testing.T) {
	b := New(3)
	b.Take(Load{2, 2})
	eventstest.Expect(t, !b.Fits(Load{2, 2}) && !b.WillFit(Load{2, 2}) && b.Fits(Load{1, 1}),
		"with 2 of 3 used: %+v, want room for 1", b)
	b.Leaving(Load{2, 2})
	eventstest.Expect(t, !b.Fits(Load{2, 2}) && b.WillFit(Load{2, 2}) && !b.WillFit(Load{4, 4}),
		"with 2 of 3 about to go: %+v, want room for 1, and for 3 soon", b)
	b.Keep(Load{2, 2}, true)
	eventstest.Expect(t, !b.WillFit(Load{2, 2}), "%+v, want no room for nodes that stay", b)
}

// A node counts its path and the size of a contender's name, or its own name if that is
// longer.
func TestNode(t *testing.T) {
	for _, c := range []struct{ path, node, want int }{{18, 74, 78}, {140, 196, 200}, {10, 0, 70}, {10, 100, 104}} {
		eventstest.Equal(t, Node(c.path, c.node), Load{1, int64(c.want)},
			"a path of %d bytes with a node of %d", c.path, c.node)
	}
}

// TestEveryOrderOfTransactions plays every order of three transactions at one path. Each
// is in progress for a while, and is executed or not, and answered or not. A node that
// may exist counts, and a node that is known to be gone does not.
func TestEveryOrderOfTransactions(t *testing.T) {
	const path = "/n"
	creates, deletes := Op{Path: path, Creates: true}, Op{Path: path, Deletes: true}
	ends := []zkerr.Outcome{zkerr.Done, zkerr.Unknown, zkerr.Refused}
	plays := 0
	// An order is a list of numbers: 3i sends transaction i, 3i+1 executes it at the
	// server, 3i+2 answers it.
	play := func(ops []Op, steps []int, outcomes []zkerr.Outcome) {
		plays++
		b, n := New(1000), Nodes{}
		txns, there, quiet := make([]*Transaction, len(ops)), false, true
		for at, step := range steps {
			i, how := step/3, outcomes[step/3]
			switch step % 3 {
			case 0:
				txns[i] = n.Begin(&b, ops[i:i+1])
			case 1:
				if how != zkerr.Refused {
					there = ops[i].Creates
				}
			default:
				n.End(&b, txns[i], how, nil)
			}
			used := b.Used.Nodes
			if used > 1 || used == 0 && there {
				t.Fatalf("%v of %v, ended %v, at %d: %d nodes count, and there is one: %t", steps, ops, outcomes, at, used, there)
			}
		}
		for i := range ops { // one after another, all of them answered: the count is exact
			quiet = quiet && outcomes[i] != zkerr.Unknown && steps[3*i]%3 == 0 && steps[3*i+1] == steps[3*i]+1 && steps[3*i+2] == steps[3*i]+2
		}
		if used := b.Used.Nodes; quiet && used > 0 != there {
			t.Fatalf("%v of %v, ended %v: %d nodes count, and there is one: %t", steps, ops, outcomes, used, there)
		}
	}
	var orders func(steps []int, next [3]int, f func([]int))
	orders = func(steps []int, next [3]int, f func([]int)) {
		if len(steps) == 9 {
			f(steps)
			return
		}
		for i := range next {
			if next[i] < 3 {
				more := next
				more[i]++
				orders(append(steps[:len(steps):len(steps)], 3*i+next[i]), more, f)
			}
		}
	}
	for kinds := range 8 {
		var ops []Op
		for i := range 3 {
			ops = append(ops, []Op{creates, deletes}[kinds>>i&1])
		}
		for how := range 27 {
			outcomes := []zkerr.Outcome{ends[how%3], ends[how/3%3], ends[how/9]}
			if odd := how%3 + how/3%3 + how/9; odd > 2 { // keep plays with at most one refused, or two unknown
				continue
			}
			orders(nil, [3]int{}, func(steps []int) { play(ops, steps, outcomes) })
		}
	}
	t.Logf("%d plays", plays)
}

// Sequential nodes count with their names once these are known. Nothing of an earlier
// session counts.
func TestNumberedNodes(t *testing.T) {
	b, n := New(1000), Nodes{}
	numbered := []Op{{Path: "/n-", Creates: true, Numbers: true}}
	eventstest.Equal(t, n.Load(numbered), Load{1, 73}, "a numbered node would take")
	for _, end := range []func(*Transaction){
		func(x *Transaction) { n.End(&b, x, zkerr.Done, []string{"/n-0000000001"}) }, // known
		func(x *Transaction) { n.End(&b, x, zkerr.Done, nil) },                       // not known
		func(x *Transaction) { n.End(&b, x, zkerr.Unknown, nil) },
		func(x *Transaction) { n.End(&b, x, zkerr.Refused, nil) },
	} {
		end(n.Begin(&b, numbered))
	}
	n.End(&b, n.Begin(&b, []Op{{Path: "/n-0000000001", Deletes: true}}), zkerr.Done, nil)
	eventstest.Equal(t, b.Used, Load{2, 146}, "what counts, of which nobody knows the names")
	late := n.Begin(&b, numbered)
	b.Next()
	n = Nodes{}
	n.End(&b, late, zkerr.Done, []string{"/n-0000000002"})
	eventstest.Equal(t, b.Used, Load{}, "what counts in the next session")
}

// TestANodeThatItsTransactionDeletesIsGone, unless the same transaction creates it once
// more, or its outcome is unknown.
func TestANodeThatItsTransactionDeletesIsGone(t *testing.T) {
	create, remove := Op{Path: "/a", Creates: true}, Op{Path: "/a", Deletes: true}
	for _, test := range []struct {
		ops     []Op
		outcome zkerr.Outcome
		left    int64
	}{
		{[]Op{create, remove}, zkerr.Done, 0},
		{[]Op{create, remove, create}, zkerr.Done, 1},
		{[]Op{create, remove, create, remove}, zkerr.Done, 0},
		{[]Op{create, remove}, zkerr.Unknown, 1},
		{[]Op{create, remove}, zkerr.Refused, 0},
	} {
		var nodes Nodes
		b := New(1000)
		nodes.End(&b, nodes.Begin(&b, test.ops), test.outcome, nil)
		eventstest.Equal(t, b.Used.Nodes, test.left, "nodes that count after %v, %v", test.ops, test.outcome)
	}
}
