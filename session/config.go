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

// The bounds of a session timeout. Below them a garbage collection ends sessions. Above
// them a crashed holder blocks its lock for hours.
const (
	minTimeout = time.Second
	maxTimeout = time.Hour
)

// Config configures a session. [NewConfig] fills in the defaults.
type Config struct {
	Timeout time.Duration // the session timeout to ask for
	Logger  *zap.Logger
	Auth    []Auth          // sent on each connection before it is used
	ACL     []zk.ACL        // for the nodes that are created, parents included
	Dial    wire.DialFunc   // nil: net.Dialer
	Lookup  wire.LookupFunc // nil: net.DefaultResolver, and none if there is a Dial. For tests.
	SASL    sasl.Mechanism  // nil: none

	// These are asked at each dial. TLS: nil is none. Identities replaces Auth; see
	// [identities] for one that changes.
	TLS        func() *tls.Config
	Identities func() []Auth

	Tick          time.Duration // the servers' tick, or more; 0: the smaller of 2 s and half the timeout
	ProbeInterval time.Duration // between the writes of a holder at the least; 0: a tenth of the timeout
	LossOnSuspend bool          // a lost connection is a loss, and the session does not hang up on a silent server by itself

	// NodeBudget bounds the ephemeral nodes of the session, in bytes; see
	// [DefaultNodeBudget].
	NodeBudget int

	// GiveUp releases the idle node of a cached lock and returns its seat, or nil if
	// there is no idle node. The loop calls it when the budget is used up. nil: there are
	// no such nodes.
	GiveUp func() *Seat

	// OnFill receives how full the session is, at each change. It must not block.
	OnFill func(Fill)
	// OnRequest and OnLease receive each request and each deadline, if they are not nil.
	// They must not block.
	OnRequest func(wire.Request)
	OnLease   func(Lease)

	// Asleep returns how long the machine has been suspended since some moment, and never
	// decreases. nil: ask the system. For tests.
	Asleep func() time.Duration
}

// Auth is one identity of the session.
type Auth = wire.Identity

// Option changes a Config. The type is sealed: functions return the options.
type Option interface{ apply(*Config) }

// OptionFunc returns the option that calls f.
func OptionFunc(f func(*Config)) Option { return option(f) }

type option func(*Config)

func (f option) apply(c *Config) { f(c) }

// NewConfig returns the defaults, changed by the options in order: a timeout of 10 s, no
// logging, nodes open to every client.
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
	case c.Tick < 0 || c.Tick > c.Timeout/2:
		// Servers refuse timeouts below two ticks, unless they are configured otherwise.
		return fmt.Errorf("%w: a tickTime of %v is not between 0 and half the session timeout of %v",
			ErrInvalid, c.Tick, c.Timeout)
	case c.ProbeInterval < 0 || c.ProbeInterval > c.Timeout/probeMin:
		return fmt.Errorf("%w: a probe interval of %v is not between 0 and a quarter of the session timeout of %v", ErrInvalid, c.ProbeInterval, c.Timeout)
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

// DefaultNodeBudget is how many bytes the ephemeral nodes of a session may take in the
// transaction that ends it. Since 3.6 that transaction lists all of them, and a server
// that cannot read it back from its log or from the leader does not restart
// (ZOOKEEPER-4306). A server reads jute.maxbuffer and an extra of the same size:
// 2,097,150 bytes by default. The budget also fits where jute.maxbuffer is half its
// default, 1,048,574 bytes. It leaves 48,574 of them for the rest of the transaction and
// its packet: a header, a count and a digest, together less than 1 KB.
const DefaultNodeBudget = 1_000_000

// Lease reports until when the session's locks are safe.
type Lease struct {
	Session  int64
	Deadline time.Time // in ordinary time
	RanOut   bool      // the deadline has come, and what was held is lost
}

// Request reports the outcome of a request.
type Request = wire.Request

// MaxRequest is the default limit of a server for the bytes of one request
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

// probeMin is the part of the timeout that is between two probes at most. With less
// than two probes in half the timeout a lease would run out of itself.
const probeMin = 4
