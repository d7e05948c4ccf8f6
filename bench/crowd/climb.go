package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// delivered is which part of the writes that are asked for has to be answered.
const delivered = 0.9

// stops says why so many sessions are too many for the ensemble, and nothing if they are not.
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

// climb has ever larger crowds hold, until one is too large, and then looks between the last two.
func (d *director) climb(ctx context.Context, r *Results) error {
	try := func(sessions int) (bool, error) {
		h := Hold{Sessions: sessions, Asked: d.asked(sessions), Servers: make([]float64, servers)}
		err := d.with(ctx, sessions, min(sessions, d.climbers), func(c *crowd) (err error) {
			h, err = d.hold(ctx, c, d.rung)
			return err
		})
		if errors.Is(err, errNeverHeld) && ctx.Err() == nil {
			d.say("%d sessions: %.500v", sessions, err)
			h.Broken, err = "not all came to hold", nil
		}
		stopped := h.stops(r.intervalMillis())
		d.say("%d sessions: %.0f writes a second, p99 %.1f ms, %d lost %s", sessions, h.Writes, h.P99, h.Lost, stopped)
		r.Rungs = append(r.Rungs, h)
		return stopped != "", err
	}
	below, above := 0, 0
	for _, sessions := range d.ladder {
		stops, err := try(sessions)
		if err != nil {
			return err
		}
		if stops {
			above = sessions
			break
		}
		below = sessions
	}
	for range d.halves {
		if above == 0 {
			break
		}
		middle := (below + above) / 2
		stops, err := try(middle)
		if err != nil {
			return err
		}
		if stops {
			above = middle
		} else {
			below = middle
		}
	}
	slices.SortFunc(r.Rungs, func(a, b Hold) int { return a.Sessions - b.Sessions })
	return nil
}

// knee returns the largest crowd that was served, and the smallest that was too large. Either may be missing.
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

// cost is what a write costs, in seconds of processor time.
type cost struct{ leader, follower, client float64 }

// perWrite is what it costs where so much was computed. A write costs more where fewer come together.
func (h Hold) perWrite() cost {
	return cost{h.Servers[h.Leader] / h.Writes, h.followers() / h.Writes, h.Clients / h.Writes}
}

// followers is how much the followers computed, on average.
func (h Hold) followers() float64 {
	var sum float64
	for i, used := range h.Servers {
		if i != h.Leader {
			sum += used
		}
	}
	return sum / float64(len(h.Servers)-1)
}

// writesOf is how many writes a second so many sessions cost that hold a lock, with a timeout of so many seconds.
func writesOf(sessions int, timeout float64) float64 { return float64(sessions) * probePart / timeout }

// timeoutOf is the shortest timeout, in seconds, with which so many sessions cost no more than so many writes a second.
func timeoutOf(sessions int, writes float64) float64 { return float64(sessions) * probePart / writes }
