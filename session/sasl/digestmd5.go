package sasl

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zkgrant/zkgrant/session/internal/digestmd5"
)

// DigestMD5 returns the mechanism DIGEST-MD5 (RFC 2831), which ZooKeeper's
// DigestLoginModule serves. Both sides prove that they know the password, which is not
// sent. An eavesdropper can try a list of passwords against the proofs; TLS prevents
// that.
func DigestMD5(user, password string) Mechanism { return digest{user, password} }

type digest struct{ user, password string }

// Name is DIGEST-MD5.
func (d digest) Name() string { return "DIGEST-MD5" }

// String and GoString keep the password out of logs.
func (d digest) String() string   { return d.Name() }
func (d digest) GoString() string { return d.Name() }

// Check returns an [ErrRestricted] if MD5 is not allowed.
func (d digest) Check() error {
	if err := digestmd5.Allowed(); err != nil {
		return fmt.Errorf("%w: %w", ErrRestricted, err)
	}
	return nil
}

// Start begins an exchange, the same for all servers.
func (d digest) Start(context.Context, string) (Exchange, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	return &digestExchange{terms: digestmd5.Terms{User: d.user, Password: d.password, ClientNonce: rand.Text()}}, nil
}

// digestExchange requests a challenge, answers it, and checks the server's proof.
type digestExchange struct {
	terms digestmd5.Terms
	steps int
}

func (e *digestExchange) Next(said []byte) (answer []byte, done bool, err error) {
	e.steps++
	switch e.steps {
	case 1:
		return []byte{}, false, nil
	case 2:
		answer, err = e.answer(said)
		return answer, false, err
	default:
		return nil, true, e.judge(said)
	}
}

// answer answers the challenge.
func (e *digestExchange) answer(said []byte) ([]byte, error) {
	challenge, err := digestmd5.Parse(string(said))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMechanism, err)
	}
	t := &e.terms
	t.Nonce, t.Realm = challenge["nonce"], challenge["realm"]
	if t.Nonce == "" || challenge["algorithm"] != "md5-sess" {
		return nil, fmt.Errorf("%w: its challenge is %.100q", ErrMechanism, said)
	}
	if t.User == "" || !utf8.ValidString(t.User) || !utf8.ValidString(t.Password) { // a server does not answer an empty name
		return nil, errors.New("the name is empty, or it or the password is not valid UTF-8")
	}
	directives := []string{
		"username=" + digestmd5.Quote(t.User), "realm=" + digestmd5.Quote(t.Realm),
		"nonce=" + digestmd5.Quote(t.Nonce), "nc=" + digestmd5.Count, "cnonce=" + digestmd5.Quote(t.ClientNonce),
		"digest-uri=" + digestmd5.Quote(digestmd5.URI), "qop=" + digestmd5.Protection, "response=" + t.Client(),
	}
	switch {
	case strings.EqualFold(challenge["charset"], "utf-8"):
		directives = append(directives, "charset=utf-8")
	case strings.ContainsFunc(t.User+t.Password, func(r rune) bool { return r >= utf8.RuneSelf }):
		return nil, errors.New("the server takes names and passwords in ASCII only")
	}
	return []byte(strings.Join(directives, ",")), nil
}

// judge checks the server's proof.
func (e *digestExchange) judge(said []byte) error {
	proof, err := digestmd5.Parse(string(said))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrServer, err)
	}
	if proof["rspauth"] != e.terms.Server() {
		return ErrServer
	}
	return nil
}
