package recipes

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// BenchmarkStep is the machine's part of an acquisition: from nothing to nothing, in the ways that are taken most.
func BenchmarkStep(b *testing.B) {
	released := []Input{Withdrawn{WhyReleased}, Deleted{1}}
	for _, way := range []struct {
		name   string
		inputs []Input
		passes State
	}{
		{"alone", append([]Input{opened, Started{}, Created{1, ours, true, true, 500}}, released...), Held},
		{"first of the listing", append([]Input{
			opened, Started{}, Created{Epoch: 1, Node: ours}, first, Claimed{1, true},
		}, released...), Held},
		{"after one that stood ahead", append([]Input{
			opened, Started{}, Created{Epoch: 1, Node: ours}, second, Gone{1, ahead3.Text}, Claimed{1, true},
		}, released...), Held},
		{"after two that stood ahead", append([]Input{
			opened, Started{}, Created{Epoch: 1, Node: ours}, third, Gone{1, ahead4.Text}, Advanced{1, true, false, true},
		}, released...), Held},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			var m Machine
			passed := false
			for b.Loop() {
				m = NewMachine(Mutex{})
				for _, in := range way.inputs {
					m, _ = m.Step(in)
					passed = passed || m.State() == way.passes
				}
			}
			// A benchmark of a machine that stood still would be a fast one.
			if m.State() != Over || !passed {
				b.Fatalf("it ends in %v, and was held: %v", m.State(), passed)
			}
			b.ReportMetric(float64(len(way.inputs)), "steps/op")
		})
	}
}

// BenchmarkListed is what the last of a long queue makes of a listing. Where many machines share one, each takes the step.
func BenchmarkListed(b *testing.B) {
	for _, rule := range []Rule{Mutex{}, Read{}, Write{}, MultiOf(events.KindWrite, events.KindWrite)} {
		for _, ahead := range []int{1, 10_000, 60_000} {
			b.Run(fmt.Sprintf("%T/%d", rule, ahead), func(b *testing.B) {
				var queue []events.Name
				for i := range ahead {
					name, _ := events.ParseName(fmt.Sprintf("_c_%036x-%s%010d", i, events.KindWrite.Marker(), i))
					queue = append(queue, name)
				}
				own := Own{Name: events.Name{Text: fmt.Sprintf("_c_%036x-%s%010d", ahead, events.KindWrite.Marker(), ahead), Kind: events.KindWrite, Seq: int64(ahead)}, Owner: 7, Token: 1}
				queue = append(queue, own.Name)
				rand.New(rand.NewPCG(1, 1)).Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
				if _, multi := rule.(Multi); multi {
					for i := range queue {
						queue[i].Text = MemberName(0, queue[i].Text)
						other := queue[i]
						other.Text = MemberName(1, other.Text[2:])
						queue = append(queue, other)
					}
					own.Name.Text = MemberName(0, own.Name.Text)
				}
				m := machineOf(rule, Opened{Epoch: 1, Session: 7}, Started{}, Created{Epoch: 1, Node: own.Name})
				for b.Loop() {
					if next, _ := m.Step(Listed{Epoch: 1, Queue: queue, Own: own}); next.State() != Waiting {
						b.Fatalf("it stands in %v, want %v", next.State(), Waiting)
					}
				}
			})
		}
	}
}
