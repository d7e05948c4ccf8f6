package recipes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// TestNobodyWritesToAListedQueue: many machines are given the same one.
func TestNobodyWritesToAListedQueue(t *testing.T) {
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
					continue // no form of a name in a queue
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
