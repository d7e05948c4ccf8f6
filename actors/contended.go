package actors

import (
	"context"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
)

// This file notifies a holder of the contenders that it keeps out.

// Lookouts calls hear with the contenders that the Grant keeps out and with the others in
// the queue: once at the start, then after each change, until ctx ends. interval is the
// minimum time between two notifications of the holder. The loop calls Lookouts, with no
// mutex held. hear locks the mutex of the lock, and may be called with another one held.
type Lookouts func(
	ctx context.Context, grant events.Grant, hear func(kept, rest []string, interval time.Duration),
)

// contended is the state of those notifications. The lock's mutex guards it.
type contended struct {
	signal chan struct{} // size 1, never closed
	watch  Lookouts
	end    context.CancelFunc // nil before the Grant
	known  recipes.Newcomers
	last   time.Time   // when the holder was notified
	next   *time.Timer // for the next notification; nil: none is due
}

// Contended returns a channel that receives a value when a contender arrives that the
// lock keeps out. The first call starts the watch, or the Grant does if it comes later.
func (l *Lock) Contended(watch Lookouts) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	rare := l.rarely()
	if rare.contended == nil {
		rare.contended = &contended{signal: make(chan struct{}, 1), watch: watch}
		if l.state == holding {
			l.watchNewcomers()
		}
	}
	return rare.contended.signal
}

// watchNewcomers starts the watch. It is called with mu held. The watch needs mu, too, so
// the loop starts it.
func (l *Lock) watchNewcomers() {
	c, grant := l.rare.contended, l.granting()
	ctx, cancel := context.WithCancel(context.Background())
	c.end = cancel
	l.cfg.Loop.Post(func() { c.watch(ctx, grant, l.seesNewcomers) })
}

func (l *Lock) seesNewcomers(kept, rest []string, interval time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.rare.contended
	if l.state != holding || !c.known.See(kept, rest...) || c.next != nil {
		return
	}
	if wait := time.Until(c.last.Add(interval)); wait > 0 {
		c.next = time.AfterFunc(wait, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			c.next = nil
			l.tellNewcomers()
		})
		return
	}
	l.tellNewcomers()
}

// tellNewcomers is called with mu held.
func (l *Lock) tellNewcomers() {
	if l.state != holding {
		return
	}
	c := l.rare.contended
	c.last = time.Now()
	l.publish(events.Contended{ID: l.cfg.ID, Path: l.cfg.Path})
	select {
	case c.signal <- struct{}{}:
	default: // the previous one is still unread
	}
}

// over ends the watch and takes back an unread notification. It is called with mu held.
func (c *contended) over() {
	if c.end == nil {
		return
	}
	c.end()
	select {
	case <-c.signal:
	default:
	}
}
