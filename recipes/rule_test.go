package recipes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

const most7 = 7 // contenders in the exhaustive test

// The kinds of contenders, of any library, that read, and the kinds that do not.
var (
	readKinds  = []events.Kind{events.KindRead, events.KindKazooRead, events.KindRecipeRead}
	writeKinds = []events.Kind{
		events.KindLock, events.KindKazooLock, events.KindWrite, events.KindRecipeWrite, events.KindWriteLock,
	}
)

// queues yields queues of up to seven contenders, in some order. Some of the contenders
// read. Their names are in the reverse order of their numbers.
func queues(yield func(queue []events.Name) bool) {
	for mix := range 1 << most7 {
		for set := mix % 3; set < 1<<most7; set += 3 { // all sets, each with a third of the mixes
			var queue []events.Name
			for seq := range most7 {
				kinds := writeKinds
				if mix&(1<<seq) != 0 {
					kinds = readKinds
				}
				text := fmt.Sprintf("%c-lock-%010d", 'z'-seq, seq)
				if set&(1<<seq) != 0 {
					queue = append(queue, events.Name{Text: text, Kind: kinds[(seq+mix)%len(kinds)], Seq: int64(seq)})
				}
			}
			rotate := mix % max(1, len(queue))
			if !yield(append(queue[rotate:], queue[:rotate]...)) {
				return
			}
		}
	}
}

// inTheWay returns the older contenders that exclude me, nearest first.
func inTheWay(rule Rule, queue []events.Name, me events.Name) (all []string) {
	for seq := me.Seq - 1; seq >= 0; seq-- {
		for _, n := range queue {
			if n.Seq == seq && (rule != Rule(Read{}) || !slices.Contains(readKinds, n.Kind)) {
				all = append(all, n.Text)
			}
		}
	}
	return all
}

// TestTheNearestOlderContenderBlocks: of the contenders that exclude me, the nearest
// older one blocks me while it exists, whichever others leave or stay. Each waiter for a
// mutex watches another node.
func TestTheNearestOlderContenderBlocks(t *testing.T) {
	for queue := range queues {
		for seq := range int64(most7) {
			for _, rule := range []Rule{Mutex{}, Write{}, Read{}} {
				me := events.Name{Text: "me", Kind: rule.Kind(), Seq: seq}
				want := inTheWay(rule, queue, me)
				var blockers []string
				for _, n := range rule.Blockers(queue, me) {
					blockers = append(blockers, n.Text)
				}
				n := ahead(rule, queue, me)
				if !slices.Equal(blockers, want[:min(1, len(want))]) || n != len(want) {
					t.Fatalf("%v: %T %d is blocked by %v, %d ahead; want %v", queue, rule, seq, blockers, n, want)
				}
				var remembers neighbours
				if copy(remembers[:], want); nearest(rule, queue, me) != remembers {
					t.Fatalf("%v: %T %d remembers %v, want %v", queue, rule, seq, nearest(rule, queue, me), remembers)
				}
			}
		}
	}
}

// TestWhoHoldsIsNotBlocked by the rule of its kind. The first in an election leads.
func TestWhoHoldsIsNotBlocked(t *testing.T) {
	for queue := range queues {
		var holders []events.Name
		for _, who := range queue {
			rule := Rule(Write{})
			if slices.Contains(readKinds, who.Kind) {
				rule = Read{}
			}
			free := len(inTheWay(rule, queue, who)) == 0
			if free {
				holders = append(holders, who)
			}
			first := len(inTheWay(Mutex{}, queue, who)) == 0
			got := [...]bool{Holds(Read{}, queue, who), Holds(Write{}, queue, who), Holds(Mutex{}, queue, who)}
			if got != [...]bool{free, free, first} {
				t.Fatalf("%v: %v holds, want %v, and %v by a mutex", queue, who, free, first)
			}
			if leader, ok := Leads(queue); !ok || (leader == who) != first {
				t.Fatalf("%v: %v leads (%v), want the first", queue, leader, ok)
			}
		}
		if got := Holders(queue); !slices.Equal(got, holders) {
			t.Fatalf("%v: %v hold, want %v", queue, got, holders)
		}
	}
	_, leads := Leads(nil)
	eventstest.Expect(t, !leads, "an empty queue has a leader")
}

// TestAWriterThatBecomesAReaderHolds with both of its nodes, and keeps the others out
// until the first is gone.
func TestAWriterThatBecomesAReaderHolds(t *testing.T) {
	write, read := events.Name{Text: "w", Kind: events.KindWrite, Seq: 3}, events.Name{Text: "r", Kind: events.KindRead, Seq: 3}
	queue := []events.Name{{Text: "x", Kind: events.KindRead, Seq: 4}, read, write}
	holds := slices.DeleteFunc(slices.Clone(queue), func(n events.Name) bool { return !Holds(Write{}, queue, n) })
	eventstest.Equal(t, holds, []events.Name{read, write}, "holders, each by the rule")
	eventstest.Equal(t, Holders(queue), []events.Name{read, write}, "holders")
}

// TestUsableFailsClosed: the numbers are in range, and no two contenders have the same
// one, except a writer and its readers.
func TestUsableFailsClosed(t *testing.T) {
	at5 := func(text string, k events.Kind) events.Name { return events.Name{Text: text, Kind: k, Seq: 5} }
	write, read := at5("a", events.KindWrite), at5("c", events.KindRead)
	end := contender(events.SeqEnd)
	for _, c := range []struct {
		queue []events.Name
		want  bool
	}{
		{[]events.Name{ours}, true}, {[]events.Name{ours, ahead3}, true}, {[]events.Name{ours, at5("e", events.KindLock)}, false},
		{[]events.Name{ours, {Text: "lock--000000001", Kind: events.KindLock, Seq: -1}}, false},
		{[]events.Name{ours, contender(events.SeqEnd - 1)}, true}, {[]events.Name{ours, end}, false}, {[]events.Name{end}, false},
		{[]events.Name{write, read}, true}, {[]events.Name{read, at5("d", events.KindRead)}, true},
		{[]events.Name{write, at5("b", events.KindWrite)}, false}, {[]events.Name{write, ours}, false}, {[]events.Name{read, ours}, false},
		{[]events.Name{read, at5("f", events.KindKazooRead)}, false}, {[]events.Name{write, at5("f", events.KindKazooRead)}, false},
	} {
		for _, me := range c.queue {
			eventstest.Equal(t, usable(Mutex{}, c.queue, me), c.want, "numbers of %v usable for %s", c.queue, me.Text)
		}
	}
}

// TestWaiterWalksBack: all contenders ahead give up, the nearest first. The waiter asks
// for the next one as far as it remembers, then it lists. It claims as soon as it is sure
// that no contender is left.
func TestWaiterWalksBack(t *testing.T) {
	for ahead := 1; ahead <= remembered+2; ahead++ {
		own := contender(int64(ahead))
		l := Listed{Epoch: 1, Own: Own{Name: own, Owner: 77, Token: 500}}
		for i := range ahead + 1 {
			l.Queue = append(l.Queue, contender(int64(i)))
		}
		m, _ := run(NewMachine(Mutex{}), opened, Started{}, Created{Epoch: 1, Node: own}, l)
		for gone := ahead - 1; ; gone-- {
			want := fmt.Sprintf("advance #%d past #%d to #%d", ahead, gone, gone-1)
			switch walked := ahead - 1 - gone; {
			case gone == 0 && walked < remembered:
				want = fmt.Sprintf("claim #%d", ahead)
			case walked == remembered-1:
				want = "list"
			}
			next, effects := after(m, Gone{1, contender(int64(gone))})
			if texts(effects) != want {
				t.Fatalf("behind %d, without #%d: %s, want %s", ahead, gone, texts(effects), want)
			}
			if next.state != Advancing {
				break
			}
			want = ""
			if gone == 1 {
				want = "keep warm"
			}
			if m, effects = after(next, Advanced{Epoch: 1, Stands: true}); m.state != Waiting || texts(effects) != want {
				t.Fatalf("behind %d, when #%d stands: %v, %s; want it to wait, %s", ahead, gone-1, m.state, texts(effects), want)
			}
		}
	}
}

// TestHolderRemembersNoContender: a machine remembers only contenders that it may still
// need, so locks that are held for long keep no queues in memory.
func TestHolderRemembersNoContender(t *testing.T) {
	for name, inputs := range situations() {
		m, _ := run(NewMachine(Mutex{}), inputs...)
		needs := m.state == Waiting || m.state == Advancing
		eventstest.Expect(t, needs || m.older == neighbours{} && m.ahead == 0,
			"%s: it remembers %v and %d ahead, want no contender", name, m.older, m.ahead)
	}
}

// TestWhichPlaceMayBeTaken: a reader takes the place of a write node. That does not
// matter to a contender that readers do not block.
func TestWhichPlaceMayBeTaken(t *testing.T) {
	for kind := range events.KindWriteLock + 1 {
		for _, c := range []struct {
			rule Rule
			want bool
		}{{Mutex{}, kind == events.KindWrite}, {Write{}, kind == events.KindWrite}, {Read{}, false}} {
			got := replaceable(c.rule, named(kind, 3).Text)
			eventstest.Equal(t, got, c.want, "the place of %v may be taken, for %T", kind, c.rule)
		}
	}
}

// TestAListedQueueIsNeverWrittenTo: many machines share one queue.
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
					name.Member = int32(i % 2)
				}
				queue = append(queue, name)
			}
			random.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
			before := slices.Clone(queue)
			own := queue[random.IntN(len(queue))]
			for _, inputs := range [][]Input{
				{Started{Try: true}}, {Started{}, Created{Epoch: 1, Node: own}}, {Started{}, Unknown{Epoch: 1, Op: OpCreate}},
			} {
				m, _ := run(NewMachine(rule), append([]Input{Opened{Epoch: 1, Session: 7}}, inputs...)...)
				after(m, Listed{Epoch: 1, Queue: queue, Own: Own{Name: own, Owner: 7, Token: 5}, Size: 3})
				after(m, Listed{Epoch: 1, Queue: queue})
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
