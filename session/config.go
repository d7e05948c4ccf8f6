package session

import (
	"crypto/tls"
	"fmt"
	"math"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/session/internal/wire"
	"github.com/zkgrant/zkgrant/session/sasl"
)

// The bounds of a session timeout. With a shorter one, a garbage collection may end
// sessions. With a longer one, a crashed holder blocks its lock for hours.
const (
	minTimeout = time.Second
	maxTimeout = time.Hour
)

// The minimums of a tickTime, which is in whole milliseconds, and of a probe interval.
// They refuse a number whose unit was forgotten, such as WithTickTime(2000).
const (
	minTick  = time.Millisecond
	minProbe = 10 * time.Millisecond
)

// Config configures a session. [NewConfig] fills in the defaults.
type Config struct {
	Timeout time.Duration // the session timeout to request
	Logger  *zap.Logger
	Auth    []Auth          // sent on each connection before it is used
	ACL     []zk.ACL        // for created nodes, parents included
	Dial    wire.DialFunc   // nil: net.Dialer
	Lookup  wire.LookupFunc // nil: net.DefaultResolver, or none if Dial is set. For tests.
	SASL    sasl.Mechanism  // nil: none

	// These are called at each dial. If TLS is nil, it is not used. Identities replaces
	// Auth; see [identities] for identities that change.
	TLS        func() *tls.Config
	Identities func() []Auth

	Tick          time.Duration // the servers' tick, or more; 0: the smaller of 2 s and half the timeout
	ProbeInterval time.Duration // maximum time between a holder's writes; 0: a tenth of the timeout
	LossOnSuspend bool          // a lost connection is a loss, so the session never hangs up on a silent server

	// NodeBudget limits the session's ephemeral nodes, in bytes; see [DefaultNodeBudget].
	NodeBudget int

	// GiveUp releases an idle node of a cached lock and returns its seat, or nil if there
	// is no idle node. The loop calls it when the budget is used up. It is nil if there
	// are no cached locks.
	GiveUp func() *Seat

	// OnFill receives each change of the session's fill. It must not block.
	OnFill func(Fill)
	// OnRequest and OnLease, if not nil, receive each request and each new deadline. They
	// must not block.
	OnRequest func(wire.Request)
	OnLease   func(Lease)

	// Asleep returns how long the computer has been suspended since some moment, and never
	// decreases. If nil, the system's clocks are used. For tests.
	Asleep func() time.Duration
}

// Auth is one identity of the session.
type Auth = wire.Identity

// Option changes a Config. The interface is sealed: options are returned by functions.
type Option interface{ apply(*Config) }

// OptionFunc returns the option that calls f.
func OptionFunc(f func(*Config)) Option { return option(f) }

type option func(*Config)

func (f option) apply(c *Config) { f(c) }

// NewConfig returns the default config, changed by the options in order. The defaults are
// a timeout of 10 s, no logging, and nodes open to every client.
func NewConfig(options ...Option) Config {
	cfg := Config{Timeout: 10 * time.Second, Logger: zap.NewNop(), ACL: zk.WorldACL(zk.PermAll),
		NodeBudget: DefaultNodeBudget}
	for _, o := range options {
		if o != nil {
			o.apply(&cfg)
		}
	}
	return cfg
}

// Check returns an error for a config that cannot work.
func (c Config) Check() error {
	switch {
	case c.Timeout < minTimeout || c.Timeout > maxTimeout:
		return fmt.Errorf("%w: a session timeout of %v is not between %v and %v",
			ErrInvalid, c.Timeout, minTimeout, maxTimeout)
	case len(c.ACL) == 0:
		return fmt.Errorf("%w: empty access control list", ErrInvalid)
	case c.Tick != 0 && (c.Tick < minTick || c.Tick > c.Timeout/2):
		// Servers refuse timeouts below two ticks, unless they are configured otherwise.
		return fmt.Errorf("%w: a tickTime of %v is neither 0 nor between %v and half the session timeout of %v",
			ErrInvalid, c.Tick, minTick, c.Timeout)
	case c.ProbeInterval != 0 && (c.ProbeInterval < minProbe || c.ProbeInterval > c.Timeout/probeMin):
		return fmt.Errorf("%w: a probe interval of %v is neither 0 nor between %v and a quarter of the session timeout of %v",
			ErrInvalid, c.ProbeInterval, minProbe, c.Timeout)
	case c.NodeBudget < 1 || c.NodeBudget > math.MaxInt32:
		return fmt.Errorf("%w: a node budget of %d bytes is not between 1 and %d",
			ErrInvalid, c.NodeBudget, math.MaxInt32)
	}
	if checker, is := c.SASL.(sasl.Checker); is {
		if err := checker.Check(); err != nil {
			return fmt.Errorf("%w: SASL %s: %w", ErrInvalid, c.SASL.Name(), err)
		}
	}
	return nil
}

// DefaultNodeBudget is how many bytes a session's ephemeral nodes may take in the
// transaction that ends it. Since ZooKeeper 3.6, that transaction lists all of them, and
// a server that cannot read it back from its log or from the leader does not restart
// (ZOOKEEPER-4306). A server reads up to jute.maxbuffer plus an extra of the same size:
// 2,097,150 bytes by default. The budget still fits if jute.maxbuffer is half its default
// (1,048,574 bytes). That leaves 48,574 bytes for the header, count and digest of the
// transaction and its packet, which take less than 1 KB.
const DefaultNodeBudget = 1_000_000

// DefaultCacheFor is for how long the node of a cached lock is handed on within its
// process once another contender is known, by default.
const DefaultCacheFor = 50 * time.Millisecond

// Lease reports how long the session's locks are safe.
type Lease struct {
	Session  int64
	Deadline time.Time // in ordinary time
	RanOut   bool      // the deadline has passed, and all held locks are lost
}

// Request reports the outcome of a request.
type Request = wire.Request

// MaxRequest is a server's default limit for the size of one request, in bytes
// (jute.maxbuffer).
const MaxRequest = 0xfffff

// SizeOfACL returns how many bytes of a request an access control list takes.
func SizeOfACL(acl []zk.ACL) (size int) {
	const fixed = 12 // the permissions, and the lengths of the two texts
	for _, a := range acl {
		size += fixed + len(a.Scheme) + len(a.ID)
	}
	return size
}

// probeMin is the minimum number of probes per session timeout. With fewer than two
// probes in half the timeout, a lease would run out by itself.
const probeMin = 4
