//go:build unix

package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/doctor"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// examined runs doctor until it ends with the code, and returns what it has found.
func examined(t *testing.T, servers string, code int, args ...string) (found []doctor.Finding) {
	t.Helper()
	p := begin(t, "", append([]string{"doctor", "--patience", "1m", "--json", "--servers", servers}, args...)...)
	p.Exits(code)
	for line := range strings.Lines(p.String()) {
		var f doctor.Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("doctor %q printed %s: %v", args, line, err)
		}
		if f.Level != "" { // a line without a level says why it failed
			found = append(found, f)
		}
	}
	return found
}

// has checks that there is such a finding, and that it contains the text.
func has(t *testing.T, found []doctor.Finding, level doctor.Level, check, subject, text string) {
	t.Helper()
	for _, f := range found {
		if f.Level == level && f.Check == check && f.Subject == subject && strings.Contains(f.Seen, text) {
			return
		}
	}
	t.Errorf("doctor found %+v\nwant %s, %s of %s: %s", found, level, check, subject, text)
}

// TestRealDoctor examines a healthy real ensemble, and then causes one fault after the other.
func TestRealDoctor(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 3)
	conn, _, err := zk.Connect(strings.Split(e.Connect(), ","), 10*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	create := func(flags int32, paths ...string) {
		t.Helper()
		for _, path := range paths {
			if _, err := conn.Create(path, nil, flags, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatalf("creating %s: %v", path, err)
			}
		}
	}
	leader, err := e.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	holder := realRun(t, e, []string{"--detect-crash", "--session-timeout", "4s", "/healthy/lock"}, "wait")
	ready(t, holder, "command")
	semaphore := realRun(t, e, []string{"--size", "2", "/healthy/semaphore"}, "wait")
	ready(t, semaphore, "command")
	queued := realRun(t, e, []string{"--size", "2", "-n", "2", "/healthy/semaphore"}, "exit", "0")
	queued.Await(t, "waiting for /healthy/semaphore", 1)
	found := examined(t, e.Connect(), 0, "/healthy")
	slow := func(f doctor.Finding) bool { return f.Check == "round-trip" || f.Check == "lag" } // the machine may have other work
	if worst := doctor.Worst(slices.DeleteFunc(slices.Clone(found), slow)); worst != doctor.OK {
		t.Errorf("of a healthy ensemble doctor found %+v", found)
	}
	has(t, found, doctor.OK, "serving", e.Addr(leader), "leader, version 3.")
	has(t, found, doctor.OK, "quorum", "ensemble", "3 of 3")
	has(t, found, doctor.OK, "tick", "tickTime", "The servers have a tickTime of 500ms")
	has(t, found, doctor.OK, "timeout", "session timeout", "of 1s to 10s that")
	has(t, found, doctor.OK, "clock", "clocks", "seen: 3 of 3")
	has(t, found, doctor.OK, "locks", "/healthy", "there are 2 contenders in 2 directories")

	create(zk.FlagPersistent, "/closed", "/closed/open")
	if _, err := conn.Create("/closed/lock-0000000000", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAdmin|zk.PermDelete)); err != nil {
		t.Fatal(err)
	}
	create(zk.FlagPersistent, "/closed/open/lock-0000000000")
	found = examined(t, e.Connect(), codeBad, "/closed")
	has(t, found, doctor.Warn, "unreadable", "/closed", "not authorized")
	has(t, found, doctor.Bad, "persistent", "/closed/open", "lock-0000000000")
	has(t, examined(t, e.Connect(), 0, "/none"), doctor.Note, "locks", "/none", "no such node")

	create(zk.FlagPersistent, "/sick", "/sick/mixed", "/sick/plain", "/sick/persistent", "/sick/persistent/lock-0000000000")
	create(zk.FlagEphemeral, "/sick/mixed/4f1c0a527c394a0e9a3cd2b1c5a7e9f0__lock__0000000000", "/sick/mixed/_c_4f1c0a52-7c39-4a0e-9a3c-d2b1c5a7e9f0-lock-0000000001")
	guest := realRun(t, e, []string{"/sick/plain"}, "wait")
	ready(t, guest, "command")
	found = examined(t, e.Connect(), codeBad, "/sick")
	has(t, found, doctor.Bad, "forms", "/sick/mixed", "Curator's mutex (1) beside kazoo's lock (1): no exclusion")
	has(t, found, doctor.Bad, "persistent", "/sick/persistent", "lock-0000000000")
	has(t, found, doctor.Note, "directories", "/sick", "/sick/plain")
	guest.Send(syscall.SIGTERM)
	guest.Exits(0)

	create(zk.FlagPersistent, "/sick/mixed/leases")
	has(t, examined(t, e.Connect(), codeBad, "/sick/mixed"), doctor.Bad, "kinds", "/sick/mixed", "as a semaphore and")
	has(t, examined(t, e.Connect(), codeBad, "--tick-time", "400ms"), doctor.Bad, "tick", "tickTime", "locks are told 400ms")
	has(t, examined(t, e.Connect(), 0, "--session-timeout", "30s"), doctor.Warn, "timeout", "session timeout", "30s was asked for and 10s was granted")

	holder.Send(syscall.SIGKILL)
	eventstest.Eventually(t, "the session of the killed holder is over", func() bool {
		names, _, err := conn.Children("/healthy/lock")
		return err == nil && len(names) == 0 || errors.Is(err, zk.ErrNoNode)
	})
	for _, path := range []string{"/healthy", "/healthy/lock"} {
		has(t, examined(t, e.Connect(), 0, path), doctor.Warn, "record", "/healthy/lock", "has crashed")
	}
	semaphore.Send(syscall.SIGTERM)
	semaphore.Exits(0)
	queued.Exits(0)

	followers, err := e.Followers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	eventstest.Check(t, e.Kill(followers[0]))
	found = examined(t, e.Connect(), 0)
	has(t, found, doctor.Warn, "reachable", e.Addr(followers[0]), "refused")
	eventstest.Eventually(t, "the leader misses a voter", func() bool {
		found = examined(t, e.Connect(), 0)
		return doctor.Worst(found) == doctor.Warn && strings.Contains(seen(found), "has 2 of 3 voters in sync")
	})
	eventstest.Check(t, e.Kill(leader))
	eventstest.Eventually(t, "the last server serves no more", func() bool {
		said, err := exec.CommandContext(t.Context(), program, "doctor", "--json", "--servers", e.Connect()).Output()
		var end *exec.ExitError
		return errors.As(err, &end) && end.ExitCode() == codeFailed && strings.Contains(string(said), "No server takes a session.")
	})
}

// silent drops what the client logs about servers that are killed.
type silent struct{}

func (silent) Printf(string, ...any) {}

// seen is the text of all that was seen.
func seen(found []doctor.Finding) string {
	var all strings.Builder
	for _, f := range found {
		all.WriteString(f.Seen + "\n")
	}
	return all.String()
}

// TestRealDoctorOfDefaults examines a server that allows only the default four-letter word, has a long tick, and is behind TLS.
func TestRealDoctorOfDefaults(t *testing.T) {
	t.Parallel()
	eventstest.NeedsServers(t)
	e := ensemble.Start(t, 1, ensemble.Tick(3*time.Second), ensemble.Line("4lw.commands.whitelist", "srvr,mntr"))
	addr, authority := encrypted(t, e.Addr(0))
	found := examined(t, addr, codeBad, "--tls-ca", authority)
	has(t, found, doctor.OK, "serving", addr, "standalone, version 3.")
	has(t, found, doctor.Bad, "tick", "tickTime", "by their bounds of the session timeout, the servers have a tickTime of 3s, and locks are told 2s")
	has(t, found, doctor.Note, "words", addr, "conf,ruok,isro,cons are refused")
	has(t, examined(t, addr, 0, "--tls-ca", authority, "--tick-time", "3s"), doctor.Note, "tick", "tickTime", "locks are told 3s")
	p := begin(t, "", "doctor", "--servers", addr)
	p.Exits(codeFailed)
	p.Must(t, "takes connections, but no session")
}

// encrypted starts a proxy that speaks TLS for the server. It returns the proxy's address and the file of its authority.
func encrypted(t *testing.T, server string) (addr, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	eventstest.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	eventstest.Must(t, err)
	authority = filepath.Join(t.TempDir(), "authority.pem")
	eventstest.Must(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600))
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}})
	eventstest.Must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil { // the test ends
				return
			}
			serving.Go(func() { relay(near, server) })
		}
	})
	t.Cleanup(func() {
		eventstest.Check(t, listener.Close())
		serving.Wait()
	})
	return listener.Addr().String(), authority
}

// relay passes on the bytes of both sides until either of them ends.
func relay(near net.Conn, server string) {
	defer func() { _ = near.Close() }() // the other side may have closed it
	far, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far) // ends with either side
		_ = near.Close()
	})
	_, _ = io.Copy(far, near) // ends with either side
	_ = far.Close()
	back.Wait()
}

// A bad finding is red on a terminal unless NO_COLOR is set, and names from the servers do the terminal no harm.
func TestDoctorOnATerminal(t *testing.T) {
	server := zktest.Start(t)
	eventstest.Must(t, server.Create("/locks/\u202eodd/lock-0000000000", nil))
	for _, environment := range [][]string{nil, {"NO_COLOR=1"}} {
		term := beginTerminal(t, environment, "doctor", "--servers", server.Addr(), "/locks")
		term.exits(codeBad)
		eventstest.Eventually(t, "the path is printed without what turns a line round", func() bool {
			return strings.Contains(term.printed(), "  /locks/\ufffdodd  ")
		})
		if got, want := strings.Contains(term.printed(), red+"bad "+plain), environment == nil; got != want {
			t.Errorf("%v: coloured %t, want %t", environment, got, want)
		}
	}
}

// Doctor reports that a directory's numbers come to their end before they do, even if the directory has only a holder's node.
func TestDoctorCountsSequenceNumbers(t *testing.T) {
	server := zktest.Start(t)
	eventstest.Must(t, server.Create("/locks/run", nil))
	eventstest.Must(t, server.SetSequence("/locks/run", 1_900_000_000))
	holder := locked(t, server, nil, "wait")
	ready(t, holder, "command")
	has(t, examined(t, server.Addr(), 0, "/locks"), doctor.Note, "sequence", lockPath, "1900000001 of 2147483647")
	holder.Send(syscall.SIGTERM)
	holder.Exits(0)
}

// Doctor adds up the nodes of each session below the path, as the servers list them in the transaction that ends it.
func TestDoctorAddsUpTheNodesOfASession(t *testing.T) {
	server := zktest.Start(t)
	dir := "/app/locks/" + strings.Repeat("x", 1000)
	eventstest.Must(t, server.Create("/app/locks", nil))
	eventstest.Must(t, server.Create("/app/locks/none", nil))
	eventstest.Must(t, server.Create(dir, nil))
	conn, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	eventstest.Must(t, err)
	defer conn.Close()
	made := 0
	fill := func(n int) {
		t.Helper()
		for range n {
			_, err := conn.Create(fmt.Sprintf("%s/lock-%010d", dir, made), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			eventstest.Must(t, err)
			made++
		}
	}
	const node = 4 + 1011 + 16 // the bytes of one
	servers := server.Addr() + "/app"
	fill(1)
	_, err = conn.Create("/app/locks/unfair", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	eventstest.Must(t, err)
	has(t, examined(t, servers, 0, "/locks"), doctor.OK, "session-nodes", "/locks", fmt.Sprintf("a transaction of %d bytes", 48+node+4+17))
	for _, f := range examined(t, servers, 0, "/locks/none") {
		if f.Check == "session-nodes" {
			t.Errorf("below a path without such nodes: %+v, want nothing of it", f)
		}
	}
	half := 1_048_575/node + 1
	fill(half - made)
	has(t, examined(t, servers, 0, "/locks"), doctor.Warn, "session-nodes", "/locks",
		fmt.Sprintf("0x%x has %d nodes, which take %d bytes", conn.SessionID(), half+1, 48+half*node+4+17))
}

// Doctor says what is wrong with the arguments, and nothing about servers that it has not asked.
func TestDoctorRefusesBadArguments(t *testing.T) {
	for want, args := range map[string][]string{
		`zkgrant: malformed path: "locks" does not start with a slash`: {"locks"},
		"zkgrant: invalid use: a tick of 20s":                          {"--tick-time", "20s"},
	} {
		p := begin(t, "", append([]string{"doctor", "--servers", "127.0.0.1:1"}, args...)...)
		p.Exits(codeFailed)
		if !strings.HasPrefix(p.String(), want) {
			t.Errorf("doctor %q printed %s, want %s", args, p, want)
		}
	}
}

// A server that is slow to answer four-letter words has a session all the same.
func TestDoctorOfAServerThatAnswersNoWords(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	eventstest.Must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil { // the test ends
				return
			}
			serving.Go(func() {
				var first [4]byte
				if _, err := io.ReadFull(near, first[:]); err == nil && first[0] == 0 { // a frame
					relay(&begunConn{near, bytes.NewReader(first[:])}, server.Addr())
				}
				_, _ = io.Copy(io.Discard, near) // until the other side closes
				_ = near.Close()
			})
		}
	})
	t.Cleanup(func() {
		eventstest.Check(t, listener.Close())
		serving.Wait()
	})
	p := begin(t, "", "doctor", "--json", "--patience", "2s", "--servers", listener.Addr().String())
	p.Exits(0)
	p.Must(t, `"check":"serving","subject":"`+listener.Addr().String()+`","seen":"It serves, with a round trip`)
}

// begunConn is a connection of which the bytes that were read can be read again.
type begunConn struct {
	net.Conn

	begun *bytes.Reader
}

func (c *begunConn) Read(p []byte) (int, error) {
	if c.begun.Len() > 0 {
		return c.begun.Read(p)
	}
	return c.Conn.Read(p)
}

// If interrupted, doctor ends as the other looking commands do, and reports nothing about what it has not seen.
func TestDoctorIsInterrupted(t *testing.T) {
	server := zktest.Start(t)
	server.MuteAll(true)
	p := begin(t, "", "doctor", "--servers", server.Addr())
	eventstest.Eventually(t, "there is a connection", func() bool { return server.Connections() > 0 })
	p.Send(os.Interrupt)
	p.Exits(codeSignal + int(syscall.SIGINT))
	if said := p.String(); said != "" {
		t.Errorf("interrupted it said %s, want nothing", said)
	}
}
