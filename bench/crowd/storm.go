package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
)

// storms expires all sessions at once, twice: with a lock each, and in one queue.
func (d *director) storms(ctx context.Context, c *crowd, r *Results) error {
	var paths []string
	for i := range c.sessions {
		paths = append(paths, lockPath(c.folder, i))
	}
	own, err := d.storm(ctx, c, "a lock each", paths)
	if err != nil {
		return err
	}
	if _, err := c.holding(ctx); err != nil {
		return err
	}
	r.Storms = append(r.Storms, own)
	if err := d.holdNow(ctx, c, r); err != nil {
		return err
	}
	if _, err := d.hand(ctx, c); err != nil {
		return err
	}
	path := d.folder()
	if _, err := c.tell(ctx, order{Verb: verbMark}); err != nil {
		return err
	}
	if _, err := c.tell(ctx, order{Verb: verbHold, Path: path, Shared: true}); err != nil {
		return err
	}
	if _, err := c.until(ctx, "every session stands in the queue", c.standing(1)); err != nil {
		return err
	}
	one, err := d.storm(ctx, c, "one lock for all", []string{path})
	if err != nil {
		return err
	}
	if one.Handed, err = d.hand(ctx, c); err != nil {
		return err
	}
	r.Storms = append(r.Storms, one)
	return nil
}

// standing tells whether all sessions have queued up since the mark, and that many of them hold.
func (c *crowd) standing(holding int) func(report) bool {
	return func(r report) bool { return r.Stood == c.sessions && r.Holding == holding }
}

// hand makes all holders release, and returns how many milliseconds it took until the last session was granted.
func (d *director) hand(ctx context.Context, c *crowd) (float64, error) {
	start := time.Now()
	if _, err := c.tell(ctx, order{Verb: verbHand}); err != nil {
		return 0, err
	}
	r, err := c.until(ctx, "every lock is handed on and released", func(r report) bool { return r.Resting == c.sessions })
	return millis(r.LastGrant - start.UnixNano()), err
}

// storm cuts every connection until all nodes at the locks are gone, and waits until all sessions stand in their queues again.
func (d *director) storm(ctx context.Context, c *crowd, name string, locks []string) (s Storm, err error) {
	d.say("storm: %s", name)
	s.What = name
	w, err := peers.NewWatcher(d.e.Connect())
	if err != nil {
		return s, err
	}
	defer w.Close()
	var mu sync.Mutex
	gone := make(map[string]int64) // by node, in nanoseconds of Unix time
	nodes := 0
	for _, lock := range locks {
		names, err := w.Children(lock)
		if err != nil {
			return s, err
		}
		for _, name := range names {
			nodes++
			node := lock + "/" + name
			err := w.Guard(node, func(at time.Time) {
				mu.Lock()
				defer mu.Unlock()
				gone[node] = at.UnixNano()
			})
			if err != nil {
				return s, err
			}
		}
	}
	if nodes != c.sessions {
		return s, fmt.Errorf("%d nodes of %d sessions", nodes, c.sessions)
	}
	held, err := c.tell(ctx, order{Verb: verbMark})
	if err != nil {
		return s, err
	}
	cut := time.Now()
	if _, err := c.tell(ctx, order{Verb: verbCut}); err != nil {
		return s, err
	}
	_, err = c.until(ctx, "every session has expired, and every holder was told", func(r report) bool {
		mu.Lock()
		defer mu.Unlock()
		return len(gone) == nodes && r.Lost-held.Lost >= held.Holding
	})
	if err != nil {
		return s, err
	}
	fates, err := c.tell(ctx, order{Verb: verbFates})
	if err != nil {
		return s, err
	}
	s.Held, s.Sooner = held.Holding, math.Inf(1)
	for node, told := range fates.Fates {
		s.Told++
		lead := millis(gone[node] - told)
		if lead > 0 {
			s.Before++
		}
		s.Sooner = min(s.Sooner, lead)
	}
	if s.Told == 0 {
		s.Sooner = 0
	}
	for _, at := range gone {
		s.Expired = max(s.Expired, millis(at-cut.UnixNano()))
	}
	if _, err := c.tell(ctx, order{Verb: verbMark}); err != nil {
		return s, err
	}
	healed := time.Now()
	if _, err := c.tell(ctx, order{Verb: verbHeal}); err != nil {
		return s, err
	}
	again, err := c.until(ctx, "every session stands in its queue again", c.standing(held.Holding))
	s.Again = millis(again.LastStood - healed.UnixNano())
	return s, err
}
