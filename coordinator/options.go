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

type option = session.Option // so options of package zktest are Options, too

// sessionConfig returns the session's configuration.
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
	adopt     bool // use the size on the servers
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

// WithSessionTimeout requests a session timeout from 1 s to 1 h; the default is 10 s. If
// the server clamps it, a warning is logged.
func WithSessionTimeout(d time.Duration) Option {
	return session.OptionFunc(func(c *session.Config) { c.Timeout = d })
}

// WithTickTime sets an upper bound for the servers' tickTime. The maximum is half the
// session timeout, the minimum 1 ms; the default is the maximum or 2 s, whichever is
// less. If too low, a loss may be reported too late.
func WithTickTime(d time.Duration) Option {
	return session.OptionFunc(func(c *session.Config) { c.Tick = d })
}

// WithProbeInterval sets how often a session that holds locks writes. The default is a
// tenth of the session timeout, the maximum a quarter, the minimum 10 ms. With a shorter
// interval, locks survive longer outages.
func WithProbeInterval(d time.Duration) Option {
	return session.OptionFunc(func(c *session.Config) { c.ProbeInterval = d })
}

// WithLossOnSuspend makes a lost connection a loss: every held lock is lost at once, with
// [ErrSuspended].
func WithLossOnSuspend() Option {
	return session.OptionFunc(func(c *session.Config) { c.LossOnSuspend = true })
}

// WithNodeBudget bounds the session's nodes, waiters included. Each counts the bytes of
// its lock's path, with the chroot, plus 60 or more. An acquisition beyond the budget
// ends with [ErrSessionFull]. The default is 1,000,000. See docs/production.md.
func WithNodeBudget(bytes int) Option {
	return session.OptionFunc(func(c *session.Config) { c.NodeBudget = bytes })
}

// WithLogger sets the logger; nil, the default, logs nothing. It is called from any
// goroutine and must not block.
func WithLogger(logger *zap.Logger) Option {
	if logger == nil {
		logger = zap.NewNop()
	}
	return session.OptionFunc(func(c *session.Config) { c.Logger = logger })
}

// WithAuth adds an identity to each session, such as "digest" with "user:password".
func WithAuth(scheme string, auth []byte) Option {
	auth = slices.Clone(auth)
	return session.OptionFunc(func(c *session.Config) {
		c.Auth = append(c.Auth, session.Auth{Scheme: scheme, Auth: auth})
	})
}

// WithSASL authenticates each connection with a mechanism such as [sasl.DigestMD5].
func WithSASL(mechanism sasl.Mechanism) Option {
	return session.OptionFunc(func(c *session.Config) { c.SASL = mechanism })
}

// WithTLS connects with TLS; nil is an empty config. An empty ServerName becomes the
// host's name.
func WithTLS(cfg *tls.Config) Option {
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return session.OptionFunc(func(c *session.Config) { c.TLS = func() *tls.Config { return cfg } })
}

// WithDialer connects through a function like [net.Dialer.DialContext], which must return
// when its context ends. Close of its connections must not block. TLS runs on top.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return session.OptionFunc(func(c *session.Config) { c.Dial = dial })
}

// WithACL sets the ACL of all nodes that the coordinator creates, parents included; [ACL]
// sets that of one handle. Contenders need READ on each other's nodes. The default is
// open to all. An empty ACL is [ErrInvalid].
func WithACL(acl []zk.ACL) Option {
	acl = append([]zk.ACL{}, acl...) // never nil, which means the default
	return session.OptionFunc(func(c *session.Config) { c.ACL = acl })
}

// ACL is [WithACL] for the nodes of one handle.
func ACL(acl []zk.ACL) LockOption {
	acl = append([]zk.ACL{}, acl...) // never nil, which means the coordinator's
	return lockOption(func(c *lockConfig) { c.acl = acl })
}

// Reentrant lets a holder acquire the lock again at once, without a request, with the
// [Acquisition.Context] of its acquisition. Without the option, that is [ErrDeadlock].
// Each acquisition has its own Grant, with the same Node and Token; the last Release
// frees the lock. Goroutines that share such a context do not exclude each other; see
// [Disown]. Semaphores, unfair locks and multi-locks are [ErrKind].
func Reentrant() LockOption {
	return lockOption(func(c *lockConfig) { c.reentrant = true })
}

// DetectCrash makes the Grant report an earlier holder that crashed:
// [events.Grant.Abandoned]. Every Grant reports the first such holder until a holder has
// released.
//
// A crash is the end of the process or session, a loss, a panic, or Close while the lock
// is held. Every holder must use the option. Semaphores, unfair locks and multi-locks are
// [ErrKind].
func DetectCrash() LockOption { return lockOption(func(c *lockConfig) { c.detect = true }) }

// LockDelay is [DetectCrash], and delays the next Grant by d from when a contender finds
// the crash. d is 0 or from 1 ms to a minute. Contenders with DetectCrash wait, too. Try
// ends with [ErrNotAcquired].
func LockDelay(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) { c.detect, c.delay = true, d })
}

// Try ends the acquisition with [ErrNotAcquired] if it would have to wait; on an unfair
// lock, the error is also a [*events.HeldError], unless the holder has just gone. If no
// server answers in time, it is [ErrNoSession].
func Try() AcquireOption {
	return acquireOption(func(c *acquireConfig) { c.try = true })
}

// MaxWait ends the acquisition with [ErrTimeout] if its Grant is not taken within d, and
// at once if d is not positive. To take only a free lock, use [Try].
func MaxWait(d time.Duration) AcquireOption {
	return acquireOption(func(c *acquireConfig) { c.bounded, c.maxWait = true, d })
}

// Data stores a copy of data in the node. [Lock.Queue] shows it.
func Data(data []byte) AcquireOption {
	data = slices.Clone(data)
	return acquireOption(func(c *acquireConfig) { c.data = data })
}

// Permits requests n permits of a [Semaphore], all together; the default is 1. More than
// the size is [ErrPermits]; another kind of lock is [ErrKind].
func Permits(n int) AcquireOption {
	return acquireOption(func(c *acquireConfig) { c.permits = &n })
}

// AdoptSize makes a [Semaphore] use the size on the servers instead of ending with
// [ErrSizeMismatch]. Other kinds are [ErrKind].
func AdoptSize() LockOption { return lockOption(func(c *lockConfig) { c.adopt = true }) }

// AsKazoo gives the nodes of a mutex, an election or a read/write lock kazoo's names.
// Every program at the path needs it, except kazoo itself. A waiter that sees another
// name ends with [ErrKind], as do other kinds. See docs/interop.md.
func AsKazoo() LockOption { return lockOption(func(c *lockConfig) { c.kazoo = true }) }

type lockOption func(*lockConfig)

func (f lockOption) applyLock(c *lockConfig) { f(c) }
