package recipes

import (
	"math/bits"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about what the explorer's worlds know of wishes to have a lock back.

const anyTime = 3 // of a wish without a moment; 1 is soon, and 2 later

// wishes has two halves: the higher one is what a client has heard about its node, the
// lower one what its caller was told. Each is the soonest of the moments, and 0 for
// nothing.
type wishes uint8 //nolint:recvcheck // two of its methods change it in place

func (s wishes) told() uint8 { return uint8(s) & 0xf }

func (s wishes) heard() uint8 { return uint8(s) >> 4 }

// due returns the moment for which the shell has set its timer, or 0.
func (s wishes) due() uint8 {
	if s.told() == anyTime {
		return 0
	}
	return s.told()
}

func (s *wishes) hear(by uint8) {
	if by == 0 {
		by = anyTime
	}
	if s.heard() == 0 || by < s.heard() {
		*s = wishes(by<<4 | s.told())
	}
}

// tell notes what the caller is told, and reports whether that is new to it.
func (s *wishes) tell(by uint8) bool {
	if by == 0 {
		by = anyTime
	}
	news := s.told() == 0 || by < s.told()
	*s = *s&^0xf | wishes(by)
	return news
}

// wishes are how many may still be written: without a moment, with a soon one, and with a
// later one.
func (b *budget) wishes() [3]*uint8 { return [3]*uint8{&b.wish, &b.soon, &b.late} }

func enabledWishes(w *world, steps []step) []step {
	for by, left := range w.left.wishes() {
		for m := w.past[0] &^ w.outsiders(); *left > 0 && m != 0; m &= m - 1 {
			steps = append(steps, step{kind: stepAskedBack + stepKind(by), node: uint8(bits.TrailingZeros8(m))})
		}
	}
	return steps
}

// askBack writes a wish to a node. A session that watches the node reads its data, and is
// told.
func (e *environment) askBack(w *world, node, by uint8) {
	w.wished |= 1 << node
	for c := range w.clients {
		if cl := &w.clients[c]; cl.conn == connUp && cl.closed == 0 && cl.machine != machineOver {
			e.feed(w, c, AskedBack{Epoch(cl.epoch), e.nameOf(w, node), Moment(by)})
		}
	}
}

// heed checks what a machine makes of wishes. Its caller is told of the soonest wish
// about the node by which it holds, and of nothing else. At that moment it does not hold
// any more. Before that moment no wish is a reason for a loss.
func (e *environment) heed(w *world, c int, before uint32, in Input, effects []Effect) violation {
	cl := &w.clients[c]
	own := e.traits[cl.machine].own
	switch was := e.traits[before].own; {
	case was == own || was == noNode:
	case own != noNode && w.forms[own].permit() && !w.forms[was].permit():
		w.wished |= w.wished >> was & 1 << own // a wish about the place in a semaphore's queue goes with it
	default:
		cl.wishes &= 0xf // another node is another wish
	}
	if m := &e.machines[cl.machine]; own != noNode && m.why == 0 {
		if asked, is := in.(AskedBack); is && asked.Node.Same(m.own.Name) {
			cl.wishes.hear(uint8(asked.By))
		}
	}
	_, overdue := in.(Overdue)
	for _, ef := range effects {
		switch ef := ef.(type) {
		case Revoke:
			if own == noNode || w.wished&(1<<own) == 0 {
				return unasked
			}
		case Lose:
			if ef.Reason == events.ReasonRevoked && !overdue {
				return unfounded
			}
		}
	}
	if !cl.holds() {
		return ""
	}
	if overdue {
		return overstayed
	}
	if heard := cl.wishes.heard(); heard != 0 && (cl.wishes.told() == 0 || cl.wishes.told() > heard) {
		return unheeded
	}
	return ""
}

// TestAWishChangesNothingElse: a machine that hears that its lock is asked back goes on
// as if it had not heard. There is one difference: the caller is told, once, and not
// before the Grant.
func TestAWishChangesNothingElse(t *testing.T) {
	steps := 0
	for _, c := range []struct {
		rule       Rule
		situations cases
	}{
		{Mutex{}, situations()}, {Mutex{Kazoo: true}, situations()}, {Read{}, situations()}, {Write{}, situations()},
		{Unfair{}, singleSituations()}, {permitsOf, semaphoreSituations()},
	} {
		for name, inputs := range c.situations {
			plain, _ := run(NewMachine(c.rule), inputs...)
			for _, node := range []events.Name{plain.own.Name, ahead3, {}, {Text: "no-such-node"}} {
				own := node.Text != "" && node.Same(plain.own.Name)
				asked, effects := after(plain, AskedBack{plain.epoch, node, 0})
				told := len(effects) == 1 && effects[0] == Effect(Revoke{})
				want := own && plain.state == Held && !plain.asked && plain.why == 0
				if told != want || !told && len(effects) > 0 || !own && asked != plain {
					t.Fatalf("%T, %s, asked for %q: it does %q, want a Revoke: %v, and nothing else", c.rule, name, node.Text, texts(effects), want)
				}
				if _, again := after(asked, AskedBack{plain.epoch, node, 0}); len(again) > 0 {
					t.Fatalf("%T, %s, asked for %q again: it does %q, want nothing", c.rule, name, node.Text, texts(again))
				}
				steps += sameButForTheWish(t, []any{name}, plain, asked, 2)
			}
		}
	}
	t.Logf("%d steps", steps)
}

// sameButForTheWish gives two machines the same inputs, so many in a row, and returns how
// often.
func sameButForTheWish(t *testing.T, where []any, plain, asked Machine, deep int) (steps int) {
	if asked == plain {
		return 0
	}
	alike := func(e Effect) bool { return e == Effect(Revoke{}) }
	for _, in := range everyInput() {
		p, effects := after(plain, in)
		a, besides := after(asked, in)
		text := append(slices.Clip(where), plain.state, in)
		granted := slices.ContainsFunc(besides, func(e Effect) bool { _, ok := e.(Grant); return ok })
		if told := slices.ContainsFunc(besides, alike); told && asked.state == Held && asked.asked || told && !granted && a.state != Held {
			t.Fatalf("%v: asked back, it does %q, want a Revoke once, and with a Grant or while it holds", text, texts(besides))
		}
		if !slices.Equal(slices.DeleteFunc(effects, alike), slices.DeleteFunc(besides, alike)) {
			t.Fatalf("%v: asked back, it does %q, want the same as not asked, %q, but for a Revoke", text, texts(besides), texts(effects))
		}
		same := a
		if same.asked = p.asked; same != p {
			t.Fatalf("%v: asked back, it is %+v, want the same as not asked, %+v, but for that", text, a, p)
		}
		steps++
		if deep > 1 && p != plain {
			steps += sameButForTheWish(t, text, p, a, deep-1)
		}
	}
	return steps
}
