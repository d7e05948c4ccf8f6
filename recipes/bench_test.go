package recipes

import "testing"

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
