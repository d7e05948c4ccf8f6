package coordinator

import (
	"context"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
)

// Group is for one loop over its own locks, of any coordinators of the process. Its
// methods return at once, and may be called from any goroutine, also from the loop.
type Group struct{ feed *actors.Feed }

// NewGroup returns a group without locks.
func NewGroup() *Group { return &Group{actors.NewFeed()} }

// Acquire is h.Acquire for an acquisition of the group. Its Grant is taken when the loop
// receives it from [Group.Events]; if ctx ends before that, it is withdrawn. Granted,
// Lost and Revoked of the acquisition deliver nothing, and Wait takes nothing. After
// Close it ends with [ErrClosed], unreported.
func (g *Group) Acquire(ctx context.Context, h Handle, options ...AcquireOption) *Acquisition {
	cfg := configOf(options)
	cfg.feed = g.feed
	return h.acquire(ctx, cfg)
}

// Events returns the group's channel, the same one each time: of each acquisition at most
// one Grant, at most one Lost, then exactly one Ended, and the events of their sessions.
// Others are coalesced for a slow reader.
//
// The channel is closed after the last Ended when the group is closed, or all its
// coordinators are. From then on, the rest is dropped if nothing is received for 100 ms.
func (g *Group) Events() <-chan events.Event { return g.feed.Events() }

// Close releases all locks of the group, and withdraws from their queues.
func (g *Group) Close() { g.feed.Close() }
