package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// turns lets the sessions use one lock in turn, each for that many cycles in a row.
func (p *player) turns(ctx context.Context, path string, n, cycles int) ([]int64, error) {
	all := make([]mutex, len(p.sessions))
	for i, c := range p.sessions {
		m, err := c.lock(path)
		if err != nil {
			return nil, err
		}
		all[i] = m
	}
	start := time.Now()
	for i := range n {
		if err := repeat(ctx, all[i%len(all)], cycles); err != nil {
			return nil, err
		}
	}
	took := time.Since(start).Nanoseconds()
	for _, m := range all {
		if err := settle(ctx, m); err != nil {
			return nil, err
		}
	}
	return []int64{took}, nil
}

// walk uses many locks, each once, one after another.
func (p *player) walk(ctx context.Context, path string, n int) ([]int64, error) {
	var last mutex
	start := time.Now()
	for i := range n {
		m, err := p.sessions[0].lock(path + "-" + strconv.Itoa(i))
		if err == nil {
			err = repeat(ctx, m, 1)
		}
		if err != nil {
			return nil, err
		}
		last = m
	}
	took := time.Since(start).Nanoseconds()
	return []int64{took}, settle(ctx, last)
}

// arrive lets the second session acquire and release a cached lock of the first one, n
// times.
func (p *player) arrive(ctx context.Context, path string, n, using int) ([]int64, error) {
	if p.key != keyCached || len(p.sessions) < 2 {
		return nil, errNotOffered
	}
	ready, stop := p.keep(path), func() {}
	if using > 0 {
		ready, stop = p.hammer(ctx, path, using)
	}
	defer stop()
	stranger := ours{c: p.sessions[1].(ours).c}.mutex(path)
	var took []int64
	for range n {
		if err := ready(ctx); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := stranger.acquire(ctx); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start).Nanoseconds())
		if err := errors.Join(stranger.release(), stranger.await(ctx)); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// keep returns a function that uses the lock in the first session until its node is
// cached. A node that has served that many quick grants is cached, and so is the next
// one.
func (p *player) keep(path string) func(context.Context) error {
	const turns, tries = 5, 1000
	m := p.sessions[0].(ours).mutex(path)
	return func(ctx context.Context) error {
		for range tries {
			if err := repeat(ctx, m, 1); err != nil {
				return err
			}
			if m.current.Grant().Turn >= turns {
				return nil
			}
		}
		return fmt.Errorf("no node of %s is kept", path)
	}
}

// hammer lets goroutines use a lock of the first session until stop is called. When ready
// returns, they have used it often enough that another session's visit must be over.
func (p *player) hammer(ctx context.Context, path string, n int) (ready func(context.Context) error, stop func()) {
	const cycles = 1000
	var all sync.WaitGroup
	var over atomic.Bool
	beats, failed := make(chan struct{}), make(chan error, n)
	for range n {
		m := p.sessions[0].(ours).mutex(path)
		all.Go(func() {
			for !over.Load() {
				if err := repeat(ctx, m, 1); err != nil {
					failed <- err
					return
				}
				select {
				case beats <- struct{}{}:
				default:
				}
			}
		})
	}
	ready = func(ctx context.Context) error {
		for range cycles {
			select {
			case <-beats:
			case err := <-failed:
				return err
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
	return ready, func() {
		over.Store(true)
		all.Wait()
	}
}
