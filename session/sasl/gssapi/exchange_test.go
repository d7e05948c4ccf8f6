package gssapi

import (
	"bytes"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/sasl"
)

const aes256 = etypeID.AES256_CTS_HMAC_SHA1_96

func TestExchange(t *testing.T) {
	// gokrb5 cannot create tickets of aes256-sha384; for that type, see TestRealKerberos.
	for name, kind := range map[string]int32{
		"aes128-sha1": etypeID.AES128_CTS_HMAC_SHA1_96, "aes256-sha1": aes256,
		"aes128-sha256": etypeID.AES128_CTS_HMAC_SHA256_128,
	} {
		for _, subkey := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", a key of the server: ", subkey), func(t *testing.T) {
				s, e := newAcceptor(t, kind)
				s.subkey = subkey
				proof := s.accept(next(t, e, nil))
				a := s.asked.Authenticator
				eventstest.Expect(t, s.mutual() && a.CRealm == realm &&
					a.CTime.Equal(noon().Truncate(time.Second)) && a.Cusec == 123456,
					"the client asks with %+v, want bob of %s at noon, and a server that proves itself", a, realm)
				eventstest.Equal(t, next(t, e, proof), []byte{}, "the answer to the proof")
				choice, err := s.theirs.unwrap(next(t, e, turn(s.offer(7), 3)))
				eventstest.Must(t, err)
				eventstest.Equal(t, choice, []byte{1, 0, 0, 0}, "the choice of protections: none, in its own name")
				answer, done, err := e.Next(nil)
				eventstest.Expect(t, answer == nil && done && err == nil, "in the end: %x, %v, %v", answer, done, err)
				kept, ok := e.mechanism.ticket(e.ticket.peer)
				eventstest.Expect(t, ok && kept.peer.String() == "zookeeper/zk1@"+realm, "kept is %v, %v", kept.peer, ok)
			})
		}
	}
}

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
			known := errors.Is(err, sasl.ErrServer) || err != nil && name == "a key without a type"
			eventstest.Expect(t, !done && known, "done %v, %v; want %v", done, err, sasl.ErrServer)
			_, kept := e.mechanism.ticket(e.ticket.peer)
			eventstest.Expect(t, !kept, "the ticket was kept, want it to go with the exchange")
		})
	}
}

// TestWhatIsNotSignedByTheServerIsRefused: its offer is changed in transit, or comes from
// another sender.
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
			answer, done, err := e.Next(change(s))
			eventstest.Expect(t, answer == nil && !done, "the client says %x, done %v", answer, done)
			eventstest.ErrorIs(t, err, sasl.ErrServer, "the end")
		})
	}
}

// TestAServerThatWantsMoreIsRefused: it wants to sign or encrypt all later messages, or
// offers nothing.
func TestAServerThatWantsMoreIsRefused(t *testing.T) {
	for _, protections := range []byte{0, 2, 4, 6} {
		s, e := newAcceptor(t, aes256)
		next(t, e, s.accept(next(t, e, nil)))
		_, _, err := e.Next(s.offer(protections))
		eventstest.ErrorIs(t, err, sasl.ErrMechanism, "offered %d", protections)
	}
}

// TestAServerOfAnotherMechanism: its error differs from that of a server that cannot
// prove itself.
func TestAServerOfAnotherMechanism(t *testing.T) {
	request, err := frame(tokenRequest, nil)
	eventstest.Must(t, err)
	for _, said := range [][]byte{nil, {}, []byte(`realm="zk-sasl-md5",nonce="abc"`), {0x60}, {0x60, 0x80}, {0x60, 3, 6, 1, 42}, request} {
		_, e := newAcceptor(t, aes256)
		next(t, e, nil)
		_, _, err := e.Next(said)
		eventstest.ErrorIs(t, err, sasl.ErrMechanism, "after %q", said)
	}
}

// TestWhatAServerSaysAgainstATicket: the error is readable, if the server sends one.
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
		_, _, err = e.Next(token)
		eventstest.Equal(t, fmt.Sprint(err), want, "error %d", code)
		eventstest.Equal(t, errors.Is(err, ErrClockSkew), code == errorcode.KRB_AP_ERR_SKEW, "%d is a skew", code)
	}
}

// TestExplain: a server that refuses a ticket gives no reason, so the client names
// possible ones.
func TestExplain(t *testing.T) {
	_, e := newAcceptor(t, aes256)
	const want = "its log has the cause; perhaps its keytab lacks the key of zookeeper/zk1@ZKGRANT.TEST, version 3, or its clock differs from this one (2030-01-01T12:00:00Z) by more than 5m0s"
	eventstest.Equal(t, e.Explain(), want, "the explanation")
	e.mechanism.config.LibDefaults.Clockskew = 0 // not configured
	eventstest.Equal(t, e.Explain(), want, "without a configured skew, the explanation")
}

// TestAnOldKindOfKeyIsRefused: nothing is sent, because RFC 4121 does not cover such
// keys.
func TestAnOldKindOfKeyIsRefused(t *testing.T) {
	_, e := newAcceptor(t, etypeID.RC4_HMAC)
	said, _, err := e.Next(nil)
	eventstest.Expect(t, said == nil, "it says %x", said)
	wantError(t, "the exchange", err, "type 23", ErrKDC)
}

// TestATicketIsKeptWhileItIsFresh: until a tenth of its life or a minute before its end,
// whichever is later. One exchange at a time uses it.
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
		_, ok := m.ticket(old.peer)
		eventstest.Equal(t, ok, c.want, "a ticket of %v is used after %v", c.life, c.age)
	}
}

// FuzzServer: any message of the server that is not correct is an error, and none causes
// a panic.
func FuzzServer(f *testing.F) {
	s, e := newAcceptor(f, aes256)
	proof := s.accept(next(f, e, nil))
	f.Add(proof, s.offer(1))
	f.Add([]byte("\x60\x03\x06\x01\x2a"), []byte{5, 4, 1, 0xff, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0})
	e.mechanism.now = func() time.Time { return noon().Add(time.Second) } // the proof was for another exchange
	f.Fuzz(func(t *testing.T, proof, offer []byte) {
		e := &exchange{mechanism: e.mechanism, ticket: e.ticket}
		next(t, e, nil)
		_, _, err := e.Next(proof)
		eventstest.Expect(t, err != nil, "%x is taken for a proof", proof)
		e.theirs = wrapping{key: e.ours.key, server: true}
		_, err = e.agree(offer)
		eventstest.Expect(t, err != nil, "%x is taken for an offer", offer)
	})
}

// TestARestrictedRuntimeNeverPanics: with GODEBUG=fips140=only, Go's own packages panic
// on SHA-1.
func TestARestrictedRuntimeNeverPanics(t *testing.T) {
	const setting = "GODEBUG=fips140=only"
	if os.Getenv("ZKGRANT_RESTRICTED") == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
		child.Env = append(os.Environ(), setting, "ZKGRANT_RESTRICTED=1")
		out, err := child.CombinedOutput()
		eventstest.ErrorIs(t, err, nil, "the process")
		eventstest.Contains(t, string(out), "--- PASS: "+t.Name(), "what the process says")
		return
	}
	for kind, length := range map[int32]int{etypeID.AES256_CTS_HMAC_SHA1_96: 32, etypeID.AES128_CTS_HMAC_SHA1_96: 16} {
		bob, server := principal{types.NewPrincipalName(1, "bob"), realm}, principal{types.NewPrincipalName(1, "zookeeper/zk1"), realm}
		key := types.EncryptionKey{KeyType: kind, KeyValue: make([]byte, length)}
		m := &mechanism{config: config.New(), client: bob, now: noon, kept: map[string]ticket{}}
		sealed := messages.Ticket{TktVNO: 5, Realm: realm, SName: server.name, EncPart: types.EncryptedData{EType: kind, Cipher: []byte("sealed")}}
		e := &exchange{mechanism: m, peer: server, ticket: ticket{client: bob, peer: server, sealed: sealed, key: key, start: noon(), end: noon().Add(time.Hour)}}
		_, _, err := e.Next(nil)
		wantError(t, fmt.Sprint("a key of type ", kind), err, "FIPS 140-only mode", sasl.ErrRestricted)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const realm = "ZKGRANT.TEST"

// noon is the current time in tests without a KDC.
func noon() time.Time { return time.Date(2030, 1, 1, 12, 0, 0, 123456789, time.UTC) }

// acceptor is the server's side of an exchange, which may be malicious.
type acceptor struct {
	tb   testing.TB
	keys *keytab.Keytab

	subkey bool // it chooses its own key
	proof  func(p *messages.EncAPRepPart)
	key    func(k *types.EncryptionKey) // the key that encrypts the proof

	asked  messages.APReq
	ours   wrapping
	theirs wrapping
}

// newAcceptor returns a server and bob's exchange with it.
func newAcceptor(tb testing.TB, kind int32) (*acceptor, *exchange) {
	tb.Helper()
	s := &acceptor{tb: tb, keys: keytab.New(), proof: func(*messages.EncAPRepPart) {}, key: func(*types.EncryptionKey) {}}
	eventstest.Must(tb, s.keys.AddEntry("zookeeper/zk1", realm, "secret", noon(), 3, kind))
	bob, server := principal{types.NewPrincipalName(1, "bob"), realm}, principal{types.NewPrincipalName(1, "zookeeper/zk1"), realm}
	sealed, key, err := messages.NewTicket(bob.name, realm, server.name, realm, types.NewKrbFlags(), s.keys, kind, 3,
		noon(), noon(), noon().Add(time.Hour), time.Time{})
	eventstest.Must(tb, err)
	m := &mechanism{config: config.New(), client: bob, now: noon, kept: map[string]ticket{}}
	return s, &exchange{mechanism: m, peer: server, ticket: ticket{bob, server, sealed, key, noon(), noon().Add(time.Hour)}}
}

// accept answers the first token.
func (s *acceptor) accept(token []byte) []byte {
	s.tb.Helper()
	kind, message, err := unframe(token)
	eventstest.Must(s.tb, err)
	if kind != tokenRequest {
		s.tb.Fatalf("the first token is of kind %#x, want %#x", kind, tokenRequest)
	}
	eventstest.Must(s.tb, s.asked.Unmarshal(message))
	eventstest.Must(s.tb, s.asked.Ticket.DecryptEncPart(s.keys, nil))
	session := s.asked.Ticket.DecryptedEncPart.Key
	eventstest.Must(s.tb, s.asked.DecryptAuthenticator(session))
	a := s.asked.Authenticator
	p := messages.EncAPRepPart{CTime: a.CTime, Cusec: a.Cusec, SequenceNumber: 1<<32 - 7}
	key := a.SubKey
	if s.subkey {
		key = types.EncryptionKey{KeyType: session.KeyType, KeyValue: bytes.Repeat([]byte{7}, len(session.KeyValue))}
		p.Subkey = key
	}
	s.proof(&p)
	s.ours = wrapping{key: key, subkey: s.subkey, server: true, number: uint64(p.SequenceNumber)}
	s.theirs = wrapping{key: key, subkey: s.subkey, number: uint64(a.SeqNumber)}
	text, err := asn1.Marshal(p)
	eventstest.Must(s.tb, err)
	s.key(&session)
	part, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(text, asnAppTag.EncAPRepPart), session, keyusage.AP_REP_ENCPART, 0)
	eventstest.Must(s.tb, err)
	text, err = asn1.Marshal(messages.APRep{PVNO: iana.PVNO, MsgType: msgtype.KRB_AP_REP, EncPart: part})
	eventstest.Must(s.tb, err)
	answer, err := frame(tokenReply, asn1tools.AddASNAppTag(text, asnAppTag.APREP))
	eventstest.Must(s.tb, err)
	return answer
}

// offer offers protections, and states the maximum message size.
func (s *acceptor) offer(protections byte) []byte {
	s.tb.Helper()
	token, err := s.ours.wrap([]byte{protections, 1, 0, 0})
	eventstest.Must(s.tb, err)
	return token
}

// next takes a step that must succeed, and must not be the last.
func next(tb testing.TB, e *exchange, said []byte) []byte {
	tb.Helper()
	answer, done, err := e.Next(said)
	if err != nil || done {
		tb.Fatalf("after %x: done %v, %v; want an answer", said, done, err)
	}
	return answer
}

// turn rotates the bytes after the header to the right, as a server may.
func turn(token []byte, by int) []byte {
	b, body := bytes.Clone(token), token[wrapHeader:]
	binary.BigEndian.PutUint16(b[6:], uint16(by))
	by %= len(body)
	return append(append(b[:wrapHeader], body[len(body)-by:]...), body[:len(body)-by]...)
}

// mutual reports whether the client has requested that the server prove itself.
func (s *acceptor) mutual() bool {
	return types.IsFlagSet(&s.asked.APOptions, flags.APOptionMutualRequired) &&
		binary.LittleEndian.Uint32(s.asked.Authenticator.Cksum.Checksum[20:])&flagMutual != 0
}
