package session

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

// TLSFixture is tlsFixture for the tests outside the package.
func TLSFixture(t *testing.T, name string) (*x509.CertPool, tls.Certificate) {
	t.Helper()
	return tlsFixture(t, name)
}
