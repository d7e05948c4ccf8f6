package recipes

import (
	"math/bits"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// This file is about revocation requests in the explorer's worlds.

const anyTime = 3 // a revocation without a deadline; 1 is a soon one, and 2 a later one

// revocations has two halves: the higher one is what a client knows about its node, and
// the lower one what its caller knows. Each is the earliest deadline, or 0 for no
// request.
type revocations uint8 //nolint:recvcheck // two of its methods change it in place

func (s revocations) told() uint8 { return uint8(s) & 0xf }

func (s revocations) heard() uint8 { return uint8(s) >> 4 }

// due returns the deadline for which the shell has set its timer, or 0.
func (s revocations) due() uint8 {
	if s.told() == anyTime {
		return 0
	}
	return s.told()
}

func (s *revocations) hear(by uint8) {
	if by == 0 {
		by = anyTime
	}
	if s.heard() == 0 || by < s.heard() {
		*s = revocations(by<<4 | s.told())
	}
}

// tell notes that a request is reported to the caller, and returns whether it is new to
// the caller.
func (s *revocations) tell(by uint8) bool {
	if by == 0 {
		by = anyTime
	}
	news := s.told() == 0 || by < s.told()
	*s = *s&^0xf | revocations(by)
	return news
}

// revocations returns how many requests may still be written: without a deadline, with a
// soon one, and with a later one.
func (b *budget) revocations() [3]*uint8 { return [3]*uint8{&b.revocation, &b.soon, &b.late} }

func enabledRevocations(w *world, steps []step) []step {
	for by, left := range w.left.revocations() {
		for m := w.past[0] &^ w.outsiders(); *left > 0 && m != 0; m &= m - 1 {
			steps = append(steps, step{kind: stepRevoke + stepKind(by), node: uint8(bits.TrailingZeros8(m))})
		}
	}
	return steps
}

// askBack writes a revocation request to a node. Sessions that watch the node read it,
// and notify their machines.
func (e *environment) askBack(w *world, node, by uint8) {
	w.requested |= 1 << node
	for c := range w.clients {
		if cl := &w.clients[c]; cl.conn == connUp && cl.closed == 0 && cl.machine != machineOver {
			e.feed(w, c, RevocationRequested{Epoch(cl.epoch), e.nameOf(w, node), Moment(by)})
		}
	}
}

// heed checks how a machine handles revocation requests. Its caller is notified of the
// earliest deadline for the node with which it holds, and of nothing else. At that
// deadline it no longer holds. Before the deadline, no request is a reason for a loss.
func (e *environment) heed(w *world, c int, before uint32, in Input, effects []Effect) violation {
	cl := &w.clients[c]
	own := e.traits[cl.machine].own
	switch was := e.traits[before].own; {
	case was == own || was == noNode:
	case own != noNode && w.forms[own].permit() && !w.forms[was].permit():
		w.requested |= w.requested >> was & 1 << own // a request about the place in a semaphore's queue passes to the permits
	default:
		cl.revocations &= 0xf // requests for another node do not count
	}
	if m := &e.machines[cl.machine]; own != noNode && m.why == 0 {
		if asked, is := in.(RevocationRequested); is && asked.Node.Same(m.own.Name) {
			cl.revocations.hear(uint8(asked.By))
		}
	}
	_, overdue := in.(Overdue)
	for _, ef := range effects {
		switch ef := ef.(type) {
		case Revoke:
			if own == noNode || w.requested&(1<<own) == 0 {
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
	if heard := cl.revocations.heard(); heard != 0 && (cl.revocations.told() == 0 || cl.revocations.told() > heard) {
		return unheeded
	}
	return ""
}

// TestARevocationChangesNothingElse: a machine that receives a revocation request
// continues as if it had not. The only difference is that the caller is notified, once,
// and not before the Grant.
func TestARevocationChangesNothingElse(t *testing.T) {
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
				asked, effects := after(plain, RevocationRequested{plain.epoch, node, 0})
				told := len(effects) == 1 && effects[0] == Effect(Revoke{})
				want := own && plain.state == Held && !plain.asked && plain.why == 0
				if told != want || !told && len(effects) > 0 || !own && asked != plain {
					t.Fatalf("%T, %s, asked for %q: it does %q, want a Revoke: %v, and nothing else", c.rule, name, node.Text, texts(effects), want)
				}
				if _, again := after(asked, RevocationRequested{plain.epoch, node, 0}); len(again) > 0 {
					t.Fatalf("%T, %s, asked for %q again: it does %q, want nothing", c.rule, name, node.Text, texts(again))
				}
				steps += sameButForTheWish(t, []any{name}, plain, asked, 2)
			}
		}
	}
	t.Logf("%d steps", steps)
}

// sameButForTheWish gives two machines the same inputs, up to deep in a row, and returns
// the number of steps.
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
