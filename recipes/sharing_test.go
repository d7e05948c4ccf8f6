package recipes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// everyKind gives the contenders of a queue all kinds in turn.
func everyKind(seq int) events.Kind { return events.KindLock + events.Kind(seq) }

// TestWhoBlocksAReader: every older contender that does not read, of any library.
func TestWhoBlocksAReader(t *testing.T) {
	reads := map[events.Kind]bool{events.KindRead: true, events.KindKazooRead: true, events.KindRecipeRead: true}
	for set := range 1 << most7 {
		for seq := range most7 {
			var nearest int
			blocked := false
			for other := range seq {
				if set&(1<<other) != 0 && !reads[everyKind(other)] {
					nearest, blocked = other, true
				}
			}
			answer := Read{}.Blockers(names(set, seq, everyKind), contender(int64(seq)))
			if len(answer) > 1 || (len(answer) == 1) != blocked || blocked && answer[0].Seq != int64(nearest) {
				t.Fatalf("%07b: %d is blocked by %v", set, seq, answer)
			}
		}
	}
}

// TestWhoBlocksAWriter: every older contender.
func TestWhoBlocksAWriter(t *testing.T) {
	for set := range 1 << most7 {
		for seq := range most7 {
			queue, me := names(set, seq, everyKind), contender(int64(seq))
			answer := Write{}.Blockers(queue, me)
			if len(answer) > 1 || (len(answer) == 1) != blocked(Write{}, queue, me) {
				t.Fatalf("%v: %d is blocked by %v", queue, seq, answer)
			}
		}
	}
}

// TestWhichKindsShareANumber: a writer's read nodes have its number, and no other contender may have another one's.
func TestWhichKindsShareANumber(t *testing.T) {
	name := func(text string, k events.Kind) events.Name { return events.Name{Text: text, Kind: k, Seq: 5} }
	write, other := name("a", events.KindWrite), name("b", events.KindWrite)
	read, another := name("c", events.KindRead), name("d", events.KindRead)
	mutex, foreign := name("e", events.KindLock), name("f", events.KindKazooRead)
	for _, c := range []struct {
		a, b events.Name
		want bool
	}{
		{write, read, true}, {read, another, true}, {write, other, false}, {write, mutex, false}, {read, mutex, false},
		{read, foreign, false}, {write, foreign, false},
	} {
		for _, me := range []events.Name{c.a, c.b} {
			if got := usable([]events.Name{c.a, c.b}, me); got != c.want {
				t.Errorf("%v and %v on one number, for %s: %v, want %v", c.a.Kind, c.b.Kind, me.Text, got, c.want)
			}
		}
	}
}

// TestWhichPlaceMayBeTaken: a reader takes that of a write node. A contender that readers do not block need not know.
func TestWhichPlaceMayBeTaken(t *testing.T) {
	for kind := range events.KindWriteLock + 1 {
		for _, c := range []struct {
			rule Rule
			want bool
		}{{Mutex{}, kind == events.KindWrite}, {Write{}, kind == events.KindWrite}, {Read{}, false}} {
			if got := replaceable(c.rule, kind); got != c.want {
				t.Errorf("the place of %v, for %T: %v", kind, c.rule, got)
			}
		}
	}
}

// TestAListedQueueIsNeverWrittenTo: many machines are given the same queue.
func TestAListedQueueIsNeverWrittenTo(t *testing.T) {
	const contenders = 40
	rules := []Rule{
		Mutex{}, Mutex{Kazoo: true}, Read{}, Read{Kazoo: true}, Write{}, Write{Kazoo: true}, Unfair{},
		Semaphore{Size: 3, Permits: 2}, MultiOf(events.KindLock, events.KindWrite), MultiOf(events.KindRead, events.KindRead),
	}
	random := rand.New(rand.NewPCG(1, 1))
	for _, rule := range rules {
		for range 50 {
			var queue []events.Name
			for i := range contenders {
				kind := events.KindLock + events.Kind(random.IntN(int(events.KindRecipeWrite)))
				name, ok := events.ParseName(fmt.Sprintf("_c_%036x-%s%010d", i/2, kind.Marker(), i))
				if !ok {
					continue // not a form of a name in a queue
				}
				if _, multi := rule.(Multi); multi {
					name.Text = MemberName(i%2, name.Text)
				}
				queue = append(queue, name)
			}
			random.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
			before := slices.Clone(queue)
			own := queue[random.IntN(len(queue))]
			for _, inputs := range [][]Input{
				{Started{Try: true}}, {Started{}, Created{Epoch: 1, Node: own}}, {Started{}, Unknown{Epoch: 1, Op: OpCreate}},
			} {
				m := machineOf(rule, append([]Input{Opened{Epoch: 1, Session: 7}}, inputs...)...)
				m.Step(Listed{Epoch: 1, Queue: queue, Own: Own{Name: own, Owner: 7, Token: 5}, Size: 3})
				m.Step(Listed{Epoch: 1, Queue: queue})
			}
			Holders(queue)
			Leads(queue)
			for _, who := range queue {
				Holds(rule, queue, who)
			}
			if !slices.Equal(queue, before) {
				t.Fatalf("%T: behind its steps the queue is %v, want it as it was: %v", rule, queue, before)
			}
		}
	}
}

// machineOf returns a machine that has taken the inputs.
func machineOf(rule Rule, inputs ...Input) Machine {
	m := NewMachine(rule)
	for _, in := range inputs {
		m, _ = m.Step(in)
	}
	return m
}
