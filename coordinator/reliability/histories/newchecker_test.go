package histories

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// refuses fails the test unless the whole is legal, and each of the others is not.
func refuses(t *testing.T, whole play, flaws map[string]play) {
	t.Helper()
	if got := whole.verdict(t); got != porcupine.Ok {
		t.Fatalf("what is in order is %s", got)
	}
	for name, flawed := range flaws {
		if got := flawed.verdict(t); got != porcupine.Illegal {
			t.Errorf("%s is %s", name, got)
		}
	}
}

// at is the operation at another path, beside one more.
func (op operation) at(path string) operation {
	op.Path, op.With = path, 1
	return op
}

// Two want the same two locks together, and one of the two locks is had alone in between.
func TestAFlawInAHistoryOfMultiLocksIsFound(t *testing.T) {
	var (
		both  = operation{Worker: 0, Round: 1, Token: 10, Accepted: true}
		alone = operation{Worker: 1, Round: 1, Token: 20, Path: "/b", Accepted: true}
		next  = operation{Worker: 2, Round: 1, Token: 30}
	)
	together := func(p play, op operation, k kind) play { return p.add(op.at("/a"), k).add(op.at("/b"), k) }
	had := together(together(play{}, both, kindAcquire), both, kindHold)
	over := together(had, both, kindRelease)
	taken := over.add(alone, kindAcquire)
	whole := together(together(taken.add(alone, kindWrite).add(alone, kindRelease), next, kindAcquire), next, kindLose)
	late := both.at("/b")
	late.Worker, late.Token = 4, 19
	refuses(t, whole, map[string]play{
		"one of them beside the holder of both":   had.add(alone, kindAcquire),
		"both beside the holder of one":           together(taken, next, kindAcquire),
		"one that is valid for both, and gone":    together(taken, both, kindHold),
		"a token that is old at one of the paths": taken.add(alone, kindRelease).add(late, kindAcquire),
		"a late write at one of them":             taken.add(alone, kindWrite).add(both.at("/b"), kindWrite),
	})
}

// A reader beside one who is upgradable, and becomes the writer when the reader has left, and goes back.
func TestAFlawInAHistoryOfUpgradesIsFound(t *testing.T) {
	var (
		up      = operation{Worker: 0, Round: 1, Token: 10, Shares: true, Upgrades: true}
		upgrade = operation{Worker: 0, Round: 2, Token: 20, From: 1, Accepted: true}
		reader  = operation{Worker: 1, Round: 1, Token: 20, Shares: true}
		second  = operation{Worker: 2, Round: 1, Token: 25, Shares: true, Upgrades: true, Value: 20}
		writer  = operation{Worker: 3, Round: 1, Token: 40, Accepted: true}
		member  = operation{Worker: 4, Round: 1, Token: 15, Shares: true, With: 1, Value: 20}
	)
	with := func(op operation, change func(*operation)) operation { change(&op); return op }
	beside := play{}.add(up, kindAcquire).add(reader, kindAcquire).add(reader, kindRead).add(up, kindRead).add(up, kindHold)
	left := beside.add(reader, kindRelease)
	written := left.add(upgrade, kindAcquire).add(up, kindHold).add(upgrade, kindHold).add(upgrade, kindWrite)
	back := written.add(upgrade, kindRelease).add(with(up, func(o *operation) { o.Value = 20 }), kindRead)
	free := back.add(up, kindRelease)
	whole := free.add(member, kindAcquire).add(member, kindRead).add(member, kindRelease).
		add(second, kindAcquire).add(second, kindRead).add(second, kindLose).add(writer, kindAcquire).add(writer, kindRelease)
	again := func(op operation) operation { op.Round, op.Token = 2, 30; return op } // older than the writer
	refuses(t, whole, map[string]play{
		"a member behind the place of a writer":             whole.add(again(member), kindAcquire),
		"an upgradable one behind that place":               whole.add(again(second), kindAcquire),
		"a member beside the upgrade alone":                 written.add(up, kindRelease).add(member, kindAcquire),
		"two who are upgradable":                            beside.add(second, kindAcquire),
		"an upgradable reader beside a writer":              play{}.add(writer, kindAcquire).add(second, kindAcquire),
		"a writer beside an upgradable reader":              left.add(writer, kindAcquire),
		"an upgrade beside a reader":                        beside.add(upgrade, kindAcquire),
		"a reader beside the upgrade":                       written.add(with(reader, func(o *operation) { o.Round, o.Token = 2, 30 }), kindAcquire),
		"a member of a multi-lock beside the upgrade":       written.add(member, kindAcquire),
		"a member of a multi-lock beside an upgradable one": back.add(member, kindAcquire),
		"an upgradable reader beside the upgrade":           written.add(up, kindRelease).add(second, kindAcquire),
		"a writer between":                                  left.add(up, kindRelease).add(writer, kindAcquire).add(writer, kindRelease).add(with(upgrade, func(o *operation) { o.Token = 50 }), kindAcquire),
		"an upgrade of what is lost":                        left.add(up, kindLose).add(upgrade, kindAcquire),
		"an upgrade of what is somebody else's":             left.add(with(upgrade, func(o *operation) { o.Worker = 5 }), kindAcquire),
		"an upgrade with a token that is old":               left.add(with(upgrade, func(o *operation) { o.Token = 19 }), kindAcquire),
		"a writer behind the place of an upgrade":           free.add(with(writer, func(o *operation) { o.Token = 20 }), kindAcquire),
		"a reader behind the place of an upgrade":           free.add(with(reader, func(o *operation) { o.Round, o.Token = 2, 20 }), kindAcquire),
		"an upgradable reader that is lost twice":           left.add(up, kindLose).add(up, kindLose),
		"an upgradable reader valid behind the end":         free.add(up, kindHold),
		"a value that is older than the upgrade":            written.add(upgrade, kindRelease).add(up, kindRead),
	})
}

// Somebody asks for a lock of each kind: its holder loses it, and is gone when Revoke returns.
func TestAFlawInAHistoryOfRevocationsIsFound(t *testing.T) {
	for _, path := range []string{"/a", "/rw", "/permits"} {
		one := operation{Path: path, Worker: 1, Round: 1, Token: 10, Permits: mostPermits}
		next := operation{Path: path, Worker: 2, Round: 1, Token: 20, Permits: mostPermits}
		ask := operation{Path: path}
		revoked := func(op operation) operation { op.Revoked = true; return op }
		held := play{}.add(one, kindAcquire)
		asked := held.add(ask, kindAsk).add(one, kindHold)
		over := asked.add(revoked(one), kindLose)
		whole := over.add(next, kindAcquire).add(one, kindGone).add(next, kindHold).add(ask, kindAsk).add(next, kindRelease).
			add(next, kindGone)
		refuses(t, whole, map[string]play{
			path + ": nobody has asked":                  held.add(revoked(one), kindLose),
			path + ": somebody has asked the one before": over.add(next, kindAcquire).add(revoked(next), kindLose),
			path + ": valid when he is revoked":          over.add(one, kindHold),
			path + ": not gone when Revoke returns":      asked.add(one, kindGone),
			path + ": revoked twice":                     over.add(revoked(one), kindLose),
			path + ": the next one beside who was asked": asked.add(next, kindAcquire),
		})
	}
}
