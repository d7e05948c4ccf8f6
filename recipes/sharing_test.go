package recipes

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// everyKind gives the contenders of a queue all the kinds there are in turn.
func everyKind(seq int) events.Kind { return events.KindLock + events.Kind(seq) }

// TestWhoBlocksAReader: whoever came before and does not read, whatever library it is of.
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

// TestWhoBlocksAWriter: whoever came before.
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

// TestThoseWhoShareANumber: the read nodes of a writer bear its number, and nobody else may bear another's.
func TestThoseWhoShareANumber(t *testing.T) {
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

// TestWhosePlaceMayBeTaken: that of a write node, by a reader; whom readers do not mind does not ask.
func TestWhosePlaceMayBeTaken(t *testing.T) {
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
