package bridges

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/bridge"
	"github.com/zkgrant/zkgrant/events/eventstest"
)

var (
	_ certmagic.Locker           = (*bridge.Names)(nil)
	_ certmagic.TryLocker        = (*bridge.Names)(nil)
	_ certmagic.LockLeaseRenewer = (*bridge.Names)(nil)
	_ certmagic.Storage          = storage{}
	_ certmagic.TryLocker        = storage{}
	_ certmagic.LockLeaseRenewer = storage{}
)

// files is a storage without locks of its own: embedded below storage, its locks give way to those of storage.
type files struct{ certmagic.Storage }

// storage keeps the certificates in files, and the locks in ZooKeeper.
type storage struct {
	files
	*bridge.Names
}

// issuer signs a request once it was told to.
type issuer struct {
	key   *ecdsa.PrivateKey
	began func() error
}

func newIssuer(s stage, began func() error) issuer {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	eventstest.Must(s, err)
	return issuer{key, began}
}

func (issuer) IssuerKey() string { return "test" }

func (i issuer) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if err := i.began(); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: csr.DNSNames, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 3, 0),
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, i.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})}, nil
}

// magic returns certmagic as one process has it.
func magic(s stage, dir string, names *bridge.Names, from issuer) *certmagic.Config {
	s.Helper()
	var cfg *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return cfg, nil }, Logger: zap.NewNop(),
	})
	s.Cleanup(cache.Stop)
	cfg = certmagic.New(cache, certmagic.Config{
		Storage: storage{files{&certmagic.FileStorage{Path: dir}}, names}, Issuers: []certmagic.Issuer{from}, Logger: zap.NewNop(),
	})
	return cfg
}

const domain = "a.example"

// lockOfDomain is certmagic's name for the domain's lock.
const lockOfDomain = "issue_cert_" + domain

// TestCertmagicObtainsOnce: two processes want one certificate. The second one waits, and takes what the first has stored.
func TestCertmagicObtainsOnce(t *testing.T) {
	t.Parallel()
	play := func(s stage) {
		dir := s.TempDir()
		inside, leave, done := make(chan struct{}), make(chan struct{}), make(chan error, 2)
		from := newIssuer(s, func() error {
			inside <- struct{}{}
			<-leave
			return nil
		})
		first, second := s.process(), s.process()
		obtain := func(c *coordinator.Coordinator) {
			cfg := magic(s, dir, bridge.NewNames(c, "/certificates"), from)
			go func() { done <- cfg.ObtainCertSync(s.within(), domain) }()
		}
		obtain(first)
		<-inside
		obtain(second)
		s.queued(first.Mutex(bridge.Path("/certificates", lockOfDomain)), 2)
		leave <- struct{}{}
		for range 2 {
			select {
			case err := <-done:
				eventstest.Check(s, err)
			case <-inside:
				s.Fatal("both processes obtain a certificate")
			}
		}
		s.queued(first.Mutex(bridge.Path("/certificates", lockOfDomain)), 0)
	}
	inVirtualTime(t, play)
	onARealServer(t, play)
}

// TestCertmagicLocksAgainAfterALoss: OnLost reports the loss, and the next attempt has the lock again.
func TestCertmagicLocksAgainAfterALoss(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(s stage) {
		c, lost := s.process(), make(chan error, 1)
		names, other := bridge.NewNames(c, "/certificates", bridge.OnLost(func(err error) { lost <- err })), bridge.NewNames(s.process(), "/certificates")
		attempts := 0
		from := newIssuer(s, func() error {
			attempts++
			if attempts == 1 {
				s.lose(c, bridge.Path("/certificates", lockOfDomain))
				if err := <-lost; !isLoss(err) {
					s.Errorf("OnLost says %v, want the loss", err)
				}
				return errors.New("the first attempt fails")
			}
			if held, err := other.TryLock(s.Context(), lockOfDomain); held || err != nil {
				s.Errorf("during attempt %d another process gets the lock: %v, %v", attempts, held, err)
			}
			return nil
		})
		began := time.Now()
		eventstest.Check(s, magic(s, s.TempDir(), names, from).ObtainCertAsync(s.Context(), domain))
		if took := time.Since(began); attempts != 2 || took < time.Minute {
			s.Errorf("certmagic made %d attempts in %v, want 2 in a minute or more", attempts, took)
		}
		s.queued(c.Mutex(bridge.Path("/certificates", lockOfDomain)), 0)
	})
}
