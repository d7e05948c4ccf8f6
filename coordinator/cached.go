package coordinator

import (
	"fmt"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/coordinator/internal/cache"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// keeper makes the acquisitions that get a cached lock's nodes. They have no caller.
type keeper Lock

var (
	_ cache.Keeper = (*keeper)(nil)
	_ actors.Owner = (*keeper)(nil)
)

// Queue returns an acquisition of a node with the data.
func (k *keeper) Queue(data string, tell actors.Beside) (*actors.Lookout, error) {
	if err := k.c.live.hold(); err != nil {
		return nil, err
	}
	place := session.Place{Dir: k.path, Kind: k.rule.Kind(), ACL: k.cfg.acl, Marks: k.marks | events.MarkCached}
	if data != "" {
		place.Data = []byte(data)
	}
	cfg := actors.Config{Path: k.path, Owner: k, House: &k.c.keepers}
	return actors.NewLookout(cfg, k.rule, k.c.session.Seat(place), tell), nil
}

// Explain returns what Err says.
func (k *keeper) Explain(end actors.End) error {
	return (&ownerOfActor{lock: (*Lock)(k)}).Explain(end)
}

// Members returns nothing.
func (k *keeper) Members() []events.Member { return nil }

// Gone has the coordinator forget the node.
func (k *keeper) Gone() { k.c.live.unhold() }

// turn returns the actor of an acquisition that takes its turn under a cached node.
func (l *Lock) turn(drive actors.Config, cfg acquireConfig) *actors.Lock {
	of := l.cached
	if len(cfg.data) > 0 {
		with := *of
		with.Terms.Data, of = string(cfg.data), &with
	}
	return of.Lock(drive)
}

// caching returns what acquisitions without data have in common, or nil if they are not
// cached.
func (l *Lock) caching() *cache.Handle {
	if l.cfg.cached == nil {
		return nil
	}
	l.c.caching.Store(true)
	of := &cache.Handle{Caches: l.c.caches, Path: l.path, Terms: *l.cfg.cached, Keeper: (*keeper)(l)}
	of.Terms.Revocable = l.cfg.revocable
	if l.cfg.acl != nil {
		of.Terms.ACL = fmt.Sprint(l.cfg.acl)
	}
	return of
}

// evictCached releases idle cached locks at the paths of the lock, because the lock is
// about to queue there.
func (l *Lock) evictCached() {
	if m := l.members; m != nil {
		for _, member := range m.locks {
			l.c.caches.Want(member.path, nil)
		}
		return
	}
	l.c.caches.Want(l.path, nil)
}

// checkCached finds what is wrong with a lock that is cached.
func (l *Lock) checkCached() error {
	c := l.cfg.cached
	switch {
	case c == nil:
		return nil
	case l.kind != kindMutex || l.cfg.detect:
		return fmt.Errorf("%w: %s cannot be cached: %s", errInvalidKind, l.usedAs(), l.path)
	case c.Handoffs < 0 || c.Handoffs > mostHandoffs || c.For < 0:
		return fmt.Errorf("%w: CacheHandoffs is not between 0 and %d, or CacheFor(%v) is negative: %s", ErrInvalid, mostHandoffs, c.For, l.path)
	default:
		return nil
	}
}
