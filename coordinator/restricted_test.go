package coordinator_test

import (
	"crypto/md5"
	"crypto/tls"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/sasl"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// The environment of a process can restrict Go's runtime. Each restriction is tried in
// its own process.
func TestARestrictedRuntimeNeverPanics(t *testing.T) {
	t.Parallel()
	all := []string{"GODEBUG=fips140=only", "GODEBUG=asyncpreemptoff=1,netdns=go GOMAXPROCS=1 GOMEMLIMIT=48MiB GOGC=off"}
	if os.Getenv("ZKGRANT_FULL") == "1" {
		all = append(all, "GODEBUG=fips140=on", "GODEBUG=netdns=cgo", "GODEBUG=madvdontneed=1,dontfreezetheworld=1", "GODEBUG=tlsmaxrsasize=2048,tls10server=0,x509negativeserial=0",
			"GODEBUG=gctrace=0,invalidptr=1 GOMAXPROCS=64", "GODEBUG=asynctimerchan=1", "GODEBUG=tlsmlkem=0,tlssecpmlkem=0,x509keypairleaf=0,x509usefallbackroots=1,netedns0=0,multipathtcp=1", "GODEBUG=panicnil=1", "TZ=/nonexistent HOME= PATH= LANG=")
	}
	for _, restriction := range all {
		t.Run(restriction, func(t *testing.T) {
			t.Parallel()
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInARestrictedRuntime$", "-test.count=1", "-test.v")
			child.Env = append(os.Environ(), append(strings.Fields(restriction), "ZKGRANT_RESTRICTED="+restriction)...)
			if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestInARestrictedRuntime") {
				t.Errorf("the process has ended with %v, want every call done or an error of it:\n%s", err, out)
			}
		})
	}
}

// TestInARestrictedRuntime runs in such a process.
func TestInARestrictedRuntime(t *testing.T) {
	restriction := os.Getenv("ZKGRANT_RESTRICTED")
	if restriction == "" {
		t.Skip("TestARestrictedRuntimeNeverPanics runs it")
	}
	forbidden := strings.Contains(restriction, "fips140=only")
	expectEqual(t, panics(func() { md5.Sum(nil) }), forbidden, "with %s MD5 panics", restriction)
	srv := zktest.Start(t)
	srv.AddUser("app", "secret")

	// Features that need nothing forbidden work.
	coordtest.Hold(t, coordtest.Connect(t, srv).Mutex(lockPath))

	// TLS works with the algorithms that are left.
	const host = "zk.example.com"
	ours := eventstest.NewAuthority(t, host)
	secure := terminate(t, srv.Addr(), &tls.Config{Certificates: []tls.Certificate{ours.Certificate}})
	over, err := coordinator.Connect(t.Context(), host, coordinator.WithTLS(&tls.Config{RootCAs: ours.Pool()}), coordinator.WithDialer(dialTo(secure)))
	eventstest.Must(t, err)
	eventstest.Check(t, over.Close())

	// DIGEST-MD5 needs MD5: the call is refused, and the error names the restriction.
	known, err := coordinator.Open(srv.Addr(), srv.Option(), coordinator.WithSASL(sasl.DigestMD5("app", "secret")))
	switch {
	case !forbidden:
		eventstest.Must(t, err)
		coordtest.Hold(t, known.Mutex("/secret"))
		eventstest.Check(t, known.Close())
	case !errors.Is(err, coordinator.ErrInvalid) || !errors.Is(err, sasl.ErrRestricted) || !strings.Contains(err.Error(), "MD5 is not allowed in FIPS 140-only mode"):
		t.Errorf("Open with DIGEST-MD5: %v, want ErrInvalid that names the restriction", err)
	}

	// The scheme digest needs SHA-1 on the server, which is the double in this process.
	digest, err := coordinator.Connect(t.Context(), srv.Addr(), srv.Option(), coordinator.WithAuth("digest", []byte("app:secret")))
	switch {
	case !forbidden:
		eventstest.Must(t, err)
		eventstest.Check(t, digest.Close())
	case !errors.Is(err, coordinator.ErrNoAuth):
		t.Errorf("Connect with a digest, which the server of the test may not compute: %v, want ErrNoAuth", err)
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}
