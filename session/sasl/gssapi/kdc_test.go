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

// mechanismOf is the mechanism of a keytab, and mechanismWith one with another krb5.conf than the KDC's.
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

// started is a KDC that knows the server.
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

// TestTickets of a real KDC: with and without a proof beforehand, of each type of key. A ticket is kept until an exchange shows it, also if
// an exchange comes to nothing before.
func TestTickets(t *testing.T) {
	k := started(t)
	for i, option := range []string{
		"-requires_preauth", "+requires_preauth", "-e aes128-cts-hmac-sha1-96:normal +requires_preauth", "-e aes256-cts-hmac-sha384-192:normal +requires_preauth",
		"-e arcfour-hmac:normal +requires_preauth",
	} {
		name := fmt.Sprintf("app%d/host", i)
		m := mechanismOf(t, k, name, k.Add(name, option))
		first, err := ticketOf(t.Context(), m, server)
		if err != nil || first.peer.String() != "zookeeper/localhost@"+realm || first.client.String() != name+"@"+realm {
			t.Errorf("with %s: a ticket of %v for %v, %v; want one for zookeeper/localhost", option, first.client, first.peer, err)
			continue
		}
		asked := strings.Count(k.Log(), name)
		if again, err := ticketOf(t.Context(), m, server); err != nil || string(again.sealed.EncPart.Cipher) != string(first.sealed.EncPart.Cipher) {
			t.Errorf("with %s the next exchange begins with another ticket, %v; want the one that was not shown", option, err)
		}
		if n := strings.Count(k.Log(), name) - asked; n != 0 {
			t.Errorf("with %s the KDC was asked %d times more, want never", option, n)
		}
		e, err := m.Start(t.Context(), server)
		eventstest.Must(t, err)
		_, _, _ = e.Next(nil) // which refuses RC4
		if other, err := ticketOf(t.Context(), m, server); err != nil || string(other.sealed.EncPart.Cipher) == string(first.sealed.EncPart.Cipher) {
			t.Errorf("with %s the same ticket is used again, %v; want another one, for the server has not accepted it", option, err)
		}
	}
}

// TestRefusalsOfAKDC are final, and name the client and the ticket that it did not get.
func TestRefusalsOfAKDC(t *testing.T) {
	k := started(t)
	bob, eve, old := k.Add("bob", "+requires_preauth"), k.Add("eve"), k.Add("old", "+requires_preauth")
	k.Admin("delprinc -force eve")
	k.Admin("cpw -randkey old")
	k.Add("dora", "-pwexpire yesterday")
	for name, c := range map[string]struct {
		m    *mechanism
		at   string
		want error
		says string
	}{
		"unknown server":   {mechanismOf(t, k, "bob", bob), "127.0.0.1:2181", ErrKDC, "gives bob@ZKGRANT.TEST none for zookeeper/127.0.0.1@ZKGRANT.TEST: (7) KDC_ERR_S_PRINCIPAL_UNKNOWN"},
		"unknown client":   {mechanismOf(t, k, "eve", eve), server, ErrKDC, "gives eve@ZKGRANT.TEST none for krbtgt/ZKGRANT.TEST@ZKGRANT.TEST: (6) KDC_ERR_C_PRINCIPAL_UNKNOWN"},
		"another key":      {mechanismOf(t, k, "old", old), server, ErrKDC, "KDC_ERR_PREAUTH_FAILED"},
		"expired password": {mechanismOf(t, k, "dora", k.Keytab("dora")), server, ErrKDC, "KDC_ERR_KEY_EXPIRED"},
		"realm without KDC": {mechanismOf(t, k, "bob", bob, ServerPrincipal("zookeeper/_HOST@NOWHERE.TEST")), server, ErrKDC,
			"none for krbtgt/NOWHERE.TEST@ZKGRANT.TEST"},
	} {
		if _, err := ticketOf(t.Context(), c.m, c.at); !errors.Is(err, c.want) || errors.Is(err, sasl.ErrTemporary) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v that says %q", name, err, c.want, c.says)
		}
	}
	k.Add("zookeeper/127.0.0.1")
	k.Add("zk/other")
	for at, m := range map[string]*mechanism{
		"127.0.0.1:2181": mechanismOf(t, k, "bob", bob), "10.0.0.1:2181": mechanismOf(t, k, "bob", bob, ServerPrincipal("zk/other")),
		"127.0.0.1:1": mechanismOf(t, k, "bob", bob, ServerPrincipal("zookeeper/_HOST@"+realm)),
	} {
		if _, err := ticketOf(t.Context(), m, at); err != nil {
			t.Errorf("%s: %v, want a ticket", at, err)
		}
	}
}

// TestAnotherRealm: the server is in a realm that trusts the client's. krb5.conf names that realm, or only the KDC knows it.
func TestAnotherRealm(t *testing.T) {
	ours, theirs := kdctest.Start(t, realm), kdctest.Start(t, "OTHER.TEST")
	bob := ours.Add("bob")
	theirs.Add("zookeeper/zk1.other.test")
	ours.Trust(theirs, ".other.test")
	got, err := ticketOf(t.Context(), mechanismOf(t, ours, "bob", bob), "zk1.other.test:2181")
	if err != nil || got.peer.String() != "zookeeper/zk1.other.test@OTHER.TEST" || got.client.String() != "bob@"+realm {
		t.Errorf("a ticket of %v for %v, %v; want bob's for the server in OTHER.TEST", got.client, got.peer, err)
	}
	ours.Stop()
	ours.Go() // it reads which hosts are in the other realm
	short := written(t, fmt.Sprintf("[libdefaults]\n default_realm = %s\n[realms]\n %s = {\n  kdc = %s\n }\n OTHER.TEST = {\n  kdc = %s\n }\n",
		realm, realm, ours.Addr(), theirs.Addr()))
	m := mechanismWith(t, short, "bob", bob)
	if got, err := ticketOf(t.Context(), m, "zk1.other.test:2181"); err != nil || got.peer.String() != "zookeeper/zk1.other.test@OTHER.TEST" {
		t.Errorf("referred by the KDC: a ticket for %v, %v; want one for the server in OTHER.TEST", got.peer, err)
	}
}

// TestClockSkewOfAKDC names both times and what is allowed.
func TestClockSkewOfAKDC(t *testing.T) {
	k := started(t)
	for name, keytab := range map[string]string{"bob": k.Add("bob", "+requires_preauth"), "ann": k.Add("ann", "-requires_preauth")} {
		for _, by := range []time.Duration{-time.Hour, time.Hour, 48 * time.Hour} {
			m := mechanismOf(t, k, name, keytab)
			m.now = func() time.Time { return time.Now().Add(by) }
			_, err := ticketOf(t.Context(), m, server)
			if !errors.Is(err, ErrClockSkew) || errors.Is(err, sasl.ErrTemporary) || !strings.Contains(err.Error(), "and Kerberos allows 5m0s") {
				t.Errorf("%s, %v away: %v, want %v and by how much", name, by, err, ErrClockSkew)
			}
		}
	}
}

// TestACache is read again at each exchange. When its ticket has ended the error says when that was.
func TestACache(t *testing.T) {
	k := started(t)
	bob, ann, path := k.Add("bob"), k.Add("ann"), filepath.Join(t.TempDir(), "cache")
	k.Kinit(path, "bob", bob, "-l", "1h")
	made, err := CredentialCache("FILE:"+path, Config(k.Config()))
	eventstest.Must(t, err)
	m := made.(*mechanism)
	if got, err := ticketOf(t.Context(), m, server); err != nil || got.client.String() != "bob@"+realm || got.peer.String() != "zookeeper/localhost@"+realm {
		t.Errorf("a ticket of %v for %v, %v; want bob's for the server", got.client, got.peer, err)
	}
	m.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	_, err = ticketOf(t.Context(), m, server)
	if !errors.Is(err, ErrExpired) || errors.Is(err, sasl.ErrTemporary) || !strings.Contains(err.Error(), time.Now().Add(time.Hour).Format("2006-01-02T")) {
		t.Errorf("an hour after its end: %v, want %v and when that was", err, ErrExpired)
	}
	m.now = time.Now
	k.Kinit(path, "bob", bob, "-l", "1h", "-S", "zookeeper/localhost")
	if got, err := ticketOf(t.Context(), m, server); err != nil || got.peer.String() != "zookeeper/localhost@"+realm {
		t.Errorf("a ticket for %v, %v; want the one of kinit -S", got.peer, err)
	}
	if _, err := ticketOf(t.Context(), m, "other:2181"); !errors.Is(err, ErrCredentials) {
		t.Errorf("for another server: %v, want %v", err, ErrCredentials)
	}
	k.Kinit(path, "ann", ann)
	if _, err := ticketOf(t.Context(), m, server); !errors.Is(err, ErrCredentials) || !strings.Contains(err.Error(), "ann@") {
		t.Errorf("with the tickets of another principal: %v, want %v", err, ErrCredentials)
	}
	eventstest.Must(t, os.WriteFile(path, []byte("\x05"), 0o600))
	if _, err := ticketOf(t.Context(), m, server); !errors.Is(err, sasl.ErrTemporary) || !errors.Is(err, ErrCredentials) {
		t.Errorf("while it is being written: %v, want %v", err, sasl.ErrTemporary)
	}
}

// TestAKeytabThatIsChanged is read again: its principal has another key by then.
func TestAKeytabThatIsChanged(t *testing.T) {
	k := started(t)
	keytab := k.Add("bob", "+requires_preauth")
	m := mechanismOf(t, k, "bob", keytab)
	k.Admin("cpw -randkey bob")
	eventstest.Must(t, os.Remove(keytab))
	if _, err := ticketOf(t.Context(), m, server); !errors.Is(err, sasl.ErrTemporary) {
		t.Errorf("while it is being written: %v, want %v", err, sasl.ErrTemporary)
	}
	eventstest.Must(t, os.Rename(k.Keytab("bob"), keytab))
	if _, err := ticketOf(t.Context(), m, server); err != nil {
		t.Errorf("with the new key: %v, want a ticket", err)
	}
}

// TestTheVersionOfAKeyMayDiffer: a keytab that was made elsewhere numbers its keys in its own way.
func TestTheVersionOfAKeyMayDiffer(t *testing.T) {
	k := started(t)
	table, err := loadKeytab(k.Add("bob", "+requires_preauth"))
	eventstest.Must(t, err)
	for i := range table.Entries {
		table.Entries[i].KVNO, table.Entries[i].KVNO8 = 9, 9
	}
	bytes, err := table.Marshal()
	eventstest.Must(t, err)
	if _, err := ticketOf(t.Context(), mechanismOf(t, k, "bob", written(t, string(bytes))), server); err != nil {
		t.Errorf("with a key of version 9, that is version 1 for the KDC: %v, want a ticket", err)
	}
}

// TestAnOldAnswerIsRefused: an attacker may have recorded it.
func TestAnOldAnswerIsRefused(t *testing.T) {
	k := started(t)
	var heard [][]byte
	asked := 0
	again := answering(t, func(c net.Conn) {
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
	if _, err := ticketOf(t.Context(), m, server); !errors.Is(err, ErrKDC) || !strings.Contains(err.Error(), "answers another request") {
		t.Errorf("after the answer to an earlier request: %v, want %v", err, ErrKDC)
	}
}

// confWith is a krb5.conf with these KDCs.
func confWith(tb testing.TB, kdcs ...string) (path string) {
	tb.Helper()
	return written(tb, "[libdefaults]\n default_realm = "+realm+"\n[realms]\n "+realm+" = {\n  kdc = "+strings.Join(kdcs, "\n  kdc = ")+"\n }\n")
}

// answering is a KDC that treats each connection like that.
func answering(tb testing.TB, answer func(net.Conn)) (addr string) {
	tb.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	eventstest.Must(tb, err)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answer(conn)
			_ = conn.Close()
		}
	}()
	tb.Cleanup(func() { eventstest.Must(tb, l.Close()); <-over })
	return l.Addr().String()
}

// silent reads all that comes, and says nothing.
func silent(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// TestAnotherKDCIsAsked if the first is gone, silent, or has no answer for the moment.
func TestAnotherKDCIsAsked(t *testing.T) {
	k := started(t)
	bob := k.Add("bob")
	no := messages.NewKRBError(types.NewPrincipalName(2, "krbtgt/"+realm), realm, errorcode.KDC_ERR_SVC_UNAVAILABLE, "")
	busy, err := no.Marshal()
	eventstest.Must(t, err)
	gone, err := net.Listen("tcp4", "127.0.0.1:0")
	eventstest.Must(t, err)
	eventstest.Must(t, gone.Close())
	for name, first := range map[string]string{
		"gone": gone.Addr().String(), "silent": answering(t, silent), "hanging up": answering(t, func(net.Conn) {}),
		"busy":    answering(t, func(c net.Conn) { _, _ = c.Write(append([]byte{0, 0, 0, byte(len(busy))}, busy...)) }),
		"endless": answering(t, func(c net.Conn) { _, _ = c.Write([]byte{0xff, 0xff, 0xff, 0xff}) }),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if _, err := ticketOf(ctx, mechanismWith(t, confWith(t, first, k.Addr()), "bob", bob), server); err != nil {
				t.Errorf("%v, want a ticket of the other KDC", err)
			}
			m := mechanismWith(t, confWith(t, first), "bob", bob)
			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := ticketOf(ctx, m, server); !errors.Is(err, sasl.ErrTemporary) || !strings.Contains(err.Error(), first) {
				t.Errorf("without another KDC: %v, want %v that names %s", err, sasl.ErrTemporary, first)
			}
		})
	}
}

// TestStartEndsWithItsContext: no goroutine is left, and Start does not wait for a KDC that is silent.
func TestStartEndsWithItsContext(t *testing.T) {
	asked := make(chan struct{}, 1)
	addr := answering(t, func(c net.Conn) { asked <- struct{}{}; silent(c) })
	m := mechanismWith(t, confWith(t, addr), "bob", keytabOf(t, "bob@"+realm))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := m.Start(ctx, server)
		ended <- err
	}()
	eventstest.Receive(t, asked, "a request for a ticket")
	cancel()
	if err := eventstest.Receive(t, ended, "the end of Start"); !errors.Is(err, context.Canceled) || !errors.Is(err, sasl.ErrTemporary) {
		t.Errorf("Start = %v, want %v and %v", err, context.Canceled, sasl.ErrTemporary)
	}
}

// TestAKDCThatIsNone: whatever it answers, there is an error, and no panic.
func TestAKDCThatIsNone(t *testing.T) {
	for _, said := range []string{"\x00\x00\x00\x00", "\x00\x00\x00\x01\x7e", "\x00\x00\x00\x02\x6b\x80", "\x00\x00\x00\x04\x6b\x02\x30\x00", "HTTP/1.1 400 Bad Request\r\n"} {
		addr := answering(t, func(c net.Conn) { _, _ = c.Write([]byte(said)) })
		m := mechanismWith(t, confWith(t, addr), "bob", keytabOf(t, "bob@"+realm))
		if e, err := m.Start(t.Context(), server); err == nil {
			t.Errorf("after %q: %v, want an error", said, e)
		}
	}
}
