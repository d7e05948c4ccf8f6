package recipes

import (
	"testing"

	"github.com/zkgrant/zkgrant/events"
)

// queueOf returns a machine that waits behind so many, and its node.
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
		t.Fatalf("behind %d, when it has listed: %v, want %v", ahead, m.State(), Waiting)
	}
	return m, own
}

// TestWaiterWalksBack: everybody ahead gives up, the nearest first. As far as the
// waiter remembers it asks for the next one, then it lists; and it claims as soon as
// it is sure that nobody is left.
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

// TestHolderRemembersNobody: what a machine remembers of others is only what it may
// still ask for, so that locks that are held for long keep no queues in memory.
func TestHolderRemembersNobody(t *testing.T) {
	for name, inputs := range situations() {
		m := machineAfter(inputs)
		if m.State() != Waiting && m.State() != Advancing && (m.older != neighbours{} || m.ahead != 0) {
			t.Errorf("%s: it remembers %v and %d ahead, want nobody", name, m.older, m.ahead)
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
