package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
	"github.com/zkgrant/zkgrant/session/sasl"
)

// mostTurns limits the answers in an exchange. The longest one, GSSAPI, takes three.
const mostTurns = 10

// Identity is an identity that the client claims under a scheme of the server, such as
// digest.
type Identity struct {
	Scheme string
	Auth   []byte
}

// ErrDenied reports that a server refused the client's identity, or could not prove its
// own.
var ErrDenied = errors.New("authentication failed")

var errRefused = errors.New("the server refuses the name or the proof")

// exchangeError reports why an exchange failed. If the exchange had begun, the server has
// already renewed the session.
type exchangeError struct {
	what   string // the mechanism, or the kind of identity
	denial bool   // not a lost connection, a timeout, or a temporary error
	err    error
}

func (e *exchangeError) Error() string {
	if e.denial {
		return fmt.Sprintf("%v: %s: %v", ErrDenied, e.what, e.err)
	}
	return fmt.Sprintf("%s: %v", e.what, e.err)
}

func (e *exchangeError) Unwrap() error        { return e.err }
func (e *exchangeError) Is(target error) bool { return e.denial && target == ErrDenied }

// lostError reports that the connection ended during an exchange.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

// login proves the client's identity to one server, and then sends its other identities.
type login struct {
	ctx        context.Context // ends with the time for the handshake, and with the connection
	cancel     context.CancelFunc
	identities []Identity
	mechanism  string
	exchange   sasl.Exchange // nil: none
}

func newLogin(deadline time.Time, identities []Identity) *login {
	l := &login{identities: identities}
	l.ctx, l.cancel = context.WithDeadline(context.Background(), deadline)
	return l
}

// failed wraps an error of the exchange.
func (l *login) failed(what string, err error) error {
	lost := new(lostError)
	passes := l.ctx.Err() != nil || errors.As(err, &lost) || errors.Is(err, sasl.ErrTemporary)
	return &exchangeError{what, !passes, err}
}

// begin starts an exchange with the server, if there is a mechanism. A mechanism that
// takes too long has failed.
func (l *login) begin(mechanism sasl.Mechanism, server string) (err error) {
	if mechanism == nil {
		return nil
	}
	l.mechanism = "SASL " + mechanism.Name()
	l.exchange, err = mechanism.Start(l.ctx, server)
	switch {
	case err != nil:
	case l.ctx.Err() != nil:
		err = l.ctx.Err()
	case l.exchange == nil:
		err = errors.New("the mechanism has not begun an exchange")
	default:
		return nil
	}
	return l.failed(l.mechanism, err)
}

// prove runs the exchange and sends the identities. It writes to w and reads from r.
func (l *login) prove(w io.Writer, r io.Reader) error {
	if l.exchange != nil {
		if err := l.converse(w, r); err != nil {
			return l.failed(l.mechanism, err)
		}
	}
	for _, id := range l.identities {
		body := appendBytes(make([]byte, 4), []byte(id.Scheme)) // after the type, which servers ignore
		body = appendBytes(body, id.Auth)
		if _, err := roundTrip(w, r, opcode.Auth, body); err != nil {
			if errors.Is(err, errRefused) { // servers do not say which of the two it is
				err = errors.New("the server refuses it, or has no such scheme")
			}
			if id.Scheme == "ensemble" && isEnd(err) { // a server with another name does not answer
				err = fmt.Errorf("%w (one of: the server is of another ensemble; the connection was lost)",
					err)
			}
			return l.failed(fmt.Sprintf("identity of scheme %.40q", id.Scheme), err)
		}
	}
	return nil
}

// converse runs the exchange between the mechanism and the server.
func (l *login) converse(w io.Writer, r io.Reader) error {
	var said []byte // the server's token, or nil
	for turns := 0; ; turns++ {
		answer, done, err := l.exchange.Next(said)
		switch {
		case err != nil || done:
			return err
		case turns == mostTurns:
			return errors.New("the SASL exchange did not finish")
		}
		body, err := roundTrip(w, r, opcode.SASL, appendBytes(nil, answer))
		if err != nil {
			if e, ok := l.exchange.(sasl.Explainer); ok && errors.Is(err, errRefused) {
				err = fmt.Errorf("%w: %s", err, e.Explain())
			}
			return err
		}
		if len(body) < prefixLength {
			return &lostError{errHandshakeMalformed}
		}
		said = nil
		switch length := int(int32At(body, 0)); {
		case length > len(body)-prefixLength:
			return &lostError{errHandshakeMalformed}
		case length >= 0:
			said = body[prefixLength : prefixLength+length]
		}
	}
}

// appendBytes appends what in the protocol's form, preceded by its length.
func appendBytes(b, what []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(what))), what...)
}

// roundTrip makes a request and returns the body of its answer.
func roundTrip(w io.Writer, r io.Reader, op int32, body []byte) ([]byte, error) {
	b := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(op)) // the client's xids begin with 1
	if _, err := w.Write(appendBytes(nil, append(b, body...))); err != nil {
		return nil, &lostError{ending{}.explain(err)}
	}
	reply, err := readFrame(r, minReply, maxHandshake)
	if err != nil {
		return nil, &lostError{ending{}.explain(err)}
	}
	switch code := int32At(reply, prefixLength+12); code {
	case zkerr.CodeNone:
		return reply[prefixLength+minReply:], nil
	case zkerr.CodeAuthFailed, zkerr.CodeSASLRequired:
		return nil, errRefused
	default:
		return nil, zkerr.ErrorOf(code)
	}
}

// secured is a TLS connection that reports a refused certificate. With TLS 1.3, the
// client's handshake is complete before it learns of the refusal, which arrives instead
// of ZooKeeper's answer.
type secured struct {
	*tls.Conn

	shown *tls.Certificate // sent to a server that requested one; empty if none is suitable
}

// secure does the TLS handshake with the host named in addr.
func secure(ctx context.Context, socket net.Conn, addr string, cfg *tls.Config) (net.Conn, error) {
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		cfg.ServerName, _, _ = strings.Cut(host, "%") // certificates do not name an address's zone
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
			const causes = "the port is for plain text; the server accepts no more connections; " +
				nobodyThere
			err = fmt.Errorf("%w (one of: %s)", err, causes)
		}
		return nil, fmt.Errorf("tls: %w", err)
	}
	return s, nil
}

// suitable returns the first certificate that the server accepts, or an empty one, as
// crypto/tls does without GetClientCertificate.
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

// explain returns err, wrapped with [ErrDenied] if it is an alert by which the server
// refuses the client's certificate.
func (s *secured) explain(err error) error {
	alert := new(net.OpError)
	if !errors.As(err, &alert) || alert.Op != "remote error" {
		return err
	}
	// The type of a received alert is not exported, but it has the text of an AlertError.
	is := func(a tls.AlertError) bool { return a.Error() == alert.Err.Error() }
	// RFC 8446, section 6.2: the certificate is bad, unsupported, revoked, expired,
	// unknown, of an unknown authority, without access, or missing.
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

// describe describes a refused certificate as far as it is known here, because servers
// say little.
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
