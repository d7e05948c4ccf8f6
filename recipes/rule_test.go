package recipes

import (
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

const most7 = 7 // contenders in the exhaustive tests

// names returns the contenders of a set, rotated so that their order does not matter.
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

// blocked is a rule without a thought of watches: an older contender blocks, unless both read.
func blocked(rule Rule, queue []events.Name, me events.Name) bool {
	for _, n := range queue {
		if n.Seq < me.Seq && (!n.Kind.Reads() || rule != Rule(Read{})) {
			return true
		}
	}
	return false
}

// mixes are the ways in which some of the contenders may read, with the kinds of readers and of others.
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

// TestBlockersAreAWitness: while every contender that Blockers names exists, me is blocked, whichever others leave or stay. So when
// me may enter, one of them is gone, and a waiter that watches them wakes up.
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
			t.Fatalf("%v: %v %d waits for %v, which does not block it", queue, rule.Kind(), meSeq, answer)
		}
		if got := ahead(rule, queue, me); got < len(answer) {
			t.Fatalf("%v: %d stand ahead of %v %d", queue, got, rule.Kind(), meSeq)
		}
	}
}

// TestEachMutexWaiterWatchesAnotherNode: one release wakes one waiter.
func TestEachMutexWaiterWatchesAnotherNode(t *testing.T) {
	kinds := func(int) events.Kind { return events.KindLock }
	for set := range 1 << most7 {
		queue := names(set, set, kinds)
		watched := map[events.Name]bool{}
		for _, me := range queue {
			answer := Mutex{}.Blockers(queue, me)
			if len(answer) > 1 || len(answer) == 1 && watched[answer[0]] {
				t.Fatalf("%v: %v waits for %v, want one at most, and no other waiter for it", queue, me.Seq, answer)
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

// FuzzMutexBlockers compares the answer with the simple rule, for any numbers that a server might hand out, also the same one
// several times.
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
				t.Fatalf("%v waits for %v, which is not an older contender", me.Seq, b)
			}
			for _, n := range queue {
				if b.Seq < n.Seq && n.Seq < me.Seq {
					t.Fatalf("%v waits for %v, though %v is nearer", me.Seq, b, n)
				}
			}
		}
	})
}

// TestTheNumberDecidesAndNotTheText: what stands before the number is a random GUID, or another client's idea of a name, and sorts
// in any way.
func TestTheNumberDecidesAndNotTheText(t *testing.T) {
	var orders [][]string
	var permute func(rest, done []string)
	permute = func(rest, done []string) {
		if len(rest) == 0 {
			orders = append(orders, append([]string(nil), done...))
		}
		for i, head := range rest {
			others := append(append([]string(nil), rest[:i]...), rest[i+1:]...)
			permute(others, append(done, head))
		}
	}
	permute([]string{"_c_0a-lock-", "_c_f7-lock-", "lock-", "x-17-"}, nil)
	for _, heads := range orders {
		var queue []events.Name
		for i, seq := range []string{"0000000007", "0000000008", "0000000010", "0000000100"} {
			name, ok := events.ParseName(heads[i] + seq)
			if !ok {
				t.Fatalf("%s%s is no contender", heads[i], seq)
			}
			queue = append(queue, name)
		}
		for i, me := range queue {
			answer := Mutex{}.Blockers(queue, me)
			if i == 0 && len(answer) > 0 || i > 0 && (len(answer) != 1 || answer[0] != queue[i-1]) {
				t.Errorf("in %v %q is blocked by %v", queue, me.Text, answer)
			}
			if got := ahead(Mutex{}, queue, me); got != i {
				t.Errorf("in %v %d stand ahead of %q", queue, got, me.Text)
			}
		}
	}
}

// queueOf returns a machine that waits behind so many contenders, and its node.
func queueOf(t *testing.T, ahead int) (m Machine, own events.Name) {
	t.Helper()
	own = contender(int64(ahead))
	l := Listed{Epoch: 1, Own: Own{Name: own, Owner: 77, Token: 500}}
	for i := range ahead + 1 {
		l.Queue = append(l.Queue, contender(int64(i)))
	}
	m = NewMachine(Mutex{})
	for _, in := range []Input{opened, Started{}, Created{Epoch: 1, Node: own}, l} {
		m, _ = m.Step(in)
	}
	if m.State() != Waiting {
		t.Fatalf("behind %d, after its listing: %v, want %v", ahead, m.State(), Waiting)
	}
	return m, own
}

// TestWaiterWalksBack: all contenders ahead give up, the nearest first. The waiter asks for the next one as far as it remembers,
// then it lists. It claims as soon as it is sure that no contender is left.
func TestWaiterWalksBack(t *testing.T) {
	for ahead := 1; ahead <= remembered+2; ahead++ {
		m, own := queueOf(t, ahead)
		for gone := ahead - 1; ; gone-- {
			var effects []Effect
			m, effects = m.Step(Gone{1, contender(int64(gone)).Text})
			if len(effects) != 1 {
				t.Fatalf("behind %d, when #%d is gone: it does %v, want one thing", ahead, gone, effects)
			}
			walked := ahead - 1 - gone
			var want Effect = Advance{Epoch: 1, Node: own.Text, Past: contender(int64(gone)).Text, Next: contender(int64(gone - 1)).Text}
			switch {
			case gone == 0 && walked < remembered:
				want = Claim{Epoch: 1, Node: own.Text}
			case walked == remembered-1:
				want = List{Epoch: 1, Attempt: 1}
			}
			if effects[0] != want {
				t.Fatalf("behind %d, without #%d: %s, want %s", ahead, gone, effectText(effects[0]), effectText(want))
			}
			if m.State() != Advancing {
				break
			}
			m, effects = m.Step(Advanced{Epoch: 1, Stands: true})
			if m.State() != Waiting || len(effects) > 0 {
				t.Fatalf("behind %d, when #%d is known to stand: %v %v, want %v and no effect", ahead, gone-1, m.State(), effects, Waiting)
			}
		}
	}
}

// TestHolderRemembersNoContender: a machine remembers of others only what it may still ask for, so locks that are held for long keep no
// queues in memory.
func TestHolderRemembersNoContender(t *testing.T) {
	for name, inputs := range situations() {
		m := machineAfter(inputs)
		if m.State() != Waiting && m.State() != Advancing && (m.older != neighbours{} || m.ahead != 0) {
			t.Errorf("%s: it remembers %v and %d ahead, want no contender", name, m.older, m.ahead)
		}
	}
}

func TestNearestFollowsTheRule(t *testing.T) {
	twin := events.Name{Text: "twin-lock-0000000004", Kind: events.KindLock, Seq: 4}
	for _, c := range []struct {
		queue []events.Name
		want  neighbours
	}{
		{nil, neighbours{}},
		{[]events.Name{ours, later}, neighbours{}},
		{[]events.Name{ahead3, ours, ahead4}, neighbours{ahead4.Text, ahead3.Text}},
		{[]events.Name{ahead4, twin, ahead3}, neighbours{ahead4.Text, ahead3.Text}},
		{[]events.Name{contender(0), contender(1), contender(2), ahead3, ahead4}, neighbours{ahead4.Text, ahead3.Text, contender(2).Text, contender(1).Text}},
	} {
		if got := nearest(Mutex{}, c.queue, ours); got != c.want {
			t.Errorf("the nearest of %v are %v, want %v", c.queue, got, c.want)
		}
	}
}

func TestOnlyAWriteNodeIsReplaceable(t *testing.T) {
	for kind := events.KindLock; kind <= events.KindWriteLock; kind++ {
		got := [...]bool{replaceable(Mutex{}, kind), replaceable(Write{}, kind), replaceable(Read{}, kind)}
		if want := [...]bool{kind == events.KindWrite, kind == events.KindWrite, false}; got != want {
			t.Errorf("a node of kind %v is replaceable for a mutex, a writer, a reader: %v, want %v", kind, got, want)
		}
	}
}
