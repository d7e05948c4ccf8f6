package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
)

const (
	crowded = 1000 // goroutines that share a lock
	busy    = 64   // goroutines that use a lock while another session comes for it, or that use a lock each
)

// runs are how many times in succession a session has the lock before the other one's turn.
func runs() []int { return []int{1, 2, 4, 8} }

func fullEffortCached() effort {
	return effort{
		rounds: 5, warm: 3000, cycles: 2000, many: 20_000, handoffs: 300, cross: 50,
		crowd: 50, arrivals: 50, turns: 2000, walked: 10_000,
	}
}

func quickEffortCached() effort {
	return effort{
		rounds: 2, warm: 500, cycles: 400, many: 6400, handoffs: 100, cross: 20,
		crowd: 20, arrivals: 20, turns: 400, walked: 2000,
	}
}

// measureCached measures cached locks.
func measureCached(ctx context.Context, quick bool, progress io.Writer) (section, error) {
	e := fullEffortCached()
	if quick {
		e = quickEffortCached()
	}
	return inArena(ctx, e, progress, func(d *director) (section, error) {
		r := d.results(quick, cachedLibraries())
		return &Cached{*r}, d.playAll(ctx, r, cachedStages())
	})
}

// cachedStages are the stages for cached locks. The last one leaves thousands of directories, which the server removes.
func cachedStages() []stage {
	both := only(keyCached, keyOurs)
	all := []stage{
		{name: "acquire and release", run: runCycle},
		{name: fmt.Sprintf("%d locks at once", busy), who: only(keyCached, keyOurs, keyEtcd), run: runKept},
		{name: fmt.Sprintf("%d goroutines with one lock", crowded), who: only(keyCached), run: runCrowd},
		{
			name: fmt.Sprintf("handoff, %d waiting", crowded), who: only(keyOurs, keyStock),
			run: runHandoff(crowded, 1, func(m *Measured, s handoffs) { m.note(figureHandoff(crowded), s.took) }),
		},
		{name: "to the only one waiting, in another session", who: only(keyOurs), run: runCross},
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

// runKept is runMany with locks that are kept when it begins.
func runKept(ctx context.Context, d *director, c *contestant, m *Measured, path string) error {
	return session(ctx, c, 1, func() error {
		if err := c.tell(ctx, question{verb: askMany, path: path, n: busy, also: 2}); err != nil {
			return err
		}
		return d.many(ctx, c, m, path, busy)
	})
}

func runCrowd(ctx context.Context, d *director, c *contestant, m *Measured, path string) error {
	return session(ctx, c, 1, func() error {
		took, err := c.one(ctx, question{verb: askCrowd, path: path, n: crowded, also: d.effort.crowd})
		if err != nil {
			return err
		}
		m.note(figureCrowd, micros(float64(took))/float64(crowded*d.effort.crowd))
		return nil
	})
}

func runArrivals(using int) func(context.Context, *director, *contestant, *Measured, string) error {
	return func(ctx context.Context, d *director, c *contestant, m *Measured, path string) error {
		return session(ctx, c, 2, func() error {
			took, err := c.ask(ctx, question{verb: askArrive, path: path, n: d.effort.arrivals, also: using})
			if err != nil {
				return err
			}
			m.note(figureArrival(using), micros(figures.Percentile(took, 0.50)))
			m.note(figureLongest(using), micros(float64(slices.Max(took))))
			return nil
		})
	}
}

func runTurns(run int) func(context.Context, *director, *contestant, *Measured, string) error {
	return func(ctx context.Context, d *director, c *contestant, m *Measured, path string) error {
		return session(ctx, c, 2, func() error {
			// The first cycles make the directory, and show a cache how it is used.
			if err := c.tell(ctx, question{verb: askTurns, path: path, n: 20, also: run}); err != nil {
				return err
			}
			n := d.effort.turns / run
			took, err := c.one(ctx, question{verb: askTurns, path: path, n: n, also: run})
			if err != nil {
				return err
			}
			m.note(figureTurns(run), micros(float64(took))/float64(n*run))
			return nil
		})
	}
}

// runWalk lets another session make the directories. A session that has used a lock before might keep it.
func runWalk(ctx context.Context, d *director, c *contestant, m *Measured, path string) error {
	n := d.effort.walked
	err := session(ctx, c, 1, func() error { return c.tell(ctx, question{verb: askMany, path: path, n: n}) })
	if err != nil {
		return err
	}
	return session(ctx, c, 1, func() error {
		took, err := c.one(ctx, question{verb: askWalk, path: path, n: n})
		if err != nil {
			return err
		}
		m.note(figureWalk, micros(float64(took))/float64(n))
		return nil
	})
}
