package recipes

import (
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

const most7 = 7 // contenders in the exhaustive tests

// names returns the contenders of a set, rotated so that order plays no part.
func names(set, rotate int, kinds func(seq int) events.Kind) []events.Name {
	var queue []events.Name
	for seq := range most7 {
		if set&(1<<seq) != 0 {
			n := contender(int64(seq))
			n.Kind = kinds(seq)
			queue = append(queue, n)
		}
	}
	if len(queue) > 0 {
		rotate %= len(queue)
		queue = append(queue[rotate:], queue[:rotate]...)
	}
	return queue
}

// blocked is a rule as one would put it without thinking of watches: whoever is older
// blocks, unless both read.
func blocked(rule Rule, queue []events.Name, me events.Name) bool {
	for _, n := range queue {
		if n.Seq < me.Seq && (!n.Kind.Reads() || rule != Rule(Read{})) {
			return true
		}
	}
	return false
}

// mixes are the ways in which some of the contenders may read, and the kinds of those that
// do and of those that do not.
func mixes(yield func(kinds func(seq int) events.Kind) bool) {
	reads := []events.Kind{events.KindRead, events.KindKazooRead, events.KindRecipeRead}
	rest := []events.Kind{events.KindLock, events.KindKazooLock, events.KindWrite, events.KindRecipeWrite, events.KindWriteLock}
	for mix := range 1 << most7 {
		kinds := func(seq int) events.Kind {
			if mix&(1<<seq) != 0 {
				return reads[(seq+mix)%len(reads)]
			}
			return rest[(seq+mix)%len(rest)]
		}
		if !yield(kinds) {
			return
		}
	}
}

// TestBlockersAreAWitness: while all that Blockers names exist, me is blocked, whoever
// else leaves or stays. So when me may enter, one of them is gone, and whoever watches them
// wakes up.
func TestBlockersAreAWitness(t *testing.T) {
	for _, rule := range []Rule{Mutex{}, Write{}, Read{}} {
		n := 0
		for kinds := range mixes {
			for set := n % 3; set < 1<<most7; set += 3 { // all sets, each with a third of the mixes
				witnessed(t, rule, set, kinds)
			}
			n++
		}
	}
}

func witnessed(t *testing.T, rule Rule, set int, kinds func(seq int) events.Kind) {
	t.Helper()
	for meSeq := range most7 {
		me := contender(int64(meSeq))
		queue := names(set, meSeq, kinds)
		answer := rule.Blockers(queue, me)
		if (len(answer) > 0) != blocked(rule, queue, me) {
			t.Fatalf("%v: %v %d is blocked by %v", queue, rule.Kind(), meSeq, answer)
		}
		if len(answer) == 0 {
			continue
		}
		if rest := slices.DeleteFunc(slices.Clone(queue), func(n events.Name) bool { return !slices.Contains(answer, n) }); !blocked(rule, rest, me) {
			t.Fatalf("%v: %v %d waits for %v, and is not blocked by that", queue, rule.Kind(), meSeq, answer)
		}
		if got := ahead(rule, queue, me); got < len(answer) {
			t.Fatalf("%v: %d stand ahead of %v %d", queue, got, rule.Kind(), meSeq)
		}
	}
}

// TestMutexWatchesOneAndNoTwoTheSame: one release wakes one waiter.
func TestMutexWatchesOneAndNoTwoTheSame(t *testing.T) {
	kinds := func(int) events.Kind { return events.KindLock }
	for set := range 1 << most7 {
		queue := names(set, set, kinds)
		watched := map[events.Name]bool{}
		for _, me := range queue {
			answer := Mutex{}.Blockers(queue, me)
			if len(answer) > 1 || len(answer) == 1 && watched[answer[0]] {
				t.Fatalf("%v: %v waits for %v, want one at most, for whom nobody else waits", queue, me.Seq, answer)
			}
			for _, n := range answer {
				watched[n] = true
			}
		}
	}
}

func TestAheadCountsTheOlder(t *testing.T) {
	queue := []events.Name{ahead4, ours, ahead3, contender(9)}
	if got := ahead(Mutex{}, queue, ours); got != 2 {
		t.Errorf("ahead = %d, want 2", got)
	}
	if got := ahead(Mutex{}, nil, ours); got != 0 {
		t.Errorf("ahead in an empty queue = %d", got)
	}
}

func TestUsableFailsClosed(t *testing.T) {
	twin := events.Name{Text: "twin-lock-0000000005", Kind: events.KindLock, Seq: 5}
	negative := events.Name{Text: "lock--000000001", Kind: events.KindLock, Seq: -1}
	for _, c := range []struct {
		queue []events.Name
		me    events.Name
		want  bool
	}{
		{nil, ours, true},
		{[]events.Name{ours, ahead3}, ours, true},
		{[]events.Name{ours, twin}, ours, false},
		{[]events.Name{ours, negative}, ours, false},
		{[]events.Name{ours, contender(events.SeqEnd - 1)}, ours, true},
		{[]events.Name{ours, contender(events.SeqEnd)}, ours, false},
		{nil, contender(events.SeqEnd), false},
	} {
		if got := usable(c.queue, c.me); got != c.want {
			t.Errorf("usable(%v, %v) = %v, want %v", c.queue, c.me.Text, got, c.want)
		}
	}
}

// FuzzMutexBlockers compares the answer with the dumb rule for any numbers a
// server might hand out, the same one several times included.
func FuzzMutexBlockers(f *testing.F) {
	f.Add([]byte{}, byte(0))
	f.Add([]byte{3, 1, 2}, byte(2))
	f.Add([]byte{5, 5, 200, 0}, byte(5))
	f.Fuzz(func(t *testing.T, seqs []byte, meSeq byte) {
		me := contender(int64(int8(meSeq)))
		var queue []events.Name
		for _, s := range seqs {
			queue = append(queue, contender(int64(int8(s))))
		}
		before := slices.Clone(queue)
		answer := Mutex{}.Blockers(queue, me)
		if !slices.Equal(queue, before) {
			t.Fatal("the queue was changed")
		}
		if (len(answer) > 0) != blocked(Mutex{}, queue, me) {
			t.Fatalf("%v in %v is blocked by %v", me.Seq, queue, answer)
		}
		for _, b := range answer {
			if b.Seq >= me.Seq || !slices.Contains(queue, b) {
				t.Fatalf("%v waits for %v, who is no older contender", me.Seq, b)
			}
			for _, n := range queue {
				if b.Seq < n.Seq && n.Seq < me.Seq {
					t.Fatalf("%v waits for %v, though %v is nearer", me.Seq, b, n)
				}
			}
		}
	})
}
