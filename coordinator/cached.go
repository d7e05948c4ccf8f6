package coordinator

import (
	"context"
	"fmt"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// keeping returns how the cache of a path gets its nodes: by an acquisition of its own, without a caller.
func (l *Lock) keeping(data []byte) actors.CacheConfig {
	c := l.c
	return actors.CacheConfig{Idle: c.keep.idle, Interval: c.session.Interval, Queue: func(
		beside actors.Beside,
	) (*actors.Lock, actors.StayPort, func(bool), error) {
		if err := c.live.hold(); err != nil {
			return nil, nil, nil, err
		}
		seat := c.session.Seat(session.Place{
			Dir: l.path, Kind: l.rule.Kind(), Data: data, ACL: l.cfg.acl, Marks: l.marks | events.MarkCached,
		})
		queue := actors.NewLock(actors.Config{Path: l.path, Owner: (*keeper)(l), House: &c.keepers}, l.rule, seat)
		queue.Tell(beside)
		return queue, seat, func(try bool) {
			queue.Start(context.Background(), 0, actors.Want{Try: try, Keep: true, Strict: c.cfg.LossOnSuspend})
		}, nil
	}}
}

// keeper is the owner of the acquisition that has a cached lock's node.
type keeper Lock

var _ actors.Owner = (*keeper)(nil)

// Explain returns what Err says.
func (k *keeper) Explain(end actors.End) error { return explain((*Lock)(k), end) }

// Members returns nothing.
func (k *keeper) Members() []events.Member { return nil }

// Gone has the coordinator forget the node.
func (k *keeper) Gone() { k.c.live.unhold() }

// cache returns the cache for an acquisition, or nil if it has a node of its own.
func (l *Lock) cache(cfg acquireConfig) *actors.Cache {
	if l.cfg.cached == nil || len(cfg.data) > mostCachedData {
		return nil
	}
	terms := *l.cfg.cached
	terms.Data, terms.Revocable = string(cfg.data), l.cfg.revocable
	if l.cfg.acl != nil {
		terms.ACL = fmt.Sprint(l.cfg.acl)
	}
	return l.c.caches.At(l.path, terms, func() actors.CacheConfig { return l.keeping(cfg.data) })
}

// wants has the cached nodes at the paths of the lock removed, because the lock is about to queue there.
func (l *Lock) wants() {
	if m := l.multi(); m != nil {
		for _, member := range m.locks {
			l.c.caches.Want(member.path)
		}
		return
	}
	l.c.caches.Want(l.path)
}

// checkCached finds what is wrong with a lock that is cached.
func (l *Lock) checkCached() error {
	c := l.cfg.cached
	switch {
	case c == nil:
		return nil
	case l.kind != kindMutex || l.cfg.detect:
		return fmt.Errorf("%w: %s cannot be cached, at %s", errInvalidKind, l.usedAs(), l.path)
	case c.Handoffs < 0 || c.Handoffs > mostHandoffs || c.For < 0:
		return fmt.Errorf("%w: CacheHandoffs is not between 0 and %d, or CacheFor(%v) is below 0, at %s", ErrInvalid, mostHandoffs, c.For, l.path)
	default:
		return nil
	}
}
