package recipes

import (
	"slices"

	"github.com/zkgrant/zkgrant/events"
)

// Upgradable is the side of a read/write lock that is held by one at a time, beside any number of
// readers, and whose holder may become the writer without letting another one in between. Whoever does not know of
// it, as Curator, takes it for a writer.
type Upgradable struct{}

// Kind is that of an upgradable reader.
func (Upgradable) Kind() events.Kind { return events.KindUpgradable }

// Exclusive is false.
func (Upgradable) Exclusive() bool { return false }

// Blockers returns the nearest older contender that does not read, another upgradable one included.
func (Upgradable) Blockers(queue []events.Name, me events.Name) []events.Name {
	return nearestOlder(queue, me, func(k events.Kind) bool { return !k.Reads() })
}

// Upgrade is an upgradable reader that asks to write. It keeps its node, which from then on is called U, and has a second
// one, X, at the end of the queue, made in one transaction with a check of U. While U stands no writer enters, be he ahead of X
// or behind it; while X stands no reader of ours enters who comes behind it. X is granted by a claim that checks both,
// when no reader is left of those who may hold:
//
//   - Whoever reads and is older than U.
//   - Our readers behind U, for which U is no writer. Curator's take it for one, and wait for it, and so do those that are
//     members of a multi-lock: X waiting for them would be a deadlock. Of readers with names of other forms nobody knows whether they see U; X waits for them, which is
//     safe.
//   - But not for our readers behind a writer W who stands behind U: they wait for W, and W waits for U.
//
// W may give up, and then a reader R behind it could enter beside X, which has not awaited it: 1. U, W and R
// stand in the queue in this order; 2. X is made, and lists: W stands, so R is none of those it waits for; 3. W gives up;
// 4. R, which has waited for W alone, enters; 5. X, of which the last reader has left, enters as well. So whoever reads,
// and has seen a U ahead, lists whenever that which it waits for is gone; and if it then sees an upgrade behind itself while
// there is somebody upgradable ahead, it gives its node up, and queues up behind X. There are two cases:
//
//   - When X listed, W was gone. Then X waits for R, and goes on when R gives way. R need not give way, but cannot know.
//   - It was not. Then W's end is younger than X, and a listing that does not show W any more shows X.
//
// The same is true of a reader's first listing. One that does not show X is older than X, and has shown no
// writer between U and R, so X will find R, and none, and wait.
//
// X leaves no word as a past holder, which would say that nobody older is left: U is.
//
// Its token is not that of U, which is smaller than those of readers who came in beside it; and not that of X, which is
// greater than those of writers who wait between the two. It is as great as possible and smaller than that of
// the first such writer who stands; see session. That is found with a listing, and so whoever has waited for another upgrade lists again:
// 1. X and Y upgrade U, with a writer W between U and both, and a reader whom X waits for leaves; 2. Y lists, and finds W; 3. W gives up;
// 4. X lists, finds nobody between, is granted with the greater token, and leaves; 5. Y would be granted with the smaller one.
type Upgrade struct {
	Of int64 // the number of U
}

// Kind is that of an upgrade.
func (Upgrade) Kind() events.Kind { return events.KindUpgrade }

// Exclusive is false: while it holds nobody else does, but somebody older is left when it leaves, its own U.
func (Upgrade) Exclusive() bool { return false }

// Blockers returns the nearest of those it waits for.
func (u Upgrade) Blockers(queue []events.Name, me events.Name) []events.Name {
	return nearestOlder(u.awaited(queue, me), me, func(events.Kind) bool { return true })
}

// awaited returns all of them.
func (u Upgrade) awaited(queue []events.Name, me events.Name) (all []events.Name) {
	writer := me.Seq // the first behind U
	for _, c := range queue {
		if c.Seq > u.Of && c.Seq < writer && !c.Kind.Reads() && c.Kind != events.KindUpgradable {
			writer = c.Seq
		}
	}
	for _, c := range queue {
		switch {
		case c.Seq >= me.Seq:
		case c.Seq < u.Of, c.Kind == events.KindUpgrade: // of the same U, or what another one has left behind
			all = append(all, c)
		case c.Kind == events.KindRead:
			if besides(c) && c.Seq < writer {
				all = append(all, c)
			}
		case c.Kind.Reads():
			all = append(all, c)
		}
	}
	return all
}

// Between returns the writers who wait between U and the upgrade, the oldest first: the token is to be smaller than that of the first
// who stands.
func (u Upgrade) Between(queue []events.Name, me events.Name) (writers []events.Name) {
	for _, c := range queue {
		if u.Of < c.Seq && c.Seq < me.Seq && !c.Kind.Reads() && c.Kind != events.KindUpgradable && c.Kind != events.KindUpgrade {
			writers = append(writers, c)
		}
	}
	slices.SortFunc(writers, events.CompareNames)
	return writers
}

// upgrades tells whether the machine is one of an upgrade.
func (m *Machine) upgrades() bool {
	_, ok := m.rule.(Upgrade)
	return ok
}

// besideUpgradable tells whether the rule is that of a reader and an upgradable one is ahead.
func besideUpgradable(rule Rule, queue []events.Name, me events.Name) bool {
	return reads(rule) && len(nearestOlder(queue, me, isUpgradable)) > 0
}

// overtaken tells whether a reader in whose way nobody stands is to give way to an upgrade.
func overtaken(rule Rule, queue []events.Name, me events.Name) bool {
	if !besideUpgradable(rule, queue, me) {
		return false
	}
	for _, c := range queue {
		if c.Kind == events.KindUpgrade && c.Seq > me.Seq {
			return true
		}
	}
	return false
}

// besides tells whether a reader is one who enters beside somebody upgradable. Others take that one for a writer.
func besides(reader events.Name) bool {
	marks, ours := events.MarksOf(reader.Text)
	return ours && marks&events.MarkStrict == 0
}

func reads(rule Rule) bool {
	_, ok := rule.(Read)
	return ok
}

func isUpgradable(k events.Kind) bool { return k == events.KindUpgradable }
