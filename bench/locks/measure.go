package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
)

type effort struct {
	rounds   int
	warm     int           // warm-up cycles, once
	cycles   int           // in each round
	locks    []int         // at once
	many     int           // cycles of all locks together
	queues   []int         // waiters
	handoffs int           // at most, in each round
	cross    int           // handoffs to the only waiter, in each round
	patient  int           // such handoffs after a long wait
	patience time.Duration // the length of that wait
	held     int           // locks, for their memory
	heldPeer int           // the same, for libraries that take locks slowly
	expired  int           // locks that end with their session
	crowd    int           // cycles of each user of a shared lock
	arrivals int           // of another session
	turns    int           // cycles of both sessions that take turns
	walked   int           // locks, one after the other
}

// longWait is more than three probe intervals.
const longWait = 7 * sessionTimeout / 20

func effortOf(quick bool) effort {
	if quick {
		return effort{
			rounds: 5, warm: 500, cycles: 400, locks: []int{64, 512}, many: 2048,
			queues: []int{20, 100, 1000}, handoffs: 100, cross: 10, patient: 1, patience: longWait,
			held: 10_000, heldPeer: 2000, expired: 10_000,
		}
	}
	return effort{
		rounds: 5, warm: 3000, cycles: 2000, locks: []int{64, 512}, many: 20_000,
		queues: []int{20, 100, 1000, 10_000}, handoffs: 300, cross: 50, patient: 4, patience: longWait,
		held: 100_000, heldPeer: 10_000, expired: 10_000,
	}
}

type director struct {
	arena   *arena
	effort  effort
	say     func(format string, args ...any)
	started time.Time
	paths   int
}

func measure(ctx context.Context, quick bool, progress io.Writer) (section, error) {
	return inArena(ctx, effortOf(quick), progress, func(d *director) (section, error) {
		r := d.results(quick, libraries())
		if err := d.playAll(ctx, r, d.stages()); err != nil {
			return nil, err
		}
		return r, d.memory(ctx, r)
	})
}

// inArena runs f while the servers are running, and returns its measurements.
func inArena(
	ctx context.Context, e effort, progress io.Writer, f func(*director) (section, error),
) (measured section, err error) {
	d := &director{effort: e, started: time.Now()}
	d.say = func(format string, args ...any) {
		at := time.Since(d.started).Round(time.Second)
		fmt.Fprintf(progress, "locks: %5s  %s\n", at, fmt.Sprintf(format, args...))
	}
	if d.arena, err = openArena(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.arena.close()) }()
	d.arena.versions["Go"] = runtime.Version()
	return f(d)
}

func (d *director) playAll(ctx context.Context, r *Results, stages []stage) error {
	return d.contest(ctx, r, &d.arena.place, func(all map[string]*contestant) error {
		for _, s := range stages {
			if err := d.play(ctx, r, s, all); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		return nil
	})
}

// results returns empty results for all participating libraries.
func (d *director) results(quick bool, all []library) *Results {
	r := &Results{
		Quick: quick, Rounds: d.effort.rounds, Cores: runtime.NumCPU(), RAMDisk: d.arena.disk != "",
		Versions: d.arena.versions, LeftOut: make(map[string]string),
	}
	for _, l := range all {
		if why, out := d.arena.leftOut[l.Key]; out {
			d.say("WITHOUT %s: %v", l.Name, why)
			r.LeftOut[l.Key] = reason(why)
			continue
		}
		r.Libraries = append(r.Libraries, Measured{library: l, Rounds: make(map[string][]float64)})
	}
	return r
}

// reason returns what the page says about a library that was left out. The error itself
// is longer, and contains paths of this machine.
func reason(why error) string {
	if errors.Is(why, peers.ErrNotFound) {
		return "it was not there; bench/deps fetches it"
	}
	return "it was there and could not be run"
}

// contest starts a process for each library at the place, warms it up, and calls play.
func (d *director) contest(ctx context.Context, r *Results, at *place, play func(map[string]*contestant) error) (err error) {
	contestants := make(map[string]*contestant)
	defer func() {
		for _, c := range contestants {
			err = errors.Join(err, c.process.Close())
		}
	}()
	for _, m := range r.Libraries {
		c, err := d.arena.start(m.library, at)
		if err != nil {
			return err
		}
		contestants[m.Key] = c
		d.say("warming up %s", m.Name)
		if err := d.warmUp(&act{ctx: ctx, c: c}); err != nil {
			return err
		}
	}
	return play(contestants)
}

// play runs a stage with each library.
func (d *director) play(ctx context.Context, r *Results, s stage, all map[string]*contestant) error {
	for round := range d.effort.rounds {
		d.say("%s, round %d of %d", s.name, round+1, d.effort.rounds)
		for i := range r.Libraries { // each round starts with another library
			m := &r.Libraries[(round+i)%len(r.Libraries)]
			if s.who != nil && !s.who(m.library) {
				continue
			}
			a := &act{ctx: ctx, d: d, at: &d.arena.place, c: all[m.Key], m: m, path: d.path(m.Key)}
			if s.run(a); a.err != nil {
				return a.err
			}
		}
	}
	return nil
}

// path returns a fresh path, so that no contender finds older nodes.
func (d *director) path(key string) string {
	d.paths++
	return fmt.Sprintf("/bench-%s/%d", key, d.paths)
}

// warmUp lets just-in-time compilers, pools and the server settle.
func (d *director) warmUp(a *act) error {
	a.path = d.path(a.c.Key)
	a.open(1, use{})
	a.ask(askCycle, d.effort.warm, 0)
	a.close()
	return a.err
}

// memory measures the memory of held locks, in fresh processes.
func (d *director) memory(ctx context.Context, r *Results) error {
	for i := range r.Libraries {
		m := &r.Libraries[i]
		if m.Key == keyBare {
			continue
		}
		n := d.effort.heldPeer
		if m.Key == keyOurs || m.Key == keyStock {
			n = d.effort.held
		}
		d.say("memory: %s holds %d locks", m.Name, n)
		c, err := d.arena.start(m.library, &d.arena.place)
		if err != nil {
			return err
		}
		a := &act{ctx: ctx, d: d, at: &d.arena.place, c: c, m: m}
		hold(a, n)
		if err := errors.Join(a.err, c.process.Close()); err != nil {
			return err
		}
	}
	return nil
}

func hold(a *act, n int) {
	// The first locks load code, and allocate pools and buffers that later locks reuse.
	a.err = a.d.warmUp(a)
	a.path = a.d.path(a.c.Key)
	a.open(1, use{})
	idle := a.counted()
	more := a.ask(askHold, n, 0)
	if a.m.Key == keyOurs {
		// A node is watched only some time after the grant. Until then its lock uses less
		// memory.
		a.queued(idle.watches + float64(n))
		more = a.ask(askHeld, 0, 0)
	}
	if a.err == nil && len(more) != 2 {
		a.err = fmt.Errorf("%s answers with %d numbers", a.c.Name, len(more))
	}
	if a.err == nil {
		a.note(figureHeld, float64(n))
		a.note(figureMemory, float64(more[0])/float64(n))
		a.note(figureGoroutines, float64(more[1]))
	}
	a.close()
}
