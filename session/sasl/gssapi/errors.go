package gssapi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zkgrant/zkgrant/session/sasl"
)

var (
	// ErrConfig reports that krb5.conf cannot be read, or lacks something that is needed.
	ErrConfig = errors.New("gssapi: krb5.conf")
	// ErrCredentials reports a keytab or credential cache that cannot be read, or that
	// lacks the principal's key or ticket.
	ErrCredentials = errors.New("gssapi: no credentials")
	// ErrExpired reports that the ticket in the credential cache has expired.
	ErrExpired = errors.New("gssapi: the credentials have expired")
	// ErrClockSkew reports that two clocks differ by more than Kerberos allows.
	ErrClockSkew = errors.New("gssapi: clock skew")
	// ErrKDC reports that a KDC refused a ticket, or that its answer is invalid.
	ErrKDC = errors.New("gssapi: no ticket")
)

// caught turns the value of a recovered panic into an error. gokrb5 panics on some
// truncated or malformed files and messages. Go's own packages panic on a hash or a
// cipher that GODEBUG=fips140=only does not allow.
func caught(panicked any, err error) error {
	if panicked == nil {
		return err
	}
	if text := fmt.Sprint(panicked); strings.HasPrefix(text, "crypto/") && strings.Contains(text, "not allowed") {
		return fmt.Errorf("%w: %s", sasl.ErrRestricted, text)
	}
	return fmt.Errorf("malformed data: %v", panicked)
}
