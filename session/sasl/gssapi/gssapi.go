package gssapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"

	"github.com/zkgrant/zkgrant/session/sasl"
)

// Keytab returns the mechanism for a principal with a key in the keytab: app, app/host or
// app/host@REALM. The default realm is default_realm of krb5.conf. It fails with
// [ErrConfig] or [ErrCredentials] if a file cannot be read, or if the keytab has no key
// for the principal. It does not contact a KDC.
func Keytab(principal, path string, options ...Option) (sasl.Mechanism, error) {
	m, err := newMechanism(options)
	if err != nil {
		return nil, err
	}
	client, err := parsePrincipal(principal)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	if client.realm = cmp.Or(client.realm, m.config.LibDefaults.DefaultRealm); client.realm == "" {
		return nil, fmt.Errorf("%w: %s has no default_realm, which %s needs", ErrConfig, m.conf, principal)
	}
	m.client, m.credentials = client, keys{path}
	m.kept = map[string]ticket{}
	if _, _, err := (keys{path}).of(client); err != nil {
		return nil, err
	}
	return m, nil
}

// CredentialCache returns the mechanism for the principal of a credential cache, as
// written by kinit. The path may begin with FILE:. If it is empty, KRB5CCNAME is used, or
// else /tmp/krb5cc_UID. It fails with [ErrConfig] or [ErrCredentials] if a file cannot be
// read. The tickets may be added later.
//
// The cache is read again at each connection and never written, so kinit, k5start or a
// similar program must renew it.
func CredentialCache(path string, options ...Option) (sasl.Mechanism, error) {
	m, err := newMechanism(options)
	if err != nil {
		return nil, err
	}
	path, err = cachePath(cmp.Or(path, os.Getenv("KRB5CCNAME"), fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())))
	if err != nil {
		return nil, err
	}
	cache, err := loadCache(path)
	if err != nil {
		return nil, err
	}
	m.client, m.credentials = owner(cache), file{path}
	return m, nil
}

// Option configures a mechanism.
type Option func(*mechanism)

// Config names the krb5.conf. The default is KRB5_CONFIG, or /etc/krb5.conf if that is
// not set.
func Config(path string) Option { return func(m *mechanism) { m.conf = path } }

// ServerPrincipal names the servers' principal. _HOST in it is replaced by the name of
// the server's host. The default is zookeeper/_HOST. The option is like
// zookeeper.server.principal of the Java client.
func ServerPrincipal(name string) Option { return func(m *mechanism) { m.serverName = name } }

// CanonicalHost takes the name of the server's host from DNS, by the server's address. It
// is for servers that are dialed by address or by another name. If there are several
// addresses, the first one counts. A forged DNS answer can then choose the server.
func CanonicalHost() Option { return func(m *mechanism) { m.canonical = true } }

// mechanism is GSSAPI for one principal.
type mechanism struct {
	conf       string
	serverName string
	canonical  bool

	config      *config.Config // never modified
	server      principal      // may contain [host]
	client      principal
	credentials credentials
	now         func() time.Time

	mu   sync.Mutex
	kept map[string]ticket // by the server's principal; nil: none are kept
}

func newMechanism(options []Option) (m *mechanism, err error) {
	m = &mechanism{conf: cmp.Or(os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf"), serverName: "zookeeper/" + host, now: time.Now}
	for _, set := range options {
		set(m)
	}
	if m.server, err = parsePrincipal(m.serverName); err != nil {
		return nil, fmt.Errorf("%w: the servers' principal: %w", ErrConfig, err)
	}
	if m.config, err = loadConfig(m.conf); err != nil {
		return nil, err
	}
	return m, nil
}

func loadConfig(path string) (c *config.Config, err error) {
	defer func() {
		if err != nil {
			c, err = nil, fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
		}
	}()
	defer func() { err = caught(recover(), err) }()
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	c, err = config.NewFromString(string(text))
	if old := (config.UnsupportedDirective{}); errors.As(err, &old) { // a directive of version 4, on which nothing else depends
		err = nil
	}
	return c, err
}

// Name is GSSAPI.
func (m *mechanism) Name() string { return "GSSAPI" }

// String and GoString keep session keys out of logs.
func (m *mechanism) String() string   { return m.Name() }
func (m *mechanism) GoString() string { return m.Name() }

// Start gets a ticket for the server.
func (m *mechanism) Start(ctx context.Context, server string) (e sasl.Exchange, err error) {
	defer func() { err = caught(recover(), err) }()
	peer, err := m.peer(ctx, server)
	if err != nil {
		return nil, err
	}
	t, ok := m.ticket(peer)
	if !ok {
		if t, err = m.ticketFor(ctx, peer); err != nil {
			return nil, err
		}
		m.keep(peer, t)
	}
	return &exchange{mechanism: m, peer: peer, ticket: t}, nil
}

// ticket returns the ticket kept for a server. A ticket is removed when it is presented,
// and kept again once the server has accepted it. So a refused ticket is not tried again.
func (m *mechanism) ticket(peer principal) (ticket, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.kept[peer.String()]
	return t, ok && t.fresh(m.now())
}

func (m *mechanism) drop(peer principal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, peer.String())
}

func (m *mechanism) keep(peer principal, t ticket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept != nil {
		m.kept[peer.String()] = t
	}
}
