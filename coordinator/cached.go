package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

const (
	defaultHandoffs  = 64
	defaultCacheFor  = 50 * time.Millisecond
	defaultCacheSize = 1024
	defaultCacheIdle = time.Minute
	mostHandoffs     = 1 << 20
	// mostCachedData is how much data a node has at most that is kept: the data tell which acquisitions share it.
	mostCachedData = 1 << 10
)

// CacheOption configures [Cached].
type CacheOption interface{ applyCache(*actors.Terms) }

type cacheOption func(*actors.Terms)

func (f cacheOption) applyCache(t *actors.Terms) { f(t) }

// Cached keeps the node of a [Coordinator.Mutex] after a Release while no other contender wants the lock. The next Acquire in this
// coordinator is then granted without a request. A bounded number of such grants goes before a contender of another session. The pair of
// Token and [events.Grant.Turn] grows. Other kinds of locks, [DetectCrash], [AsKazoo] and members of a multi-lock are [ErrKind]. See
// docs/caching.md.
func Cached(options ...CacheOption) LockOption {
	terms := actors.Terms{Handoffs: defaultHandoffs, For: defaultCacheFor}
	for _, o := range options {
		if o != nil {
			o.applyCache(&terms)
		}
	}
	return lockOption(func(c *lockConfig) { c.cached = &terms })
}

// CacheHandoffs bounds the grants within the process once another contender is known: 0 to 1<<20. The default is 64.
func CacheHandoffs(n int) CacheOption {
	return cacheOption(func(t *actors.Terms) { t.Handoffs = int32(min(max(n, -1), mostHandoffs+1)) }) //nolint:gosec // it is in the range
}

// CacheFor bounds the time for these grants; see [CacheHandoffs]. The default is 50 ms, and 0 is none.
func CacheFor(d time.Duration) CacheOption {
	return cacheOption(func(t *actors.Terms) { t.For = d })
}

// cacheConfig is what the options of a coordinator say about cached locks.
type cacheConfig struct {
	size int
	idle time.Duration
}

// cachesOption changes nothing of a session.
type cachesOption struct {
	Option
	apply func(*cacheConfig)
}

// WithCacheSize bounds the idle nodes of [Cached] locks. The default is 1,024, and 0 keeps none.
func WithCacheSize(n int) Option {
	return cachesOption{session.OptionFunc(func(*session.Config) {}), func(c *cacheConfig) { c.size = n }}
}

// WithCacheIdle bounds how long a node of a [Cached] lock stays idle. The default is a minute.
func WithCacheIdle(d time.Duration) Option {
	return cachesOption{session.OptionFunc(func(*session.Config) {}), func(c *cacheConfig) { c.idle = d }}
}

func cacheConfigOf(options []Option) (cacheConfig, error) {
	cfg := cacheConfig{size: defaultCacheSize, idle: defaultCacheIdle}
	for _, o := range options {
		if o, ok := o.(cachesOption); ok {
			o.apply(&cfg)
		}
	}
	if cfg.size < 0 || cfg.idle < 0 {
		return cfg, fmt.Errorf("%w: cache of %d nodes, idle for %v", ErrInvalid, cfg.size, cfg.idle)
	}
	return cfg, nil
}

// keeping returns how the cache of a path gets its nodes. What queues up for one is an acquisition of its own, of which nobody hears.
func (l *Lock) keeping(data []byte) actors.CacheConfig {
	c := l.c
	return actors.CacheConfig{Idle: c.keep.idle, Interval: c.session.Interval, Queue: func(
		beside func(recipes.Epoch, recipes.Input, []recipes.Effect),
	) (*actors.Lock, actors.StayPort, func(bool), error) {
		if err := c.live.hold(); err != nil {
			return nil, nil, nil, err
		}
		seat := c.session.Seat(session.Place{
			Dir: l.path, Kind: l.rule.Kind(), Data: data, ACL: l.cfg.acl, Marks: l.marks() | events.MarkCached,
		})
		queue := actors.NewLock(actors.Config{Path: l.path, Rule: l.rule, Port: seat, Owner: (*keeper)(l), House: &c.keepers, Beside: beside})
		return queue, seat, func(try bool) {
			queue.Start(context.Background(), 0, recipes.Started{Try: try, Keep: true, Strict: c.cfg.LossOnSuspend})
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

// wants has cached nodes at the paths of the lock go, which is about to queue up there.
func (l *Lock) wants() {
	if m := l.multi(); m != nil {
		for _, member := range m.locks {
			l.c.caches.Want(member.path)
		}
		return
	}
	l.c.caches.Want(l.path)
}

// checkCached finds what is wrong with a lock that may be cached.
func (l *Lock) checkCached() error {
	c := l.cfg.cached
	switch {
	case c == nil:
		return nil
	case l.kind != kindMutex || l.cfg.detect:
		return fmt.Errorf("%w: %s cannot be cached, at %s", errInvalidKind, l.usedAs(), l.path)
	case c.Handoffs < 0 || c.Handoffs > mostHandoffs || c.For < 0:
		return fmt.Errorf("%w: %d grants within %v, at %s", ErrInvalid, c.Handoffs, c.For, l.path)
	default:
		return nil
	}
}

// mayBeIdle reports whether the node that holds may have no holder.
func mayBeIdle(node string) bool {
	marks, ours := events.MarksOf(node)
	return ours && marks&events.MarkCached != 0
}
