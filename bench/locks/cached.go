package main

import (
	"context"
	"fmt"
	"io"
	"slices"
)

const (
	crowded = 1000 // goroutines that share a lock
	busy    = 64   // goroutines that use a lock when another session requests it, or that use a lock each
)

// runs returns how many times in a row a session acquires the lock before it is the other
// one's turn.
func runs() []int { return []int{1, 2, 4, 8} }

func effortCached(quick bool) effort {
	if quick {
		return effort{
			rounds: 2, warm: 500, cycles: 400, many: 6400, handoffs: 100, cross: 20,
			crowd: 20, arrivals: 20, turns: 400, walked: 2000,
		}
	}
	return effort{
		rounds: 5, warm: 3000, cycles: 2000, many: 20_000, handoffs: 300, cross: 50,
		crowd: 50, arrivals: 50, turns: 2000, walked: 10_000,
	}
}

func measureCached(ctx context.Context, quick bool, progress io.Writer) (section, error) {
	return inArena(ctx, effortCached(quick), progress, func(d *director) (section, error) {
		r := d.results(quick, cachedLibraries())
		return &Cached{*r}, d.playAll(ctx, r, cachedStages())
	})
}

// cachedStages returns the stages for cached locks. The last one leaves thousands of
// directories, which the server then removes.
func cachedStages() []stage {
	both := only(keyCached, keyOurs)
	all := []stage{
		{name: "acquire and release", run: runCycle},
		{name: fmt.Sprintf("%d locks at once", busy), who: only(keyCached, keyOurs, keyEtcd), run: runKept},
		{name: fmt.Sprintf("%d goroutines with one lock", crowded), who: only(keyCached), run: runCrowd},
		{
			name: fmt.Sprintf("handoff, %d waiting", crowded), who: only(keyOurs, keyStock),
			run: runHandoff(crowded, 1, func(a *act, s handoffs) { a.note(figureHandoff(crowded), s.took) }),
		},
		{name: "to the only waiter, in another session", who: only(keyOurs), run: runCross},
	}
	for _, using := range []int{0, busy} {
		name := fmt.Sprintf("another session arrives, and %d goroutines use the lock", using)
		all = append(all, stage{name: name, who: only(keyCached), run: runArrivals(using)})
	}
	for _, run := range runs() {
		all = append(all, stage{name: fmt.Sprintf("two sessions, %d times each", run), who: both, run: runTurns(run)})
	}
	return append(all, stage{name: "locks in turn", who: both, run: runWalk})
}

// runKept is runMany with locks that are cached from the start.
func runKept(a *act) {
	a.open(1, use{})
	a.ask(askMany, busy, 2)
	a.many(busy)
	a.close()
}

func runCrowd(a *act) {
	a.open(1, use{})
	a.note(figureCrowd, micros(a.one(askCrowd, crowded, a.d.effort.crowd))/float64(crowded*a.d.effort.crowd))
	a.close()
}

func runArrivals(using int) func(*act) {
	return func(a *act) {
		a.open(2, use{})
		if took := a.ask(askArrive, a.d.effort.arrivals, using); a.err == nil {
			a.note(figureArrival(using), median(took))
			a.note(figureLongest(using), micros(float64(slices.Max(took))))
		}
		a.close()
	}
}

func runTurns(run int) func(*act) {
	return func(a *act) {
		n := a.d.effort.turns / run
		a.open(2, use{})
		a.ask(askTurns, 20, run) // the first cycles create the directory, and let the cache learn
		a.note(figureTurns(run), micros(a.one(askTurns, n, run))/float64(n*run))
		a.close()
	}
}

// runWalk lets another session create the directories. A session that has used a lock
// before might have cached it.
func runWalk(a *act) {
	n := a.d.effort.walked
	a.open(1, use{})
	a.ask(askMany, n, 0)
	a.close()
	a.open(1, use{})
	a.note(figureWalk, micros(a.one(askWalk, n, 0))/float64(n))
	a.close()
}
