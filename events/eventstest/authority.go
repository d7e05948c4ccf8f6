package eventstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"
	"time"
)

// Authority issues certificates. Its own is valid for its name, and for one hour.
type Authority struct{ tls.Certificate }

// NewAuthority returns an authority that nobody else trusts.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	return &Authority{*(*Authority)(nil).Issue(tb, name, -time.Hour, time.Hour)}
}

// Issue returns a certificate for either end of a connection to a host. It is valid from
// and until these times, relative to now.
func (a *Authority) Issue(tb testing.TB, host string, from, until time.Duration) *tls.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(tb, err)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: host}, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{host}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP("fe80::1")},
		BasicConstraintsValid: true,
	}
	parent, signer := template, any(key)
	if a != nil {
		parent, signer = a.Leaf, a.PrivateKey
	} else {
		template.IsCA, template.KeyUsage = true, template.KeyUsage|x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	Must(tb, err)
	leaf, err := x509.ParseCertificate(der)
	Must(tb, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Pool returns a pool that trusts only this authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Leaf)
	return pool
}

// PEM returns a certificate and its key as they stand in files.
func PEM(tb testing.TB, c *tls.Certificate) (certificate, key []byte) {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	Must(tb, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
