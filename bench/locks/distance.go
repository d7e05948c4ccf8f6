package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// distances returns the distances to the servers, as round trips in milliseconds.
func distances() []int { return []int{0, 1, 5, 20} }

// Everything is measured at two places.
const (
	placeAlone    = "standalone" // a distant server
	placeFollower = "follower"   // a nearby server with a distant leader
)

// errand is an operation that is measured at each distance.
type errand struct {
	key   string   // in figures
	name  string   // in tables
	short string   // in plots
	has   []string // the libraries that support it
	run   func(*act, effortFar) [][]int64
}

// errands returns all errands, in the order of the tables.
func errands() []errand {
	permit, eight, election := use{kindSemaphore, 4}, use{kindMulti, 8}, use{kindElection, 0}
	all := []string{keyOurs, keyStock, keyCurator, keyKazoo, keyEtcd, keyBare}
	return []errand{
		{"cycle", "acquire and release", "lock", all, loops(askCycle, use{})},
		{"awaited", "acquire and release, awaited", "awaited", []string{keyOurs}, loops(askAwaited, use{})},
		{"cached", "acquire and release, cached", "cached", []string{keyOurs}, loops(askCycle, use{kind: kindCached})},
		{"permit", "acquire and release 1 of 4 permits", "permit", []string{keyOurs, keyCurator, keyKazoo}, loops(askCycle, permit)},
		{"multi", "acquire and release 8 locks together", "8 locks", []string{keyOurs, keyCurator}, loops(askCycle, eight)},
		{"handoff", "handoff to the only waiter", "handoff", all, swings(use{})},
		{"failover", "leader resigns, the next one leads", "failover", []string{keyOurs, keyCurator, keyKazoo, keyEtcd}, swings(election)},
	}
}

// effortFar is the amount of work. Its slices have a value for each of distances.
type effortFar struct {
	rounds   int
	warm     int
	echoes   int
	cycles   []int
	handoffs []int
}

func effortFarOf(quick bool) effortFar {
	if quick {
		return effortFar{
			rounds: 1, warm: 200, echoes: 20, cycles: []int{20, 20, 10, 5}, handoffs: []int{4, 4, 4, 3},
		}
	}
	return effortFar{rounds: 3, warm: 200, echoes: 20, cycles: []int{40, 40, 10, 8}, handoffs: []int{8, 8, 6, 4}}
}

func survey(ctx context.Context, quick bool, progress io.Writer) (section, error) {
	e := effortFarOf(quick)
	return inArena(ctx, effort{rounds: e.rounds, warm: e.warm}, progress, func(d *director) (section, error) {
		s := &Distance{Results: *d.results(quick, libraries()), Echo: make(map[int][]float64)}
		alone, err := farAway(&d.arena.place)
		if err != nil {
			return nil, err
		}
		err = s.visit(ctx, d, placeAlone, alone, e)
		if err = errors.Join(err, alone.close()); err != nil {
			return nil, err
		}
		d.say("starting three servers of each kind")
		follower, err := farLeaders(ctx, d.arena.disk, d.arena.etcd.server != nil)
		if err != nil {
			return nil, err
		}
		err = s.visit(ctx, d, placeFollower, follower, e)
		return s, errors.Join(err, follower.close())
	})
}

// visit runs every errand at one of the places.
func (s *Distance) visit(ctx context.Context, d *director, name string, at *place, e effortFar) error {
	return d.contest(ctx, &s.Results, at, func(all map[string]*contestant) error {
		for round := range e.rounds {
			if err := s.echo(e); err != nil {
				return err
			}
			for _, what := range errands() {
				d.say("%s, %s, round %d of %d", name, what.name, round+1, e.rounds)
				for i := range s.Libraries {
					m := &s.Libraries[(round+i)%len(s.Libraries)]
					if !slices.Contains(what.has, m.Key) {
						continue
					}
					a := &act{ctx: ctx, d: d, at: at, c: all[m.Key], m: m, path: d.path(m.Key)}
					took := what.run(a, e)
					for nth, ms := range distances() {
						a.note(figureFar(name, what.key, ms), median(took[nth]))
					}
					if a.err != nil {
						return fmt.Errorf("%s, %s: %w", name, what.name, a.err)
					}
				}
			}
		}
		return nil
	})
}

func milliseconds(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

// loops acquires and releases in a loop. The first cycles, which create directories, run
// without a delay.
func loops(verb string, u use) func(*act, effortFar) [][]int64 {
	return func(a *act, e effortFar) (took [][]int64) {
		a.open(1, u)
		a.ask(verb, 3, 0)
		for nth, ms := range distances() {
			a.at.lag(milliseconds(ms))
			took = append(took, a.ask(verb, e.cycles[nth], 0))
		}
		a.at.lag(0)
		a.close()
		return took
	}
}

// swings hands the lock back and forth between two sessions. They queue up without a
// delay.
func swings(u use) func(*act, effortFar) [][]int64 {
	return func(a *act, e effortFar) (took [][]int64) {
		a.open(2, u)
		p := a.pendulum()
		for nth, ms := range distances() {
			took = append(took, p.swing(e.handoffs[nth], func() { a.at.lag(milliseconds(ms)) }, func() { a.at.lag(0) }))
		}
		a.close()
		return took
	}
}

// echo measures the actual round trip of each distance.
func (s *Distance) echo(e effortFar) (err error) {
	var running sync.WaitGroup
	defer running.Wait()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, listener.Close()) }()
	running.Go(func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = io.Copy(conn, conn) // ends with the connection
			_ = conn.Close()
		}
	})
	proxy, err := ensemble.NewProxy(listener.Addr().String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	conn, err := net.Dial("tcp4", proxy.Addr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, ms := range distances() {
		proxy.Lag(ensemble.BothWays, milliseconds(ms)/2)
		var took []int64
		for range e.echoes {
			start := time.Now()
			if _, err := conn.Write([]byte{1}); err != nil {
				return err
			}
			if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
				return err
			}
			took = append(took, time.Since(start).Nanoseconds())
		}
		s.Echo[ms] = append(s.Echo[ms], median(took))
	}
	return nil
}
