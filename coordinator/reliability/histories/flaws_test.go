package histories

import (
	"os"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// play is successive operations on one lock, which is a read/write lock unless they say otherwise.
type play []operation

func (p play) add(op operation, k kind) play {
	if op.Kind = k; op.Path == "" {
		op.Path = "/rw"
	}
	op.Call = int64(10 * (len(p) + 1))
	op.Return = op.Call + 1
	return append(slices.Clip(p), op)
}

// with returns the operation with a change.
func with(op operation, change func(*operation)) operation { change(&op); return op }

// refuses fails the test unless the whole is legal, and each of the others is not.
func refuses(t *testing.T, whole play, flaws map[string]play) {
	t.Helper()
	if got, info := search(whole); got != porcupine.Ok {
		t.Fatalf("the whole: got %s, want %s; %s", got, porcupine.Ok, draw[operation](info, os.TempDir()))
	}
	for name, flawed := range flaws {
		if got, info := search(flawed); got != porcupine.Illegal {
			t.Errorf("%s: got %s, want %s; %s", name, got, porcupine.Illegal, draw[operation](info, os.TempDir()))
		}
	}
}

// One holds and loses a mutex, another one has it next, and a third one does not wait until then.
//
// A checker that calls everything legal would be as quiet as one that works. So it is shown histories with one flaw each, here and
// below.
func TestAFlawInAHistoryIsFound(t *testing.T) {
	of := func(worker int, token int64) operation {
		return operation{Path: "/a", Worker: worker, Round: 1, Token: token, Accepted: true}
	}
	first, second, third := of(0, 10), of(1, 20), of(2, 30)
	refused := func(op operation) operation { op.Accepted = false; return op }
	had := play{}.add(first, kindAcquire).add(first, kindHold).add(first, kindWrite)
	free := had.add(first, kindLose)
	next := free.add(second, kindAcquire).add(second, kindHold).add(second, kindWrite)
	whole := next.add(refused(first), kindWrite).add(second, kindTxn).add(third, kindRelease).add(second, kindRelease)
	refuses(t, whole, map[string]play{
		"two holders":                                   next.add(third, kindAcquire),
		"a token that does not grow":                    free.add(of(1, 10), kindAcquire),
		"a token that goes back":                        free.add(of(1, 9), kindAcquire),
		"a write accepted behind that of a newer token": next.add(first, kindWrite),
		"a transaction accepted beside a newer Grant":   next.add(first, kindTxn),
		"a write refused for nothing":                   next.add(refused(second), kindWrite),
		"a Grant behind a withdrawal":                   whole.add(third, kindAcquire),
		"valid while another worker holds":              next.add(first, kindHold),
		"a loss told behind the next Grant":             had.add(second, kindAcquire).add(first, kindLose),
		"two losses":                                    free.add(first, kindLose),
	})
	// On another path the same is legal: each lock has a history of its own.
	if got, _ := search(whole.add(of(0, 5).at("/b"), kindAcquire)); got != porcupine.Ok {
		t.Errorf("on two paths: got %s, want %s", got, porcupine.Ok)
	}
}

// A writer writes, readers come, one of them twice; another writer writes, becomes a reader, and lets others in.
func TestAFlawInAHistoryOfReadersIsFound(t *testing.T) {
	var (
		first  = operation{Worker: 0, Round: 1, Token: 10, Accepted: true}
		second = operation{Worker: 1, Round: 1, Token: 40, Accepted: true}
		a      = operation{Worker: 2, Round: 1, Token: 20, Shares: true, Value: 10}
		b      = operation{Worker: 3, Round: 1, Token: 30, Shares: true, Value: 10}
		twin   = operation{Worker: 1, Round: 2, Token: 40, Writer: 40, Shares: true, Value: 40}
		c      = operation{Worker: 0, Round: 2, Token: 50, Shares: true, Value: 40}
		late   = operation{Worker: 4, Round: 1, Token: 70, Accepted: true}
	)
	stale := func(op operation) operation { op.Accepted = false; return op }
	whole := play{}.
		add(first, kindAcquire).add(first, kindHold).add(first, kindWrite).add(first, kindRelease).
		add(a, kindAcquire).add(b, kindAcquire).add(a, kindRead).add(b, kindRead).add(a, kindHold).
		add(stale(first), kindWrite).add(b, kindLose).add(a, kindRead).add(a, kindRelease).
		add(second, kindAcquire).add(second, kindWrite).add(with(b, func(o *operation) { o.Value = 40 }), kindRead).
		add(twin, kindAcquire).add(twin, kindHold).add(second, kindHold).add(second, kindRelease).
		add(c, kindAcquire).add(c, kindRead).add(twin, kindRead).add(twin, kindRelease).add(c, kindHold).add(c, kindRelease).
		add(late, kindAcquire).add(late, kindRelease)
	until := func(op operation, k kind) play {
		i := slices.IndexFunc(whole, func(o operation) bool { return o.Worker == op.Worker && o.Round == op.Round && o.Kind == k })
		return whole[:i+1]
	}
	refuses(t, whole, map[string]play{
		"a writer beside readers":           until(b, kindAcquire).add(second, kindAcquire),
		"a writer beside one reader":        until(b, kindLose).add(second, kindAcquire),
		"a writer beside the twin":          until(second, kindRelease).add(late, kindAcquire),
		"a reader beside a writer":          until(first, kindAcquire).add(a, kindAcquire),
		"a reader beside twin and writer":   until(twin, kindHold).add(c, kindAcquire),
		"two writers":                       until(first, kindAcquire).add(second, kindAcquire),
		"a reader valid after its loss":     until(b, kindLose).add(b, kindHold),
		"a writer valid beside readers":     until(a, kindAcquire).add(first, kindHold),
		"a reader lost twice":               until(b, kindLose).add(b, kindLose),
		"a Grant behind a withdrawal":       until(first, kindRelease).add(a, kindRelease).add(a, kindAcquire),
		"a value that was not written":      until(b, kindAcquire).add(with(a, func(o *operation) { o.Value = 7 }), kindRead),
		"a value that is old":               until(c, kindAcquire).add(with(c, func(o *operation) { o.Value = 10 }), kindRead),
		"a twin's value that is old":        until(c, kindAcquire).add(with(twin, func(o *operation) { o.Value = 10 }), kindRead),
		"a late write beside a reader":      until(a, kindRead).add(first, kindWrite),
		"a writer behind its place":         until(a, kindRelease).add(with(second, func(o *operation) { o.Token = 15 }), kindAcquire),
		"a reader behind its place":         until(first, kindRelease).add(with(a, func(o *operation) { o.Token = 5 }), kindAcquire),
		"a place that another worker holds": until(second, kindAcquire).add(with(twin, func(o *operation) { o.Worker = 4 }), kindAcquire),
		"a twin with a token of its own":    until(second, kindWrite).add(with(twin, func(o *operation) { o.Token = 60 }), kindAcquire),
		"a place that was given up": until(late, kindRelease).add(with(twin, func(o *operation) { o.Round = 9 }),
			kindAcquire),
	})
}

// Two hold permits together, one that wants all of them waits, and one comes later.
func TestAFlawInAHistoryOfPermitsIsFound(t *testing.T) {
	of := func(worker int, token int64, permits int) operation {
		return operation{Path: "/permits", Worker: worker, Round: 1, Token: token, Permits: permits}
	}
	one, two, all, late := of(0, 10, 1), of(1, 20, mostPermits-1), of(2, 30, mostPermits), of(3, 40, 1)
	whole := play{}.add(one, kindAcquire).add(two, kindAcquire).add(one, kindHold).add(two, kindHold).add(one, kindLose).
		add(two, kindRelease).add(all, kindAcquire).add(all, kindHold).add(all, kindRelease).add(late, kindAcquire)
	refuses(t, whole, map[string]play{
		"more than there are":         whole[:2].add(late, kindAcquire),
		"all beside one":              whole[:5].add(all, kindAcquire),
		"one that has not left":       whole[:5].add(all, kindAcquire).add(two, kindHold),
		"valid behind the loss":       whole[:5].add(one, kindHold),
		"lost twice":                  whole[:5].add(one, kindLose),
		"one that overtakes":          whole[:1].add(late, kindAcquire).add(two, kindAcquire),
		"a Grant behind a withdrawal": whole[:1].add(two, kindRelease).add(two, kindAcquire),
	})
}

// at returns the operation at another path, in a multi-lock with one more member.
func (op operation) at(path string) operation {
	op.Path, op.With = path, 1
	return op
}

// Two want the same two locks together, and one of the two locks is held alone in between.
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

// Revoke asks for a lock of each kind: its holder loses it, and is gone when Revoke returns.
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
			path + ": Revoke was not called":                         held.add(revoked(one), kindLose),
			path + ": Revoke asked the holder before":                over.add(next, kindAcquire).add(revoked(next), kindLose),
			path + ": valid after it was revoked":                    over.add(one, kindHold),
			path + ": not gone when Revoke returns":                  asked.add(one, kindGone),
			path + ": revoked twice":                                 over.add(revoked(one), kindLose),
			path + ": the next one beside the holder that was asked": asked.add(next, kindAcquire),
		})
	}
}

// Three of one session hold a cached lock under one node, one of another session comes, and the first has a node once more.
func TestAFlawInAHistoryOfTurnsIsFound(t *testing.T) {
	of := func(worker int, round int32, token int64, turn uint64) operation {
		return operation{Path: "/cached", Worker: worker, Round: round, Token: token, Turn: turn, Accepted: true}
	}
	first, second, third, other, again := of(0, 1, 10, 0), of(1, 1, 10, 1), of(2, 1, 10, 2), of(3, 1, 20, 0), of(0, 2, 30, 0)
	refused := func(op operation) operation { op.Accepted = false; return op }
	one := play{}.add(first, kindAcquire).add(first, kindHold).add(first, kindWrite)
	free := one.add(first, kindRelease)
	two := free.add(second, kindAcquire).add(first, kindWrite).add(second, kindWrite)
	lost := two.add(refused(first), kindWrite).add(second, kindHold).add(second, kindTxn).add(second, kindLose)
	three := lost.add(third, kindAcquire).add(third, kindRelease)
	theirs := three.add(other, kindAcquire).add(other, kindWrite)
	whole := theirs.add(refused(third), kindWrite).add(other, kindRelease).add(again, kindAcquire).add(again, kindWrite)
	refuses(t, whole, map[string]play{
		"two of one session":                    one.add(second, kindAcquire),
		"one of another session beside a turn":  two.add(other, kindAcquire),
		"a turn that does not grow":             free.add(of(1, 1, 10, 0), kindAcquire),
		"a turn that goes back":                 three.add(of(4, 1, 10, 1), kindAcquire),
		"a turn under an older node":            theirs.add(other, kindRelease).add(of(4, 1, 10, 3), kindAcquire),
		"an older node with a greater turn":     free.add(of(4, 1, 9, 5), kindAcquire),
		"valid in the turn of another one":      two.add(first, kindHold),
		"a loss behind the next turn":           lost.add(third, kindAcquire).add(second, kindLose),
		"a late write of the same session":      two.add(first, kindWrite),
		"a late write of a turn":                theirs.add(third, kindWrite),
		"a write refused for a smaller turn":    two.add(refused(second), kindWrite),
		"a transaction of a turn that is over":  two.add(first, kindTxn),
		"a transaction beside the next session": theirs.add(third, kindTxn),
		"a turn granted behind a withdrawal":    free.add(second, kindRelease).add(second, kindAcquire),
		"a turn lost to a Revoke before it": free.add(operation{Path: "/cached"}, kindAsk).add(second, kindAcquire).
			add(with(second, func(o *operation) { o.Revoked = true }), kindLose),
		"a turn that is valid behind its Revoke": two.add(operation{Path: "/cached"}, kindAsk).add(second, kindGone),
	})
}

// A session that was ended by force may grant turns until it knows. They count as granted and over at that end. Any other Grant
// of that session does not count so.
func TestATurnBehindAForcedEnd(t *testing.T) {
	const forced = 25 // after the Release of the first
	first := operation{Path: "/cached", Worker: 0, Round: 1, Token: 10, Session: 1}
	next := operation{Path: "/cached", Worker: 1, Round: 1, Token: 20, Session: 2}
	turn := operation{Path: "/cached", Worker: 2, Round: 1, Token: 10, Turn: 1, Session: 1}
	for name, c := range map[string]struct {
		late  operation
		ended map[int64]int64
		want  porcupine.CheckResult
	}{
		"a turn":                {turn, map[int64]int64{1: forced}, porcupine.Ok},
		"a turn without an end": {turn, nil, porcupine.Illegal},
		"no turn":               {with(turn, func(o *operation) { o.Token, o.Turn = 11, 0 }), map[int64]int64{1: forced}, porcupine.Illegal},
	} {
		h := newHistory(0)
		h.ended = c.ended
		h.ops = play{}.add(first, kindAcquire).add(first, kindRelease).add(next, kindAcquire).add(next, kindRelease).
			add(c.late, kindAcquire).add(c.late, kindHold).add(c.late, kindRelease)
		if got, _ := search(h.operations()); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
