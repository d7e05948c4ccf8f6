package session

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/zap"
)

// Config says how to reach the ensemble. [NewConfig] fills in the defaults.
type Config struct {
	Timeout time.Duration // the session timeout to ask for
	Logger  *zap.Logger
	Auth    []Auth      // added to each session before it is used
	ACL     []zk.ACL    // for the nodes that are created, parents included
	Dial    DialFunc    // nil: net.Dialer
	TLS     *tls.Config // nil: no TLS
}

// Auth is one identity of the session.
type Auth struct {
	Scheme string
	Auth   []byte
}

// Option changes a Config. The type is sealed: options are made by functions.
type Option interface{ apply(*Config) }

// OptionFunc returns the option that calls f.
func OptionFunc(f func(*Config)) Option { return option(f) }

type option func(*Config)

func (f option) apply(c *Config) { f(c) }

// NewConfig returns the defaults, changed by the options in order: a timeout of
// 10 s, no logging, nodes open to everybody.
func NewConfig(options ...Option) Config {
	cfg := Config{Timeout: 10 * time.Second, Logger: zap.NewNop(), ACL: zk.WorldACL(zk.PermAll)}
	for _, o := range options {
		if o != nil {
			o.apply(&cfg)
		}
	}
	return cfg
}

// Check finds what cannot work.
func (c Config) Check() error {
	switch {
	case c.Timeout < time.Millisecond || c.Timeout > math.MaxInt32*time.Millisecond:
		return fmt.Errorf("zkgrant: session timeout of %v", c.Timeout)
	case c.Logger == nil:
		return errors.New("zkgrant: no logger")
	case len(c.ACL) == 0:
		return errors.New("zkgrant: empty access control list")
	default:
		return nil
	}
}
