package coordinator

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/session"
)

// Option changes how [Open] and [Connect] connect.
type Option interface{ option }

type option = session.Option // a test server has one, too

// sessionConfig returns what the options say.
func sessionConfig(options []Option) session.Config {
	all := make([]session.Option, len(options))
	for i, o := range options {
		all[i] = o
	}
	return session.NewConfig(all...)
}

// LockOption changes what a handle stands for.
type LockOption interface{ applyLock(*lockConfig) }

// AcquireOption changes one acquisition.
type AcquireOption interface{ applyAcquire(*acquireConfig) }

type lockConfig struct {
	acl       []zk.ACL // nil: the coordinator's
	adopt     bool     // another opinion of a semaphore's size counts
	detect    bool     // the lock tells of crashes
	kazoo     bool     // kazoo's names
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
	permits *int // nil: as many as the lock's kind takes
}

type acquireOption func(*acquireConfig)

func (f acquireOption) applyAcquire(c *acquireConfig) { f(c) }

// WithSessionTimeout asks for a session timeout; the default is 10 s, and one below 1 s or above 1 h is [ErrInvalid]. The server
// clamps it, by default to between 2 and 20 of its ticks; then a warning is logged with both.
func WithSessionTimeout(d time.Duration) Option {
	return session.OptionFunc(func(c *session.Config) { c.Timeout = d })
}

// WithTickTime says what the servers' tickTime is, or that it is no longer than
// this; 0 stands for the default, the smaller of 2 s and half the session timeout.
// How long a follower keeps signs of life to itself depends on it: a tick that is
// longer than was said breaks the promise that a loss is told in time, one that is
// shorter costs some of the time for which a lock outlives an outage. It is at most
// half the session timeout.
//
// Limitation: observers that follow through an ObserverMaster keep signs of life to
// themselves for longer. If clients connect to these, say 1.6 times the servers'
// tickTime, or more; twice keeps a reserve.
func WithTickTime(d time.Duration) Option {
	return session.OptionFunc(func(c *session.Config) { c.Tick = d })
}

// WithProbeInterval sets how often the session writes to the ensemble while any of
// its locks is held: one write in each interval, however many locks there are, and
// none if something else was written. 0 stands for the default, a tenth of the
// session timeout; a quarter is the most. A shorter interval lets locks outlive
// longer outages, for more writes; what is promised does not depend on it.
func WithProbeInterval(d time.Duration) Option {
	return session.OptionFunc(func(c *session.Config) { c.ProbeInterval = d })
}

// WithLossOnSuspend takes a lost connection for a loss: every lock that is held is
// lost at once, with [events.ReasonSuspended] and [ErrSuspended], instead of when
// its lease runs out. A restart of a server costs its clients their locks then. A
// server that falls silent is not left before two thirds of the session timeout.
func WithLossOnSuspend() Option {
	return session.OptionFunc(func(c *session.Config) { c.LossOnSuspend = true })
}

// WithLogger has the coordinator log; by default it does not. Losses and lost
// connections are warnings, the life of sessions and elections is information, and on the debug
// level the life of each lock is told. Above that level a message is
// logged ten times a second at most, and every thousandth time beyond that.
//
// The logger is called in any goroutine, that of a caller of Acquire or Release
// included: it must not take a mutex that is held around these calls. While it blocks
// nothing is heard of the connection. nil stands for the default, no logging.
func WithLogger(logger *zap.Logger) Option {
	if logger == nil {
		logger = zap.NewNop()
	}
	return session.OptionFunc(func(c *session.Config) { c.Logger = logger })
}

// WithAuth adds an identity to each session, such as "digest" and "user:password".
// It may be given several times.
func WithAuth(scheme string, auth []byte) Option {
	auth = slices.Clone(auth)
	return session.OptionFunc(func(c *session.Config) {
		c.Auth = append(c.Auth, session.Auth{Scheme: scheme, Auth: auth})
	})
}

// WithTLS connects by TLS. An empty ServerName becomes the name of the host; nil
// stands for an empty config.
func WithTLS(cfg *tls.Config) Option {
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return session.OptionFunc(func(c *session.Config) { c.TLS = cfg })
}

// WithDialer connects through the function, which has the form of [net.Dialer.DialContext]. It is called with each server's name
// as it stands in the connect string, and must give up when the context ends; TLS, if asked for, goes on top. The connection's
// Close must not block. nil stands for the default, a net.Dialer.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return session.OptionFunc(func(c *session.Config) { c.Dial = dial })
}

// WithACL sets the access control list of the nodes that are created, parents
// included: for a coordinator the default, for a handle its own. Contenders need
// READ for each other's nodes, or they cannot see them go. The default is open to
// everybody.
func WithACL(acl []zk.ACL) ACLOption {
	acl = slices.Clone(acl)
	return ACLOption{
		Option: session.OptionFunc(func(c *session.Config) { c.ACL = acl }),
		acl:    acl,
	}
}

// ACLOption is an [Option] and a [LockOption].
type ACLOption struct {
	Option
	acl []zk.ACL
}

func (o ACLOption) applyLock(c *lockConfig) { c.acl = o.acl }

// Reentrant lets whoever holds the lock ask for it again, as a function does that is
// called under the lock and takes it itself. The ownership is in the context: who asks
// with the [Acquisition.Context] of an acquisition of the same side of the same lock, by the same
// coordinator, which holds at that moment, has it at once. No request is made for that. Any goroutine may do so that
// has the context, and any number of times. With another context it queues up as everybody does; so does who
// asks before the Grant of that acquisition, or after its end. Without the option
// to ask like that ends in [ErrDeadlock]. It matters for the handle that is asked,
// and not for the one that the lock is held by.
//
// Each acquisition has a Grant of its own, with the same Node and Token, and is released
// and told a loss by itself. They share one node, which the one that is released last gives
// up, in whatever order that happens: nobody else has the lock before. The node was
// made by the first, and what [WithData] and [WithACL] say for another does not matter.
//
// A context of the outer acquisition is cancelled when that is released, and with it
// the contexts made of it: what is to go on under the inner one needs a context of
// its own. For a semaphore and an unfair lock the option makes no difference: of the one a context
// may have more permits, and the other is not entered again.
func Reentrant() LockOption {
	return lockOption(func(c *lockConfig) { c.reentrant = true })
}

// Try ends the acquisition with [ErrNotAcquired] unless the lock can be had
// without queueing; of an unfair lock the error is a [*HeldError], unless who had it is gone already.
func Try() AcquireOption {
	return acquireOption(func(c *acquireConfig) { c.try = true })
}

// WithMaxWait ends the acquisition with [ErrTimeout] if its Grant has not been
// taken within the duration.
func WithMaxWait(d time.Duration) AcquireOption {
	return acquireOption(func(c *acquireConfig) { c.bounded, c.maxWait = true, d })
}

// WithData stores the data in the node, for others to see who holds or waits. The
// slice is copied.
func WithData(data []byte) AcquireOption {
	data = slices.Clone(data)
	return acquireOption(func(c *acquireConfig) { c.data = data })
}

// WithPermits takes so many permits of a [Semaphore], all at once or none; the default is
// 1. None, fewer than none, more than there are, and any number for a lock that is no semaphore
// end in [ErrPermits].
func WithPermits(n int) AcquireOption {
	return acquireOption(func(c *acquireConfig) { c.permits = &n })
}

// AdoptSize has a [Semaphore] take whatever size the servers have, instead of ending with
// [ErrSizeMismatch] if that is not the handle's. The handle's counts if nobody has said one yet. It is
// for programs of which several versions run at a time, and means nothing to other
// locks.
func AdoptSize() LockOption { return lockOption(func(c *lockConfig) { c.adopt = true }) }

// AsKazoo gives the nodes of a mutex, an election or a read/write lock the names that kazoo gives them, for a path at
// which there are kazoo's locks and no others: its Lock beside a mutex, its Election beside an election, its ReadLock and WriteLock beside
// a read/write lock. Kazoo sees no other names and waits for no other nodes (unless each of its locks was told of
// them, by extra_lock_patterns: then nobody needs this option). All programs that use the path have to be told.
//
// Curator's locks do not see kazoo's names, and neither does kazoo see those that everybody else's nodes bear, ours
// included when they are made without the option. So whoever sees one of them in the queue, when it comes or when it
// looks again while it waits, ends in [ErrKind]; but who has the lock sees nobody. A semaphore or an unfair lock with the
// option is ErrKind always: kazoo's semaphore is made otherwise, and an unfair lock it has not.
//
// A directory that it makes stays when it is empty, and so does what it makes above, for a lock object of kazoo's makes its
// directory once, and fails when that has gone since. A directory that is there already as a container, as Curator and
// ours without the option make them, still goes when it is empty: delete that first. A writer does not become a reader in its place: to ask for that is [ErrDeadlock]. Kazoo's contenders()
// takes what [WithData] says for UTF-8.
func AsKazoo() LockOption { return lockOption(func(c *lockConfig) { c.kazoo = true }) }

type lockOption func(*lockConfig)

func (f lockOption) applyLock(c *lockConfig) { f(c) }
