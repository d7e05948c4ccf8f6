package coordinator

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/coordinator/internal/cache"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/sasl"
)

// Option configures a coordinator for [Open] and [Connect].
type Option interface{ option }

type option = session.Option // an option of package zktest is one, too

// sessionConfig returns what the options say.
func sessionConfig(options []Option) session.Config {
	all := make([]session.Option, len(options))
	for i, o := range options {
		all[i] = o
	}
	return session.NewConfig(all...)
}

// LockOption configures a lock handle.
type LockOption interface{ applyLock(*lockConfig) }

// AcquireOption configures one acquisition.
type AcquireOption interface{ applyAcquire(*acquireConfig) }

type lockConfig struct {
	acl       []zk.ACL // nil: the coordinator's
	cached    *cache.Terms
	delay     time.Duration
	adopt     bool // the size on the servers counts
	detect    bool // the lock reports crashes
	kazoo     bool // kazoo's names
	reentrant bool
	revocable bool
}

func lockConfigOf(options []LockOption) (cfg lockConfig) {
	for _, o := range options {
		if o != nil {
			o.applyLock(&cfg)
		}
	}
	return cfg
}

type acquireConfig struct {
	try     bool
	keep    bool
	bounded bool
	maxWait time.Duration
	data    []byte
	permits *int         // nil: the default of the kind
	feed    *actors.Feed // of the group; nil: there is none
}

type acquireOption func(*acquireConfig)

func (f acquireOption) applyAcquire(c *acquireConfig) { f(c) }

// WithSessionTimeout asks for a session timeout of 1 s to 1 h; the default is 10 s. If
// the server clamps it, a warning is logged.
func WithSessionTimeout(d time.Duration) Option {
	return session.OptionFunc(func(c *session.Config) { c.Timeout = d })
}

// WithTickTime gives an upper bound of the servers' tickTime, by default the smaller of 2
// s and half the session timeout, which is the maximum. If it is too low, a loss may come
// too late.
func WithTickTime(d time.Duration) Option {
	return session.OptionFunc(func(c *session.Config) { c.Tick = d })
}

// WithProbeInterval sets how often a session that holds locks writes: by default each
// tenth of the session timeout, at most a quarter. With a shorter interval, locks outlive
// longer outages.
func WithProbeInterval(d time.Duration) Option {
	return session.OptionFunc(func(c *session.Config) { c.ProbeInterval = d })
}

// WithLossOnSuspend treats a lost connection as a loss: every held lock is lost at once,
// with [ErrSuspended].
func WithLossOnSuspend() Option {
	return session.OptionFunc(func(c *session.Config) { c.LossOnSuspend = true })
}

// WithNodeBudget bounds the session's nodes: the bytes of each lock's path, chroot
// included, and 60. Waiters count. An acquisition beyond it fails with [ErrSessionFull].
// The default is 1,000,000. See docs/production.md.
func WithNodeBudget(bytes int) Option {
	return session.OptionFunc(func(c *session.Config) { c.NodeBudget = bytes })
}

// WithLogger sets the logger; nil, the default, logs nothing. It is called from any
// goroutine, and must not block.
func WithLogger(logger *zap.Logger) Option {
	if logger == nil {
		logger = zap.NewNop()
	}
	return session.OptionFunc(func(c *session.Config) { c.Logger = logger })
}

// WithAuth adds an identity to each session, such as "digest" and "user:password".
func WithAuth(scheme string, auth []byte) Option {
	auth = slices.Clone(auth)
	return session.OptionFunc(func(c *session.Config) {
		c.Auth = append(c.Auth, session.Auth{Scheme: scheme, Auth: auth})
	})
}

// WithSASL authenticates each connection, by a mechanism such as [sasl.DigestMD5].
func WithSASL(mechanism sasl.Mechanism) Option {
	return session.OptionFunc(func(c *session.Config) { c.SASL = mechanism })
}

// WithTLS connects by TLS; nil stands for an empty config. An empty ServerName becomes
// the name of the host.
func WithTLS(cfg *tls.Config) Option {
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return session.OptionFunc(func(c *session.Config) { c.TLS = func() *tls.Config { return cfg } })
}

// WithDialer connects through a function like [net.Dialer.DialContext], which must
// return when its context ends. TLS goes on top. Close of its connections must not
// block.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return session.OptionFunc(func(c *session.Config) { c.Dial = dial })
}

// WithACL sets the ACL of all nodes that the coordinator creates, parents included; [ACL]
// sets that of one handle. Contenders need READ for each other's nodes. The default is
// open to all. An empty one is [ErrInvalid].
func WithACL(acl []zk.ACL) Option {
	acl = append([]zk.ACL{}, acl...) // a nil would be the default
	return session.OptionFunc(func(c *session.Config) { c.ACL = acl })
}

// ACL is [WithACL] for the nodes of one handle.
func ACL(acl []zk.ACL) LockOption {
	acl = append([]zk.ACL{}, acl...) // a nil would be the coordinator's
	return lockOption(func(c *lockConfig) { c.acl = acl })
}

// Reentrant lets a holder acquire the lock again at once, without a request, with the
// [Acquisition.Context] of its acquisition. Without it, that is [ErrDeadlock]. Each
// acquisition has its own Grant, with the same Node and Token; the last Release frees the
// lock. Goroutines that share such a context are inside together; see [Disown].
// Semaphores, unfair locks and multi-locks are [ErrKind].
func Reentrant() LockOption {
	return lockOption(func(c *lockConfig) { c.reentrant = true })
}

// Try ends the acquisition with [ErrNotAcquired] if it would have to queue; for an unfair
// lock, with a [*events.HeldError]. If no server answers in time, that is [ErrNoSession].
func Try() AcquireOption {
	return acquireOption(func(c *acquireConfig) { c.try = true })
}

// MaxWait ends the acquisition with [ErrTimeout] if its Grant is not taken within d; at
// once if d, such as a computed rest of time, is 0 or less. To ask only for a free lock,
// use [Try].
func MaxWait(d time.Duration) AcquireOption {
	return acquireOption(func(c *acquireConfig) { c.bounded, c.maxWait = true, d })
}

// Data stores a copy of data in the node, where [Lock.Queue] shows it.
func Data(data []byte) AcquireOption {
	data = slices.Clone(data)
	return acquireOption(func(c *acquireConfig) { c.data = data })
}

// Permits takes n permits of a [Semaphore], together; by default 1. More than there are
// is [ErrPermits]; another lock is [ErrKind].
func Permits(n int) AcquireOption {
	return acquireOption(func(c *acquireConfig) { c.permits = &n })
}

// AdoptSize makes a [Semaphore] use the size on the servers, instead of ending with
// [ErrSizeMismatch]. Other locks are [ErrKind].
func AdoptSize() LockOption { return lockOption(func(c *lockConfig) { c.adopt = true }) }

// AsKazoo gives the nodes of a mutex, an election or a read/write lock kazoo's names.
// Every program at the path needs it, except kazoo itself. A waiter that sees another
// name ends with [ErrKind], and so do other locks. See docs/interop.md.
func AsKazoo() LockOption { return lockOption(func(c *lockConfig) { c.kazoo = true }) }

type lockOption func(*lockConfig)

func (f lockOption) applyLock(c *lockConfig) { f(c) }
