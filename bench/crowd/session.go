package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/hooks"
	"github.com/zkgrant/zkgrant/events"
)

// wish is a lock to request after some time, and to hold until hand is closed.
type wish struct {
	path  string
	after time.Duration
	hand  <-chan struct{}
}

// session is one session of the crowd. As a hook of its coordinator, it counts requests
// and events.
type session struct {
	c      *coordinator.Coordinator
	wishes chan wish // one at a time

	mu       sync.Mutex
	err      error // the unexpected error of a wish
	node     string
	holding  bool
	resting  bool
	answered time.Time // when a write was last answered
	losses   int
	fates    map[string]int64

	// Since the mark:
	mark                 time.Time
	gap                  time.Duration
	stood, granted, back time.Time
	times                []int64
}

// writeOp is the hooks' name for a probe, and for the request that joins a queue.
const writeOp = "multi"

// OnRequest is called by the coordinator; see package hooks.
func (s *session) OnRequest(info hooks.Request) {
	if info.Op != writeOp || info.Err != nil {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, info.Duration.Microseconds())
	s.gap, s.answered = s.silent(now), now
	if s.back.IsZero() && now.Add(-info.Duration).After(s.mark) {
		s.back = now
	}
}

// silent returns the longest time without an answer so far. s.mu is held.
func (s *session) silent(now time.Time) time.Duration {
	if s.answered.IsZero() || !s.holding {
		return s.gap
	}
	return max(s.gap, now.Sub(s.answered))
}

// OnEvent is called by the coordinator; see package hooks.
func (s *session) OnEvent(event events.Event) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch event := event.(type) {
	case events.Queued:
		s.stand(now)
	case events.Grant:
		s.stand(now)
		s.node, s.holding, s.granted = event.Node, true, now
	case events.Lost:
		s.gap, s.holding = s.silent(now), false
		s.losses++
		s.fates[s.node] = now.UnixNano()
	case events.Ended, events.Requeued:
		s.holding = false
	default: // of the connection
	}
}

// stand records that the session is in the queue. s.mu is held.
func (s *session) stand(now time.Time) {
	if s.stood.IsZero() {
		s.stood = now
	}
}

// live fulfils wishes until ctx ends.
func (s *session) live(ctx context.Context) {
	for {
		select {
		case w := <-s.wishes:
			s.rest(false)
			if peers.Pause(ctx, w.after) != nil {
				return
			}
			for again := true; again; {
				again = s.contend(ctx, w)
			}
			s.rest(true)
		case <-ctx.Done():
			return
		}
	}
}

// contend requests the lock and holds it. It returns true if the lock was lost and must
// be requested again.
func (s *session) contend(ctx context.Context, w wish) (again bool) {
	a := s.c.Mutex(w.path).Acquire(ctx)
	var hand <-chan struct{} // closed to end the holding
	for {
		select {
		case <-a.Granted():
			hand = w.hand
		case <-hand:
			a.Release()
			hand = nil
		case <-a.Lost():
			return true
		case <-a.Done():
			if err := a.Err(); err != nil && ctx.Err() == nil {
				s.mu.Lock()
				s.err = fmt.Errorf("%s: %w", w.path, err)
				s.mu.Unlock()
			}
			return false
		}
	}
}

// rest records whether the session has no wish.
func (s *session) rest(resting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resting = resting
}

func (s *session) begin(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark, s.gap = now, 0
	s.stood, s.granted, s.back = time.Time{}, time.Time{}, time.Time{}
	s.times, s.fates = nil, make(map[string]int64)
}

// report returns the counts, and the lists that belong to the verb.
func (s *session) report(with verb) report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := report{Lost: s.losses, Writes: len(s.times), Gap: s.silent(time.Now()).Nanoseconds()}
	if s.err != nil {
		r.Err = s.err.Error()
	}
	if s.holding {
		r.Holding = 1
	}
	if s.resting {
		r.Resting = 1
	}
	if !s.stood.IsZero() {
		r.Stood, r.LastStood = 1, s.stood.UnixNano()
	}
	if !s.granted.IsZero() {
		r.LastGrant = s.granted.UnixNano()
	}
	if !s.back.IsZero() {
		r.Back, r.FirstBack, r.LastBack = 1, s.back.UnixNano(), s.back.UnixNano()
	}
	switch with {
	case verbTimes:
		r.Times = s.times
	case verbFates:
		r.Fates = s.fates
	default:
	}
	return r
}
