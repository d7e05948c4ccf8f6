package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// delivered is the fraction of the requested writes that must be answered.
const delivered = 0.9

// stops returns the reason why the ensemble cannot serve that many sessions, or "" if it
// can.
func (h Hold) stops(interval float64) string {
	switch {
	case h.Broken != "":
		return h.Broken
	case h.Lost > 0:
		return fmt.Sprintf("%d locks lost", h.Lost)
	case h.Writes < delivered*h.Asked:
		return "writes fall behind"
	case h.P99 > interval:
		return "p99 above the interval"
	default:
		return ""
	}
}

// climb tries ever larger crowds until one is too large, and then bisects the range
// between the last two.
func (d *director) climb(ctx context.Context, r *Results) error {
	below, above := 0, 0 // the largest crowd that was served, and the smallest that was not
	try := func(sessions int) error {
		h := Hold{Sessions: sessions, Asked: d.asked(sessions), Servers: make([]float64, servers)}
		err := d.with(ctx, sessions, min(sessions, d.climbers), func(c *crowd) {
			h = d.hold(c, d.rung)
		})
		if errors.Is(err, errNeverHeld) && ctx.Err() == nil {
			d.say("%d sessions: %.500v", sessions, err)
			h.Broken, err = "not all came to hold", nil
		}
		stopped := h.stops(r.intervalMillis())
		d.say("%d sessions: %.0f writes a second, p99 %.1f ms, %d lost %s", sessions, h.Writes, h.P99, h.Lost, stopped)
		r.Rungs = append(r.Rungs, h)
		if stopped == "" {
			below = sessions
		} else {
			above = sessions
		}
		return err
	}
	for i := 0; i < len(d.ladder) && above == 0; i++ {
		if err := try(d.ladder[i]); err != nil {
			return err
		}
	}
	for i := 0; i < d.halves && above > 0; i++ {
		if err := try((below + above) / 2); err != nil {
			return err
		}
	}
	slices.SortFunc(r.Rungs, func(a, b Hold) int { return a.Sessions - b.Sessions })
	return nil
}

// knee returns the largest crowd that was served and the smallest one that was too large.
// Either may be nil.
func (r *Results) knee() (served, stopped *Hold) {
	for i := range r.Rungs {
		h := &r.Rungs[i]
		if h.stops(r.intervalMillis()) != "" {
			return served, h
		}
		served = h
	}
	return served, nil
}

// cost is the cost of a write in seconds of CPU time.
type cost struct{ leader, follower, client float64 }

// perWrite returns the cost of a write in this hold. A write costs more when the load is
// low, because fewer are batched.
func (h Hold) perWrite() cost {
	return cost{h.Servers[h.Leader] / h.Writes, h.followers() / h.Writes, h.Clients / h.Writes}
}

// followers returns the average CPU time of a follower.
func (h Hold) followers() float64 {
	var sum float64
	for i, used := range h.Servers {
		if i != h.Leader {
			sum += used
		}
	}
	return sum / float64(len(h.Servers)-1)
}

// writesOf returns how many writes per second that many sessions cause while each holds a
// lock. timeout is in seconds.
func writesOf(sessions int, timeout float64) float64 { return float64(sessions) * probePart / timeout }

// timeoutOf returns the shortest timeout, in seconds, with which that many sessions cause
// at most that many writes per second.
func timeoutOf(sessions int, writes float64) float64 { return float64(sessions) * probePart / writes }
