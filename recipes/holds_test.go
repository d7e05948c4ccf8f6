package recipes_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// TestWhoHoldsInAQueueOfKinds has queues of some kinds, the oldest first, and a plus for each contender that holds.
func TestWhoHoldsInAQueueOfKinds(t *testing.T) {
	for _, tt := range []struct {
		rule  recipes.Rule
		kinds []events.Kind
		same  int // the index of a contender with the number of the one before it, or 0
		holds string
	}{
		{recipes.Mutex{}, []events.Kind{events.KindLock}, 0, "+"},
		{recipes.Mutex{}, []events.Kind{events.KindLock, events.KindLock, events.KindWriteLock}, 0, "+--"},
		{recipes.Mutex{}, []events.Kind{events.KindKazooRead, events.KindRead, events.KindLock}, 0, "+--"},
		{recipes.Read{}, []events.Kind{events.KindRead, events.KindRead, events.KindWrite, events.KindRead}, 0, "++--"},
		{recipes.Write{}, []events.Kind{events.KindRead, events.KindRead, events.KindWrite, events.KindRead}, 0, "++--"},
		{recipes.Read{}, []events.Kind{events.KindWrite, events.KindRead, events.KindWrite}, 0, "+--"},
		{recipes.Write{}, []events.Kind{events.KindWrite, events.KindRead, events.KindWrite}, 0, "+--"},
		{recipes.Read{}, []events.Kind{events.KindLock, events.KindRead}, 0, "+-"},
		{recipes.Read{}, []events.Kind{events.KindRead, events.KindKazooRead, events.KindRecipeRead, events.KindLock}, 0, "+++-"},
		{recipes.Read{}, []events.Kind{events.KindWrite, events.KindRead, events.KindRead, events.KindWrite}, 1, "++--"}, // halfway through a downgrade
		{recipes.Write{}, []events.Kind{events.KindRead, events.KindRead, events.KindWrite}, 0, "++-"},                   // and behind it
	} {
		queue := make([]events.Name, len(tt.kinds))
		seq := int64(-1)
		for i, k := range tt.kinds {
			if i == 0 || i != tt.same {
				seq++
			}
			queue[len(queue)-1-i] = events.Name{Text: string(rune('a' + i)), Kind: k, Seq: seq} // the youngest first
		}
		got := ""
		for i := range queue {
			if recipes.Holds(tt.rule, queue, queue[len(queue)-1-i]) {
				got += "+"
			} else {
				got += "-"
			}
		}
		if got != tt.holds {
			t.Errorf("%T with %v: %s, want %s", tt.rule, tt.kinds, got, tt.holds)
		}
	}
}

// TestNoContenderBlocksTheLeader, and the leader is the only one without a blocker, for all kinds and orders.
func TestNoContenderBlocksTheLeader(t *testing.T) {
	if _, ok := recipes.Leads(nil); ok {
		t.Error("an empty queue has a leader")
	}
	kinds := []events.Kind{events.KindLock, events.KindKazooLock, events.KindWriteLock, events.KindRead}
	for shift := range 5 {
		var queue []events.Name
		for i := range 5 {
			seq := int64((i + shift) % 5)
			queue = append(queue, events.Name{Text: string(rune('a' + i)), Kind: kinds[i%len(kinds)], Seq: seq - 1})
		}
		leader, ok := recipes.Leads(queue)
		for _, n := range queue {
			if leads := ok && n == leader; leads != (n.Seq == -1) || n.Kind == events.KindLock && leads != recipes.Holds(recipes.Mutex{}, queue, n) {
				t.Errorf("%+v leads in %+v, want it to be the first, and the rule to agree for %+v", leader, queue, n)
			}
		}
	}
}

// TestHoldersAgreesWithHolds in random queues, in which a writer may have its read node beside it.
func TestHoldersAgreesWithHolds(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	kinds := []events.Kind{events.KindLock, events.KindRead, events.KindWrite, events.KindKazooRead, events.KindKazooLock, events.KindRecipeRead}
	for range 20_000 {
		var queue []events.Name
		for seq := range int64(rng.IntN(6)) {
			kind := kinds[rng.IntN(len(kinds))]
			queue = append(queue, events.Name{Text: fmt.Sprintf("%v-%d", kind, seq), Kind: kind, Seq: seq})
			if kind == events.KindWrite && rng.IntN(2) == 0 {
				queue = append(queue, events.Name{Text: fmt.Sprintf("twin-%d", seq), Kind: events.KindRead, Seq: seq})
			}
		}
		rng.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
		var want []events.Name
		for _, who := range queue {
			if recipes.Holds(recipes.Write{}, queue, who) {
				want = append(want, who)
			}
		}
		if got := recipes.Holders(queue); !slices.Equal(got, want) {
			t.Fatalf("of %v %v hold, want %v", queue, got, want)
		}
	}
}
