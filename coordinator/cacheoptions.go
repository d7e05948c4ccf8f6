package coordinator

import (
	"fmt"
	"time"

	"github.com/zkgrant/zkgrant/coordinator/internal/cache"
	"github.com/zkgrant/zkgrant/session"
)

const (
	defaultHandoffs  = 64
	defaultCacheFor  = 50 * time.Millisecond
	defaultCacheSize = 1024
	defaultCacheIdle = time.Minute
	mostHandoffs     = 1 << 20
	// mostCachedData bounds the data of a node that is kept: the data tell which
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

// terms makes the lock a cached one, and returns its terms.
func (c *lockConfig) terms() *cache.Terms {
	if c.cached == nil {
		c.cached = &cache.Terms{Handoffs: defaultHandoffs, For: defaultCacheFor}
	}
	return c.cached
}

// cachesOption changes nothing of a session.
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

// cacheConfig returns what the options say about cached locks.
func cacheConfig(options []Option) (cache.Config, error) {
	cfg := cache.Config{Size: defaultCacheSize, Idle: defaultCacheIdle}
	for _, o := range options {
		if o, ok := o.(cachesOption); ok {
			o.apply(&cfg)
		}
	}
	if cfg.Size < 0 || cfg.Idle < 0 {
		return cfg, fmt.Errorf("%w: WithCacheSize(%d) or WithCacheIdle(%v) is negative", ErrInvalid, cfg.Size, cfg.Idle)
	}
	return cfg, nil
}
