package coordinator

import (
	"context"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
)

// Group lets one loop serve many locks, of any coordinators in the process. Its methods
// return at once, and any goroutine may call them, including the loop.
type Group struct{ feed *actors.Feed }

// NewGroup returns an empty group.
func NewGroup() *Group { return &Group{actors.NewFeed()} }

// Acquire is h.Acquire for an acquisition of the group. Its Grant is taken when the loop
// receives it from [Group.Events]; if ctx ends first, it is withdrawn. Its Granted, Lost
// and Revoked deliver nothing, and Wait takes nothing. An acquisition begun after Close
// sends no event and, if valid, ends with [ErrClosed].
func (g *Group) Acquire(ctx context.Context, h Handle, options ...AcquireOption) *Acquisition {
	cfg := configOf(options)
	cfg.feed = g.feed
	return h.acquire(ctx, cfg)
}

// Events returns the group's channel. Each acquisition sends at most one Grant, at most
// one Lost, then exactly one Ended; the sessions' events come, too. Other events are
// coalesced for a slow reader.
//
// Once the group, or every coordinator in it, is closed, the channel is closed after the
// last Ended, and unread events are dropped if none is received for 100 ms.
func (g *Group) Events() <-chan events.Event { return g.feed.Events() }

// Close releases all locks of the group, and withdraws its waiters.
func (g *Group) Close() { g.feed.Close() }
