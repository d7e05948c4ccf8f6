package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// secured is a TLS connection that reports a refused certificate. With TLS 1.3 the client's own handshake is over before it hears of the
// refusal, which comes in place of ZooKeeper's answer.
type secured struct {
	*tls.Conn

	shown *tls.Certificate // the answer to a server that asked for one; without content if there is none for it
}

// secure does the TLS handshake with the host named in addr.
func secure(ctx context.Context, socket net.Conn, addr string, cfg *tls.Config) (net.Conn, error) {
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		cfg.ServerName, _, _ = strings.Cut(host, "%") // no certificate names the zone of an address
	}
	s := new(secured)
	own, choose := cfg.Certificates, cfg.GetClientCertificate
	cfg.GetClientCertificate = func(wanted *tls.CertificateRequestInfo) (_ *tls.Certificate, err error) {
		if choose != nil {
			s.shown, err = choose(wanted)
		} else {
			s.shown = suitable(own, wanted)
		}
		return s.shown, err
	}
	s.Conn = tls.Client(socket, cfg)
	if err := s.HandshakeContext(ctx); err != nil {
		if err = s.explain(err); isEnd(err) {
			err = fmt.Errorf("%w (one of: the port is for plain text; the server takes no more connections; %s)", err, nobodyThere)
		}
		return nil, fmt.Errorf("tls: %w", err)
	}
	return s, nil
}

// suitable returns the first certificate that the server can take, or an empty one, as a [tls.Config] without GetClientCertificate does.
func suitable(own []tls.Certificate, wanted *tls.CertificateRequestInfo) *tls.Certificate {
	for i := range own {
		if wanted.SupportsCertificate(&own[i]) == nil {
			return &own[i]
		}
	}
	return new(tls.Certificate)
}

// Read reads from the connection.
func (s *secured) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	return n, s.explain(err)
}

// explain returns err. If it is an alert by which the server refuses the client's certificate, it returns an [ErrDenied].
func (s *secured) explain(err error) error {
	alert := new(net.OpError)
	if !errors.As(err, &alert) || alert.Op != "remote error" {
		return err
	}
	// The type of an alert that was received is not exported. It has the text of an AlertError.
	is := func(a tls.AlertError) bool { return a.Error() == alert.Err.Error() }
	// RFC 8446, section 6.2: the certificate is bad, unsupported, revoked, expired, unknown, of an unknown authority, without access, or missing.
	refusals := []tls.AlertError{42, 43, 44, 45, 46, 48, 49, 116}
	if s.shown != nil && len(s.shown.Certificate) == 0 {
		refusals = append(refusals, 40) // a failed handshake: RFC 5246, section 7.4.6
	}
	if !slices.ContainsFunc(refusals, is) {
		return err
	}
	what := describe(s.shown, time.Now())
	if s.shown == nil && s.ConnectionState().DidResume {
		what = "the certificate of the TLS session that was resumed"
	}
	return fmt.Errorf("%w: the server refuses %s: %w", ErrDenied, what, err)
}

// describe says what is known here of a certificate that was refused, because servers say little.
func describe(shown *tls.Certificate, now time.Time) string {
	if shown == nil || len(shown.Certificate) == 0 {
		return "a client without a certificate"
	}
	leaf, err := x509.ParseCertificate(shown.Certificate[0])
	if err != nil {
		return fmt.Sprintf("a certificate that cannot be parsed (%v)", err)
	}
	name := "the certificate"
	if subject := leaf.Subject.String(); subject != "" {
		name += " of " + subject
	}
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Sprintf("%s, which expired at %s", name, leaf.NotAfter.Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Sprintf("%s, which is not valid before %s", name, leaf.NotBefore.Format(time.RFC3339))
	default:
		return name
	}
}
