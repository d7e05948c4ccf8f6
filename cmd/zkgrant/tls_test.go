//go:build unix

package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// certificate is a self-signed certificate for zk.example and its key, in files.
type certificate struct{ cert, key string }

// flags returns the flags for a client that has the certificate and trusts it.
func (c certificate) flags() string {
	return " --tls-ca " + c.cert + " --tls-cert " + c.cert + " --tls-key " + c.key + " --tls-server-name zk.example "
}

func newCertificate(t *testing.T) certificate {
	t.Helper()
	folder := t.TempDir()
	c := certificate{filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")}
	renew(t, c)
	return c
}

// renew replaces the files of all of them with one new certificate and its key.
func renew(t *testing.T, all ...certificate) {
	t.Helper()
	cert, key := eventstest.PEM(t, &eventstest.NewAuthority(t, "zk.example").Certificate)
	for _, c := range all {
		for file, text := range map[string][]byte{c.cert: cert, c.key: key} {
			eventstest.Must(t, os.WriteFile(file+".new", text, 0o600))
			eventstest.Must(t, os.Rename(file+".new", file))
		}
	}
}

// front listens with the certificate, admits only clients that have the same one, and
// relays to the server. It reads the files for each connection, like a restarted server.
func (c certificate) front(t *testing.T, server string) string {
	t.Helper()
	current := func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, err
		}
		known := x509.NewCertPool()
		known.AddCert(pair.Leaf)
		return &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientCAs: known,
			ClientAuth: tls.RequireAndVerifyClientCert,
		}, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: current}
	return eventstest.Serve(t, func(conn net.Conn) {
		secure := tls.Server(conn, config)
		relay(secure, secure, server)
	})
}

// relay copies data between a client's connection and the server. The end of either side
// ends both.
func relay(near net.Conn, read io.Reader, server string) {
	far, err := net.Dial("tcp", server)
	if err != nil {
		_ = near.Close()
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		_ = near.Close()
	})
	_, _ = io.Copy(far, read)
	_, _ = far.Close(), near.Close()
	back.Wait()
}

// A TLS listener in front of the server requires a client certificate. The flags, or
// their variables, provide what a client needs.
func testEncrypted(t *testing.T, g *rig) {
	server, _, _ := strings.Cut(g.servers, ",")
	c := newCertificate(t)
	g = on(t, c.front(t, server))
	g.ends(codeFailed, "ls --session-timeout 4s /"+c.flags()+"--tls-server-name other.example",
		"zk.example, not other.example")
	g.ends(codeFailed, "ls / --tls-ca "+c.key, "contains no certificate")
	g.ends(codeFailed, "ls / --tls-cert "+c.key, "--tls-cert and --tls-key")
	g.env = append(g.env, "ZKGRANT_TLS_CA="+c.cert, "ZKGRANT_TLS_CERT="+c.cert, "ZKGRANT_TLS_KEY="+c.key,
		"ZKGRANT_TLS_SERVER_NAME=zk.example")
	g.ends(3, "run /tls -- part exit 3")
}

// From some moment on, the servers have and accept only the new certificate. A running
// command keeps its lock, and the identity that created the node. Before that, the files
// are broken for a while, and zkgrant uses what it has read earlier.
func TestRenewedCertificatesAreRead(t *testing.T) {
	g := double(parallel(t))
	theirs, ours := newCertificate(t), newCertificate(t)
	renew(t, theirs, ours)
	identities := write(t, "identities", "digest:ann:old\n")
	p := g.works("run -v --servers " + theirs.front(t, g.servers) + ours.flags() +
		"--auth-file " + identities + " " + lockPath + " -- part wait")
	eventstest.Must(t, os.WriteFile(ours.cert, []byte("half of it"), 0o600))
	g.CutAll()
	p.Await(t, "reconnected", 1)
	p.Must(t, "contains no certificate; using what was read before")
	renew(t, theirs, ours)
	eventstest.Must(t, os.WriteFile(identities, []byte("digest:ann:new\n"), 0o600))
	g.CutAll()
	p.Await(t, "reconnected", 2)
	p.Must(t, "the identities have changed; the old ones are used until the session has no nodes")
	g.nodes(1, "after the renewal")
	prints(t, p.String(), "LOST", false)
	g.stop(p, syscall.SIGTERM, 0)
}

// From some moment on, the servers accept only the new certificate, and show a lock only
// to the new identity. A running exporter sees the lock after its next connection.
func TestTheExporterReadsRenewedFiles(t *testing.T) {
	g := double(parallel(t))
	admin := client(t, g.servers)
	eventstest.Must(t, admin.AddAuth("digest", []byte("ann:new")))
	create(t, admin, zk.FlagPersistent, "/locks")
	_, err := admin.Create("/locks/a", nil, zk.FlagPersistent, zk.AuthACL(zk.PermAll))
	eventstest.Must(t, err)
	create(t, admin, zk.FlagPersistent, "/locks/a/lock-0000000000")
	c, identities := newCertificate(t), write(t, "identities", "digest:ann:old\n")
	p, url := g.serves("exporter --interval 1ms --auth-file " + identities + c.flags() +
		"--servers " + c.front(t, g.servers) + " /locks")
	const visible = `zkgrant_queue_held{kind="unknown",lock="/locks/a"} 1`
	const connected = `zkgrant_session_state{state="connected"} 1`
	if page := shows(t, url, connected); strings.Contains(page, visible) {
		t.Fatalf("the former identity sees the lock:\n%s", page)
	}
	renew(t, c)
	eventstest.Must(t, os.WriteFile(identities, []byte("digest:ann:new\n"), 0o600))
	g.CutAll()
	shows(t, url, connected, visible)
	g.stop(p, syscall.SIGTERM, 0)
}
