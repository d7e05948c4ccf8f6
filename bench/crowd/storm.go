package main

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
)

// storms expires all sessions at once, twice: with a lock each, and in one queue.
func (d *director) storms(c *crowd, r *Results) {
	var paths []string
	for i := range c.sessions {
		paths = append(paths, lockPath(c.folder, i))
	}
	own := d.storm(c, "a lock each", paths)
	c.holding()
	r.Storms = append(r.Storms, own)
	d.holdNow(c, r)
	d.hand(c)
	path := d.folder()
	c.tell(order{Verb: verbMark})
	c.tell(order{Verb: verbHold, Path: path, Shared: true})
	c.until("every session stands in the queue", c.standing(1))
	one := d.storm(c, "one lock for all", []string{path})
	one.Handed = d.hand(c)
	r.Storms = append(r.Storms, one)
}

// standing reports whether all sessions have queued up since the mark, and that many of
// them hold.
func (c *crowd) standing(holding int) func(report) bool {
	return func(r report) bool { return r.Stood == c.sessions && r.Holding == holding }
}

// hand makes all holders release, and returns how many milliseconds it took until the
// last session was granted.
func (d *director) hand(c *crowd) float64 {
	start := time.Now()
	c.tell(order{Verb: verbHand})
	r := c.until("every lock is handed on and released", func(r report) bool { return r.Resting == c.sessions })
	return millis(r.LastGrant - start.UnixNano())
}

// departures records when the nodes at some locks were deleted.
type departures struct {
	nodes int

	mu   sync.Mutex
	gone map[string]int64 // by node, in nanoseconds of Unix time
}

func watch(w *peers.Watcher, locks []string) (*departures, error) {
	d := &departures{gone: make(map[string]int64)}
	for _, lock := range locks {
		names, err := w.Children(lock)
		if err != nil {
			return d, err
		}
		for _, name := range names {
			d.nodes++
			node := lock + "/" + name
			err := w.Guard(node, func(at time.Time) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.gone[node] = at.UnixNano()
			})
			if err != nil {
				return d, err
			}
		}
	}
	return d, nil
}

func (d *departures) all() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.gone) == d.nodes
}

// storm cuts every connection until all nodes at the locks are gone, then heals them, and
// waits until all sessions are in their queues again.
func (d *director) storm(c *crowd, name string, locks []string) (s Storm) {
	if c.err != nil {
		return s
	}
	d.say("storm: %s", name)
	w, err := peers.NewWatcher(d.e.Connect())
	if err != nil {
		c.err = err
		return s
	}
	defer w.Close()
	of, err := watch(w, locks)
	if err == nil && of.nodes != c.sessions {
		err = fmt.Errorf("%d nodes of %d sessions", of.nodes, c.sessions)
	}
	c.err = err
	held, cut := c.tell(order{Verb: verbMark}), time.Now()
	c.tell(order{Verb: verbCut})
	c.until("every session has expired, and every holder was told", func(r report) bool {
		return of.all() && r.Lost-held.Lost >= held.Holding
	})
	if c.err != nil {
		return s
	}
	s.What, s.Held, s.Sooner = name, held.Holding, math.Inf(1)
	for node, told := range c.tell(order{Verb: verbFates}).Fates {
		s.Told++
		lead := millis(of.gone[node] - told)
		if lead > 0 {
			s.Before++
		}
		s.Sooner = min(s.Sooner, lead)
	}
	if s.Told == 0 {
		s.Sooner = 0
	}
	for _, at := range of.gone {
		s.Expired = max(s.Expired, millis(at-cut.UnixNano()))
	}
	c.tell(order{Verb: verbMark})
	healed := time.Now()
	c.tell(order{Verb: verbHeal})
	again := c.until("every session stands in its queue again", c.standing(held.Holding))
	s.Again = millis(again.LastStood - healed.UnixNano())
	return s
}
