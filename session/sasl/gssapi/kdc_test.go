package gssapi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/sasl"
	"github.com/zkgrant/zkgrant/session/sasl/gssapi/internal/kdctest"
)

const server = "localhost:2181"

// mechanismOf returns a keytab's mechanism, and mechanismWith one with another krb5.conf
// than the KDC's.
func mechanismOf(tb testing.TB, k *kdctest.KDC, name, keytab string, options ...Option) *mechanism {
	tb.Helper()
	return mechanismWith(tb, k.Config(), name, keytab, options...)
}

func mechanismWith(tb testing.TB, conf, name, keytab string, options ...Option) *mechanism {
	tb.Helper()
	m, err := Keytab(name, keytab, append(options, Config(conf))...)
	eventstest.Must(tb, err)
	return m.(*mechanism)
}

func started(t *testing.T) *kdctest.KDC {
	t.Helper()
	k := kdctest.Start(t, realm)
	k.Add("zookeeper/localhost")
	return k
}

// ticketOf returns the ticket with which an exchange begins.
func ticketOf(ctx context.Context, m sasl.Mechanism, at string) (ticket, error) {
	e, err := m.Start(ctx, at)
	if err != nil {
		return ticket{}, err
	}
	return e.(*exchange).ticket, nil
}

// wantTicket fails the test unless the mechanism gets a ticket of client for peer.
func wantTicket(t *testing.T, when string, m sasl.Mechanism, at, client, peer string) ticket {
	t.Helper()
	got, err := ticketOf(t.Context(), m, at)
	eventstest.Expect(t, err == nil && got.client.String() == client && got.peer.String() == peer,
		"%s: a ticket of %v for %v, %v; want one of %s for %s", when, got.client, got.peer, err, client, peer)
	return got
}

// wantRefusal fails the test unless the mechanism gets no ticket, for each of the
// reasons, with the text.
func wantRefusal(t *testing.T, when string, m sasl.Mechanism, at, says string, reasons ...error) {
	t.Helper()
	_, err := ticketOf(t.Context(), m, at)
	wantError(t, when, err, says, reasons...)
}

// wantError fails the test unless the error matches each of the others and contains the
// text.
func wantError(t *testing.T, when string, err error, says string, is ...error) {
	t.Helper()
	eventstest.Expect(t, err != nil && strings.Contains(err.Error(), says),
		"%s: %v, want an error that says %q", when, err, says)
	for _, want := range is {
		eventstest.ErrorIs(t, err, want, "%s", when)
	}
}

// wantFinal is wantRefusal for an error that is not temporary.
func wantFinal(t *testing.T, when string, m sasl.Mechanism, at, says string, reason error) {
	t.Helper()
	_, err := ticketOf(t.Context(), m, at)
	wantError(t, when, err, says, reason)
	eventstest.Expect(t, !errors.Is(err, sasl.ErrTemporary), "%s: %v is temporary, want it final", when, err)
}

const bobs, ours = "bob@" + realm, "zookeeper/localhost@" + realm

// TestTickets gets tickets from a real KDC, with and without pre-authentication, and with
// each type of key. A ticket is kept until an exchange presents it, even if an earlier
// exchange was abandoned.
func TestTickets(t *testing.T) {
	k := started(t)
	for i, option := range []string{
		"-requires_preauth", "+requires_preauth", "-e aes128-cts-hmac-sha1-96:normal +requires_preauth",
		"-e aes256-cts-hmac-sha384-192:normal +requires_preauth", "-e arcfour-hmac:normal +requires_preauth",
	} {
		name := fmt.Sprintf("app%d/host", i)
		m := mechanismOf(t, k, name, k.Add(name, option))
		next := func() string {
			return string(wantTicket(t, option, m, server, name+"@"+realm, ours).sealed.EncPart.Cipher)
		}
		first := next()
		asked := strings.Count(k.Log(), name)
		eventstest.Expect(t, next() == first, "with %s a ticket that was not shown is not used again", option)
		eventstest.Equal(t, strings.Count(k.Log(), name), asked, "with %s how often the KDC was asked", option)
		e, err := m.Start(t.Context(), server)
		eventstest.Must(t, err)
		_, _, _ = e.Next(nil) // it refuses RC4
		eventstest.Expect(t, next() != first, "with %s a ticket that was shown is used again", option)
	}
}

// TestRefusalsOfAKDC: they are final, and name the client and the ticket that it did not
// get.
func TestRefusalsOfAKDC(t *testing.T) {
	k := started(t)
	bob, eve, old := k.Add("bob", "+requires_preauth"), k.Add("eve"), k.Add("old", "+requires_preauth")
	k.Admin("delprinc -force eve")
	k.Admin("cpw -randkey old")
	k.Add("dora", "-pwexpire yesterday")
	wantFinal(t, "unknown server", mechanismOf(t, k, "bob", bob), "127.0.0.1:2181",
		"gives bob@ZKGRANT.TEST none for zookeeper/127.0.0.1@ZKGRANT.TEST: (7) KDC_ERR_S_PRINCIPAL_UNKNOWN", ErrKDC)
	wantFinal(t, "unknown client", mechanismOf(t, k, "eve", eve), server,
		"gives eve@ZKGRANT.TEST none for krbtgt/ZKGRANT.TEST@ZKGRANT.TEST: (6) KDC_ERR_C_PRINCIPAL_UNKNOWN", ErrKDC)
	wantFinal(t, "another key", mechanismOf(t, k, "old", old), server, "KDC_ERR_PREAUTH_FAILED", ErrKDC)
	wantFinal(t, "expired password", mechanismOf(t, k, "dora", k.Keytab("dora")), server,
		"KDC_ERR_KEY_EXPIRED", ErrKDC)
	named := func(p string) *mechanism { return mechanismOf(t, k, "bob", bob, ServerPrincipal(p)) }
	wantFinal(t, "realm without KDC", named("zookeeper/_HOST@NOWHERE.TEST"), server,
		"none for krbtgt/NOWHERE.TEST@ZKGRANT.TEST", ErrKDC)
	k.Add("zookeeper/127.0.0.1")
	k.Add("zk/other")
	wantTicket(t, "by address", mechanismOf(t, k, "bob", bob), "127.0.0.1:2181",
		bobs, "zookeeper/127.0.0.1@"+realm)
	wantTicket(t, "by name", named("zk/other"), "10.0.0.1:2181", bobs, "zk/other@"+realm)
	wantTicket(t, "by host and realm", named("zookeeper/_HOST@"+realm), "127.0.0.1:1",
		bobs, "zookeeper/127.0.0.1@"+realm)
}

// TestAnotherRealm: the server is in a realm that trusts the client's. Either krb5.conf
// names that realm, or only the KDC knows it.
func TestAnotherRealm(t *testing.T) {
	here, theirs := kdctest.Start(t, realm), kdctest.Start(t, "OTHER.TEST")
	const at, peer = "zk1.other.test:2181", "zookeeper/zk1.other.test@OTHER.TEST"
	bob := here.Add("bob")
	theirs.Add("zookeeper/zk1.other.test")
	here.Trust(theirs, ".other.test")
	wantTicket(t, "named in krb5.conf", mechanismOf(t, here, "bob", bob), at, bobs, peer)
	here.Stop()
	here.Go() // it reads which hosts are in the other realm
	short := written(t, fmt.Sprintf("[libdefaults]\n default_realm = %s\n[realms]\n %s = {\n  kdc = %s\n }\n OTHER.TEST = {\n  kdc = %s\n }\n",
		realm, realm, here.Addr(), theirs.Addr()))
	wantTicket(t, "referred by the KDC", mechanismWith(t, short, "bob", bob), at, bobs, peer)
}

// TestClockSkewOfAKDC: the error has both times and the allowed difference.
func TestClockSkewOfAKDC(t *testing.T) {
	k := started(t)
	for name, keytab := range map[string]string{"bob": k.Add("bob", "+requires_preauth"), "ann": k.Add("ann", "-requires_preauth")} {
		for _, by := range []time.Duration{-time.Hour, time.Hour, 48 * time.Hour} {
			m := mechanismOf(t, k, name, keytab)
			m.now = func() time.Time { return time.Now().Add(by) }
			wantFinal(t, fmt.Sprint(name, " ", by, " away"), m, server, "and Kerberos allows 5m0s", ErrClockSkew)
		}
	}
}

// TestACache: the cache is read again for each exchange. If its ticket has expired, the
// error says when.
func TestACache(t *testing.T) {
	k := started(t)
	bob, ann, path := k.Add("bob"), k.Add("ann"), filepath.Join(t.TempDir(), "cache")
	k.Kinit(path, "bob", bob, "-l", "1h")
	made, err := CredentialCache("FILE:"+path, Config(k.Config()))
	eventstest.Must(t, err)
	m := made.(*mechanism)
	wantTicket(t, "after kinit", m, server, bobs, ours)
	m.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	wantFinal(t, "an hour after its end", m, server, time.Now().Add(time.Hour).Format("2006-01-02T"), ErrExpired)
	m.now = time.Now
	k.Kinit(path, "bob", bob, "-l", "1h", "-S", "zookeeper/localhost")
	wantTicket(t, "after kinit -S", m, server, bobs, ours)
	wantRefusal(t, "for another server", m, "other:2181", "", ErrCredentials)
	k.Kinit(path, "ann", ann)
	wantRefusal(t, "with the tickets of another principal", m, server, "ann@", ErrCredentials)
	eventstest.Must(t, os.WriteFile(path, []byte("\x05"), 0o600))
	wantRefusal(t, "while it is being written", m, server, "", sasl.ErrTemporary, ErrCredentials)
}

// TestAKeytabThatIsChanged: it is read again, and its principal has another key by then.
func TestAKeytabThatIsChanged(t *testing.T) {
	k := started(t)
	keytab := k.Add("bob", "+requires_preauth")
	m := mechanismOf(t, k, "bob", keytab)
	k.Admin("cpw -randkey bob")
	eventstest.Must(t, os.Remove(keytab))
	wantRefusal(t, "while it is being written", m, server, "", sasl.ErrTemporary)
	eventstest.Must(t, os.Rename(k.Keytab("bob"), keytab))
	wantTicket(t, "with the new key", m, server, bobs, ours)
}

// TestTheVersionOfAKeyMayDiffer: a keytab from elsewhere numbers its keys in its own way.
func TestTheVersionOfAKeyMayDiffer(t *testing.T) {
	k := started(t)
	table, err := loadKeytab(k.Add("bob", "+requires_preauth"))
	eventstest.Must(t, err)
	for i := range table.Entries {
		table.Entries[i].KVNO, table.Entries[i].KVNO8 = 9, 9
	}
	bytes, err := table.Marshal()
	eventstest.Must(t, err)
	m := mechanismOf(t, k, "bob", written(t, string(bytes)))
	wantTicket(t, "with a key of version 9, that is version 1 for the KDC", m, server, bobs, ours)
}

// TestAnOldAnswerIsRefused: an attacker may have recorded it.
func TestAnOldAnswerIsRefused(t *testing.T) {
	k := started(t)
	var mu sync.Mutex
	var heard [][]byte
	asked := 0
	again := eventstest.Serve(t, func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		if asked++; asked > 2 {
			_, _ = c.Write(heard[asked-3])
			return
		}
		far, err := net.Dial("tcp", k.Addr())
		eventstest.Check(t, err)
		defer far.Close()
		buf := make([]byte, 1<<16)
		for _, way := range [][2]net.Conn{{c, far}, {far, c}} {
			var length [4]byte
			_, err := io.ReadFull(way[0], length[:])
			eventstest.Check(t, err)
			n, err := io.ReadFull(way[0], buf[:binary.BigEndian.Uint32(length[:])])
			eventstest.Check(t, err)
			heard = append(heard, append(length[:], buf[:n]...))
			_, err = way[1].Write(heard[len(heard)-1])
			eventstest.Check(t, err)
		}
		if asked == 2 {
			heard = [][]byte{heard[1], heard[3]}
		}
	})
	m := mechanismWith(t, confWith(t, again), "bob", k.Add("bob"))
	first, err := ticketOf(t.Context(), m, server)
	eventstest.Must(t, err)
	m.drop(first.peer)
	wantRefusal(t, "after the answer to an earlier request", m, server, "answers another request", ErrKDC)
}

func confWith(tb testing.TB, kdcs ...string) (path string) {
	tb.Helper()
	return written(tb, "[libdefaults]\n default_realm = "+realm+"\n[realms]\n "+realm+" = {\n  kdc = "+strings.Join(kdcs, "\n  kdc = ")+"\n }\n")
}

// answering starts a KDC that always gives the same answer.
func answering(t *testing.T, answer []byte) (addr string) {
	t.Helper()
	return eventstest.Serve(t, func(conn net.Conn) { _, _ = conn.Write(answer) })
}

func silent(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// TestAnotherKDCIsAsked: the first one is gone, silent, or unavailable for the moment.
func TestAnotherKDCIsAsked(t *testing.T) {
	k := started(t)
	bob := k.Add("bob")
	no := messages.NewKRBError(types.NewPrincipalName(2, "krbtgt/"+realm), realm, errorcode.KDC_ERR_SVC_UNAVAILABLE, "")
	busy, err := no.Marshal()
	eventstest.Must(t, err)
	began := time.Now()
	wantTicket(t, "of one KDC", mechanismOf(t, k, "bob", bob), server, bobs, ours)
	most := max(2*time.Second, 100*time.Since(began)) // the silent one gets half of it
	for name, first := range map[string]string{
		"gone": "127.0.0.1:1", "silent": eventstest.Serve(t, silent), "hanging up": answering(t, nil),
		"busy":    answering(t, append([]byte{0, 0, 0, byte(len(busy))}, busy...)),
		"endless": answering(t, []byte{0xff, 0xff, 0xff, 0xff}),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), most)
			defer cancel()
			_, err := ticketOf(ctx, mechanismWith(t, confWith(t, first, k.Addr()), "bob", bob), server)
			eventstest.ErrorIs(t, err, nil, "with the other KDC")
			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err = ticketOf(ctx, mechanismWith(t, confWith(t, first), "bob", bob), server)
			wantError(t, "without another KDC", err, first, sasl.ErrTemporary)
		})
	}
}

// TestStartEndsWithItsContext: no goroutine is left, and Start does not wait for a silent
// KDC.
func TestStartEndsWithItsContext(t *testing.T) {
	asked := make(chan struct{}, 1)
	addr := eventstest.Serve(t, func(c net.Conn) { asked <- struct{}{}; silent(c) })
	m := mechanismWith(t, confWith(t, addr), "bob", keytabOf(t, "bob@"+realm))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := m.Start(ctx, server)
		ended <- err
	}()
	eventstest.Receive(t, asked, "a request for a ticket")
	cancel()
	wantError(t, "Start", eventstest.Receive(t, ended, "the end of Start"), "",
		context.Canceled, sasl.ErrTemporary)
}

// TestAKDCThatIsNone: any answer of a server that is not a KDC is an error, without a
// panic.
func TestAKDCThatIsNone(t *testing.T) {
	for _, said := range []string{"\x00\x00\x00\x00", "\x00\x00\x00\x01\x7e", "\x00\x00\x00\x02\x6b\x80", "\x00\x00\x00\x04\x6b\x02\x30\x00", "HTTP/1.1 400 Bad Request\r\n"} {
		addr := answering(t, []byte(said))
		m := mechanismWith(t, confWith(t, addr), "bob", keytabOf(t, "bob@"+realm))
		_, err := m.Start(t.Context(), server)
		eventstest.Expect(t, err != nil, "after %q there is no error", said)
	}
}
