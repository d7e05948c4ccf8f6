package schedules

import (
	"context"
	"path"

	"github.com/zkgrant/zkgrant/events"
)

// An upgradable reader becomes a writer: it asks for the write side with its context, and releases that which it has when it
// may write, or when it has written, or does not wait for either.

// raise asks to write in the place of an upgradable reader who holds. The channel is closed when it is known what became of it.
func (k *worker) raise(ctx context.Context, below *tenure, s script) (known <-chan struct{}) {
	s.side, s.raises, s.enters, s.returns = upgraded, false, 0, k.oneIn(2)
	if s.hasty { // it outlives the upgradable reader
		ctx = context.WithoutCancel(ctx)
	}
	s.hasty = false
	r := k.ask(ctx, below.life, below.path, s)
	told := make(chan struct{}) // r is that of the goroutine which sees to it from then on
	r.writer, r.known = below, told
	k.world.count("upgrades", 1)
	k.world.crew.Go(func() { k.see(r) })
	return told
}

// stands notes that the Grant is for a node that belongs to an upgradable reader. If that had ended when it was
// asked for, it is for one of its own.
func (t *tenure) stands(below *tenure) {
	if kindOf(t.grant.Node) != events.KindUpgrade {
		t.side = alone
		return
	}
	t.below = below.grant.Node
	t.world().count("upgraded", 1)
}

// isAbove tells whether a tenure is the upgrade of another.
func (t *tenure) isAbove(other *tenure) bool { return t.below != "" && t.below == other.grant.Node }

// inOrder compares the places of two of which the second was granted later. An upgrade's token is smaller than that of who waits
// between, and may be that of the last reader before it, or of another upgrade. That of an upgradable reader is no fencing token.
func inOrder(a, b *tenure) bool {
	switch {
	case b.side == mayWrite && a.side == upgraded:
		return true
	case b.side == upgraded:
		return a.place <= b.place
	default:
		return a.place < b.place
	}
}

// overdue tells whether an upgrade was granted while a reader stands who came before its upgradable one.
func (t *tenure) overdue(child string) bool {
	return kindOf(child).Reads() && sequence(child) < sequence(t.below)
}

func kindOf(node string) events.Kind {
	name, _ := events.ParseName(path.Base(node))
	return name.Kind
}

// upgradesFirst orders an upgrade and an upgradable reader of the same instant, of which their places say nothing: it was
// granted, and released, and then the next one was.
func upgradesFirst(a, b *tenure) int {
	switch {
	case a.side == upgraded && b.side == mayWrite:
		return -1
	case a.side == mayWrite && b.side == upgraded:
		return 1
	default:
		return 0
	}
}
