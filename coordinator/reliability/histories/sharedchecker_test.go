package histories

import (
	"os"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// play is operations on one lock, a read/write lock unless they say something else, one behind the other.
type play []operation

func (p play) add(op operation, k kind) play {
	if op.Kind = k; op.Path == "" {
		op.Path = "/rw"
	}
	op.Call = int64(10 * (len(p) + 1))
	op.Return = op.Call + 1
	return append(slices.Clip(p), op)
}

func (p play) verdict(t *testing.T) porcupine.CheckResult {
	t.Helper()
	result, info := search(p)
	if result == porcupine.Unknown {
		t.Errorf("undecided; %s", draw[operation](info, os.TempDir()))
	}
	return result
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
	with := func(op operation, change func(*operation)) operation { change(&op); return op }
	stale := func(op operation) operation { op.Accepted = false; return op }
	whole := play{}.
		add(first, kindAcquire).add(first, kindHold).add(first, kindWrite).add(first, kindRelease).
		add(a, kindAcquire).add(b, kindAcquire).add(a, kindRead).add(b, kindRead).add(a, kindHold).
		add(stale(first), kindWrite).add(b, kindLose).add(a, kindRead).add(a, kindRelease).
		add(second, kindAcquire).add(second, kindWrite).add(with(b, func(o *operation) { o.Value = 40 }), kindRead).
		add(twin, kindAcquire).add(twin, kindHold).add(second, kindHold).add(second, kindRelease).
		add(c, kindAcquire).add(c, kindRead).add(twin, kindRead).add(twin, kindRelease).add(c, kindHold).add(c, kindRelease).
		add(late, kindAcquire).add(late, kindRelease)
	if got := whole.verdict(t); got != porcupine.Ok {
		t.Fatalf("what is in order is %s", got)
	}
	until := func(op operation, k kind) play {
		i := slices.IndexFunc(whole, func(o operation) bool { return o.Worker == op.Worker && o.Round == op.Round && o.Kind == k })
		return whole[:i+1]
	}
	for name, flawed := range map[string]play{
		"a writer beside readers":          until(b, kindAcquire).add(second, kindAcquire),
		"a writer beside one reader":       until(b, kindLose).add(second, kindAcquire),
		"a writer beside the twin":         until(second, kindRelease).add(late, kindAcquire),
		"a reader beside a writer":         until(first, kindAcquire).add(a, kindAcquire),
		"a reader beside twin and writer":  until(twin, kindHold).add(c, kindAcquire),
		"two writers":                      until(first, kindAcquire).add(second, kindAcquire),
		"a reader valid after its loss":    until(b, kindLose).add(b, kindHold),
		"a writer valid beside readers":    until(a, kindAcquire).add(first, kindHold),
		"a reader lost twice":              until(b, kindLose).add(b, kindLose),
		"a Grant behind a withdrawal":      until(first, kindRelease).add(a, kindRelease).add(a, kindAcquire),
		"a value that nobody wrote":        until(b, kindAcquire).add(with(a, func(o *operation) { o.Value = 7 }), kindRead),
		"a value that is old":              until(c, kindAcquire).add(with(c, func(o *operation) { o.Value = 10 }), kindRead),
		"a twin's value that is old":       until(c, kindAcquire).add(with(twin, func(o *operation) { o.Value = 10 }), kindRead),
		"a late write beside a reader":     until(a, kindRead).add(first, kindWrite),
		"a writer behind its place":        until(a, kindRelease).add(with(second, func(o *operation) { o.Token = 15 }), kindAcquire),
		"a reader behind its place":        until(first, kindRelease).add(with(a, func(o *operation) { o.Token = 5 }), kindAcquire),
		"a place that somebody else holds": until(second, kindAcquire).add(with(twin, func(o *operation) { o.Worker = 4 }), kindAcquire),
		"a twin with a token of its own":   until(second, kindWrite).add(with(twin, func(o *operation) { o.Token = 60 }), kindAcquire),
		"a place that is nobody's any more": until(late, kindRelease).add(with(twin, func(o *operation) { o.Round = 9 }),
			kindAcquire),
	} {
		if got := flawed.verdict(t); got != porcupine.Illegal {
			t.Errorf("%s is %s", name, got)
		}
	}
}

// Two hold permits together, one who wants all of them waits, and one comes later.
func TestAFlawInAHistoryOfPermitsIsFound(t *testing.T) {
	of := func(worker int, token int64, permits int) operation {
		return operation{Path: "/permits", Worker: worker, Round: 1, Token: token, Permits: permits}
	}
	one, two, all, late := of(0, 10, 1), of(1, 20, mostPermits-1), of(2, 30, mostPermits), of(3, 40, 1)
	whole := play{}.add(one, kindAcquire).add(two, kindAcquire).add(one, kindHold).add(two, kindHold).add(one, kindLose).
		add(two, kindRelease).add(all, kindAcquire).add(all, kindHold).add(all, kindRelease).add(late, kindAcquire)
	if got := whole.verdict(t); got != porcupine.Ok {
		t.Fatalf("what is in order is %s", got)
	}
	for name, flawed := range map[string]play{
		"more than there are":         whole[:2].add(late, kindAcquire),
		"all beside one":              whole[:5].add(all, kindAcquire),
		"one who has not left":        whole[:5].add(all, kindAcquire).add(two, kindHold),
		"valid behind the loss":       whole[:5].add(one, kindHold),
		"lost twice":                  whole[:5].add(one, kindLose),
		"somebody who overtakes":      whole[:1].add(late, kindAcquire).add(two, kindAcquire),
		"a Grant behind a withdrawal": whole[:1].add(two, kindRelease).add(two, kindAcquire),
	} {
		if got := flawed.verdict(t); got != porcupine.Illegal {
			t.Errorf("%s: it is %s", name, got)
		}
	}
}
