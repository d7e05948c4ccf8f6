package coordinator

import (
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/coordinator/internal/cache"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

const (
	defaultHandoffs  = 64
	defaultCacheSize = 1024
	defaultCacheIdle = time.Minute
	mostHandoffs     = 1 << 20
	// mostCachedData limits the data of a cached node. They are part of the key by which
	// acquisitions share it.
	mostCachedData = 1 << 10
)

// Cached keeps the node of a [Coordinator.Mutex] after a Release while no other contender
// requests the lock. The next Acquire in this coordinator is then granted without a
// request. A bounded number of such grants precedes a contender of another session. The
// pair of Token and Turn grows. See docs/caching.md.
func Cached(options ...LockOption) LockOption {
	return lockOption(func(c *lockConfig) {
		for _, o := range options {
			if o != nil {
				o.applyLock(c)
			}
		}
		c.terms()
	})
}

// CacheHandoffs is [Cached] with a limit for the grants within the process once another
// contender is known: 0 to 1<<20. The default is 64.
func CacheHandoffs(n int) LockOption {
	handoffs := int32(min(max(n, -1), mostHandoffs+1)) //nolint:gosec // it is in the range
	return lockOption(func(c *lockConfig) { c.terms().Handoffs = handoffs })
}

// CacheFor is [Cached] with a time limit for the grants that [CacheHandoffs] counts. The
// default is 50 ms; 0 allows none.
func CacheFor(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) { c.terms().For = d })
}

// terms makes the lock a cached one and returns its terms.
func (c *lockConfig) terms() *cache.Terms {
	if c.cached == nil {
		c.cached = &cache.Terms{Handoffs: defaultHandoffs, For: session.DefaultCacheFor}
	}
	return c.cached
}

// cachesOption is an option that does not concern the session.
type cachesOption struct {
	Option
	apply func(*cache.Config)
}

// WithCacheSize bounds the idle nodes of [Cached] locks. The default is 1,024; 0 keeps
// none.
func WithCacheSize(n int) Option {
	return cachesOption{session.OptionFunc(func(*session.Config) {}), func(c *cache.Config) { c.Size = n }}
}

// WithCacheIdle bounds how long the node of a [Cached] lock stays idle. The default is a
// minute, the minimum a probe interval.
func WithCacheIdle(d time.Duration) Option {
	return cachesOption{session.OptionFunc(func(*session.Config) {}), func(c *cache.Config) { c.Idle = d }}
}

// cacheConfig returns the configuration of cached locks.
func cacheConfig(options []Option) (cache.Config, error) {
	cfg := cache.Config{Size: defaultCacheSize, Idle: defaultCacheIdle}
	for _, o := range options {
		if o, ok := o.(cachesOption); ok {
			o.apply(&cfg)
		}
	}
	if cfg.Size < 0 || cfg.Idle < 0 {
		return cfg, fmt.Errorf("%w: WithCacheSize(%d) or WithCacheIdle(%v) is negative",
			ErrInvalid, cfg.Size, cfg.Idle)
	}
	return cfg, nil
}

// keeper creates the acquisitions that own the nodes of a cached lock. They have no
// caller.
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
	place := session.Place{Dir: k.path, Kind: k.rule.Kind(), ACL: k.cfg.acl,
		Marks: k.marks | events.MarkCached}
	if data != "" {
		place.Data = []byte(data)
	}
	cfg := actors.Config{Path: k.path, Owner: k, House: &k.c.keepers}
	return actors.NewLookout(cfg, k.rule, k.c.session.Seat(place), tell), nil
}

// Explain returns the error for Err.
func (k *keeper) Explain(end actors.End) error {
	return (&ownerOfActor{lock: (*Lock)(k)}).Explain(end)
}

// Gone removes the node from the coordinator's count.
func (k *keeper) Gone() { k.c.live.unhold() }

// turn returns an actor that takes its turn under a cached node.
func (l *Lock) turn(drive actors.Config, cfg acquireConfig) *actors.Lock {
	of := l.cached
	if len(cfg.data) > 0 {
		with := *of
		with.Terms.Data, of = string(cfg.data), &with
	}
	return of.Lock(drive)
}

// caching returns the handle for cached acquisitions without data, or nil if the lock is
// not cached.
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

// checkCached checks the options of a cached lock.
func (l *Lock) checkCached() error {
	c := l.cfg.cached
	switch {
	case c == nil:
		return nil
	case l.kind != kindMutex || l.cfg.detect:
		return fmt.Errorf("%w: %s cannot be cached: %s", errInvalidKind, l.usedAs(), l.path)
	case c.Handoffs < 0 || c.Handoffs > mostHandoffs || c.For < 0:
		return fmt.Errorf("%w: CacheHandoffs is not between 0 and %d, or CacheFor(%v) is negative: %s",
			ErrInvalid, mostHandoffs, c.For, l.path)
	default:
		return nil
	}
}
