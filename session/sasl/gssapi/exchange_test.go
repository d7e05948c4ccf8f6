package gssapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/sasl"
)

const aes256 = etypeID.AES256_CTS_HMAC_SHA1_96

// TestExchange plays an exchange, with each type of key, and with a key that the server chooses.
func TestExchange(t *testing.T) {
	for name, kind := range kindsOfKeys() {
		for _, subkey := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", a key of the server: ", subkey), func(t *testing.T) {
				s, e := newAcceptor(t, kind)
				s.subkey = subkey
				proof := s.accept(next(t, e, nil))
				if a := s.asked.Authenticator; !s.mutual() || !a.CTime.Equal(noon().Truncate(time.Second)) || a.Cusec != 123456 || a.CRealm != realm {
					t.Errorf("the client asks with %+v, want bob of %s at noon, and a server that proves itself", a, realm)
				}
				if answer := next(t, e, proof); answer == nil || len(answer) > 0 {
					t.Errorf("to the proof the client says %x, want an empty token", answer)
				}
				choice, err := s.theirs.unwrap(next(t, e, turn(s.offer(7), 3)))
				if want := []byte{1, 0, 0, 0}; err != nil || !bytes.Equal(choice, want) {
					t.Errorf("of the protections the client chooses %x, %v; want none in its own name, %x", choice, err, want)
				}
				if answer, done, err := e.Next(nil); answer != nil || !done || err != nil {
					t.Errorf("in the end: %x, %v, %v; want it to be done", answer, done, err)
				}
				if kept, ok := e.mechanism.ticket(e.ticket.peer); !ok || kept.peer.String() != "zookeeper/zk1@"+realm {
					t.Errorf("kept is %v, %v; want the ticket that the server has accepted", kept.peer, ok)
				}
			})
		}
	}
}

// TestAServerThatCannotProveItselfIsRefused.
func TestAServerThatCannotProveItselfIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(s *acceptor){
		"another time":         func(s *acceptor) { s.proof = func(p *messages.EncAPRepPart) { p.CTime = p.CTime.Add(time.Second) } },
		"another microsecond":  func(s *acceptor) { s.proof = func(p *messages.EncAPRepPart) { p.Cusec++ } },
		"without the key":      func(s *acceptor) { s.key = func(k *types.EncryptionKey) { k.KeyValue = make([]byte, len(k.KeyValue)) } },
		"with the client's":    func(s *acceptor) { s.key = func(k *types.EncryptionKey) { *k = s.asked.Authenticator.SubKey } },
		"a key without a type": func(s *acceptor) { s.proof = func(p *messages.EncAPRepPart) { p.Subkey.KeyValue = []byte{1} } },
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newAcceptor(t, aes256)
			spoil(s)
			_, done, err := e.Next(s.accept(next(t, e, nil)))
			if err == nil {
				s.subkey = false
				_, done, err = e.Next(s.offer(1))
			}
			if done || err == nil || name != "a key without a type" && !errors.Is(err, sasl.ErrServer) {
				t.Errorf("done %v, %v; want %v", done, err, sasl.ErrServer)
			}
			if _, ok := e.mechanism.ticket(e.ticket.peer); ok {
				t.Error("the ticket was kept, want it to go with the exchange")
			}
		})
	}
}

// TestWhatIsNotSignedByTheServerIsRefused: its offer is changed on the way, or comes from another sender.
func TestWhatIsNotSignedByTheServerIsRefused(t *testing.T) {
	for name, change := range map[string]func(s *acceptor) []byte{
		"nothing":         func(*acceptor) []byte { return nil },
		"cut off":         func(s *acceptor) []byte { return s.offer(1)[:wrapHeader] },
		"another message": func(s *acceptor) []byte { b := s.offer(1); b[wrapHeader] = 3; return b },
		"another sum":     func(s *acceptor) []byte { b := s.offer(1); b[len(b)-1]++; return b },
		"no sum": func(s *acceptor) []byte {
			b := s.offer(1)[:wrapHeader+4]
			binary.BigEndian.PutUint16(b[4:], 0)
			return b
		},
		"another number":  func(s *acceptor) []byte { b := s.offer(1); b[15]++; return b },
		"a later number":  func(s *acceptor) []byte { s.ours.number++; return s.offer(1) },
		"another key":     func(s *acceptor) []byte { s.ours.key = s.asked.Ticket.DecryptedEncPart.Key; return s.offer(1) },
		"our direction":   func(s *acceptor) []byte { s.ours.server = false; return s.offer(1) },
		"no choice of it": func(s *acceptor) []byte { s.ours.subkey = true; return s.offer(1) },
		"a sealed one":    func(s *acceptor) []byte { b := s.offer(1); b[2] |= wrapSealed; return b },
		"another kind":    func(s *acceptor) []byte { b := s.offer(1); b[0] = 4; return b },
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newAcceptor(t, aes256)
			next(t, e, s.accept(next(t, e, nil)))
			if answer, done, err := e.Next(change(s)); answer != nil || done || !errors.Is(err, sasl.ErrServer) {
				t.Errorf("the client says %x, done %v, %v; want %v", answer, done, err, sasl.ErrServer)
			}
		})
	}
}

// TestAServerThatWantsMoreIsRefused: it signs or encrypts all later messages, or has no offer.
func TestAServerThatWantsMoreIsRefused(t *testing.T) {
	for _, protections := range []byte{0, 2, 4, 6} {
		s, e := newAcceptor(t, aes256)
		next(t, e, s.accept(next(t, e, nil)))
		if _, _, err := e.Next(s.offer(protections)); !errors.Is(err, sasl.ErrMechanism) {
			t.Errorf("offered %d: %v, want %v", protections, err, sasl.ErrMechanism)
		}
	}
}

// TestAServerOfAnotherMechanism is distinguished from a server that cannot prove itself.
func TestAServerOfAnotherMechanism(t *testing.T) {
	request, err := frame(tokenRequest, nil)
	eventstest.Must(t, err)
	for _, said := range [][]byte{nil, {}, []byte(`realm="zk-sasl-md5",nonce="abc"`), {0x60}, {0x60, 0x80}, {0x60, 3, 6, 1, 42}, request} {
		_, e := newAcceptor(t, aes256)
		next(t, e, nil)
		if _, _, err := e.Next(said); !errors.Is(err, sasl.ErrMechanism) {
			t.Errorf("after %q: %v, want %v", said, err, sasl.ErrMechanism)
		}
	}
}

// TestWhatAServerSaysAgainstATicket is readable, if it says anything.
func TestWhatAServerSaysAgainstATicket(t *testing.T) {
	for code, want := range map[int32]string{
		errorcode.KRB_AP_ERR_SKEW:        "gssapi: clock skew: the clocks of this machine (2030-01-01T12:00:00Z) and of zookeeper/zk1@ZKGRANT.TEST (2030-01-01T13:00:00Z) differ by 1h0m0s, and Kerberos allows 5m0s",
		errorcode.KRB_AP_ERR_BADKEYVER:   "zookeeper/zk1@ZKGRANT.TEST refuses the ticket: (44) KRB_AP_ERR_BADKEYVER Specified version of key is not available: sorry",
		errorcode.KRB_AP_ERR_TKT_EXPIRED: "zookeeper/zk1@ZKGRANT.TEST refuses the ticket: (32) KRB_AP_ERR_TKT_EXPIRED Ticket expired: sorry",
	} {
		_, e := newAcceptor(t, aes256)
		next(t, e, nil)
		no := messages.NewKRBError(e.ticket.peer.name, realm, code, "sorry")
		no.STime, no.Susec = noon().Add(time.Hour).Truncate(time.Second), 0
		message, err := no.Marshal()
		eventstest.Must(t, err)
		token, err := frame(tokenError, message)
		eventstest.Must(t, err)
		if _, _, err := e.Next(token); err == nil || err.Error() != want || errors.Is(err, ErrClockSkew) != (code == errorcode.KRB_AP_ERR_SKEW) {
			t.Errorf("error %d is told as\n%v, want\n%s", code, err, want)
		}
	}
}

// TestExplain: a server that refuses a ticket gives no reason, and the client names possible ones.
func TestExplain(t *testing.T) {
	_, e := newAcceptor(t, aes256)
	const want = "its log has the cause; perhaps its keytab lacks the key of zookeeper/zk1@ZKGRANT.TEST, version 3, or its clock differs from this one (2030-01-01T12:00:00Z) by more than 5m0s"
	if said := e.Explain(); said != want {
		t.Errorf("it says\n%s, want\n%s", said, want)
	}
}

// TestAnOldKindOfKeyIsRefused before anything is sent: RFC 4121 is not for it.
func TestAnOldKindOfKeyIsRefused(t *testing.T) {
	_, e := newAcceptor(t, etypeID.RC4_HMAC)
	if said, _, err := e.Next(nil); said != nil || !errors.Is(err, ErrKDC) || !strings.Contains(err.Error(), "type 23") {
		t.Errorf("it says %x, %v; want %v with the type", said, err, ErrKDC)
	}
}

// TestATicketIsKeptWhileItIsFresh, until a tenth of its life or a minute before its end, and goes to one exchange at a time.
func TestATicketIsKeptWhileItIsFresh(t *testing.T) {
	_, e := newAcceptor(t, aes256)
	m, now := e.mechanism, noon()
	m.now = func() time.Time { return now }
	for _, c := range []struct {
		life, age time.Duration
		want      bool
	}{
		{time.Hour, 0, true}, {time.Hour, 59*time.Minute - 1, true}, {time.Hour, 59 * time.Minute, false}, {time.Hour, 2 * time.Hour, false},
		{10 * time.Second, 9*time.Second - 1, true}, {10 * time.Second, 9 * time.Second, false},
	} {
		old := e.ticket
		old.end = old.start.Add(c.life)
		m.keep(old.peer, old)
		now = old.start.Add(c.age)
		if _, ok := m.ticket(old.peer); ok != c.want {
			t.Errorf("a ticket of %v is used after %v: %v, want %v", c.life, c.age, ok, c.want)
		}
	}
}

// FuzzServer: every message of the server that is not right is an error, and none causes a panic.
func FuzzServer(f *testing.F) {
	s, e := newAcceptor(f, aes256)
	proof := s.accept(next(f, e, nil))
	f.Add(proof, s.offer(1))
	f.Add([]byte("\x60\x03\x06\x01\x2a"), []byte{5, 4, 1, 0xff, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0})
	e.mechanism.now = func() time.Time { return noon().Add(time.Second) } // the proof was for another exchange
	f.Fuzz(func(t *testing.T, proof, offer []byte) {
		e := &exchange{mechanism: e.mechanism, ticket: e.ticket}
		next(t, e, nil)
		if _, _, err := e.Next(proof); err == nil {
			t.Errorf("%x is taken for a proof", proof)
		}
		e.theirs = wrapping{key: e.ours.key, server: true}
		if _, err := e.agree(offer); err == nil {
			t.Errorf("%x is taken for an offer", offer)
		}
	})
}
