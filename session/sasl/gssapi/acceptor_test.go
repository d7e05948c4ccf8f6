package gssapi

import (
	"bytes"
	"encoding/asn1"
	"encoding/binary"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const realm = "ZKGRANT.TEST"

// noon is the time of the tests without a KDC.
func noon() time.Time { return time.Date(2030, 1, 1, 12, 0, 0, 123456789, time.UTC) }

// acceptor is the server's side of an exchange, which may be malicious.
type acceptor struct {
	tb   testing.TB
	keys *keytab.Keytab

	subkey bool // it chooses a key of its own
	proof  func(p *messages.EncAPRepPart)
	key    func(k *types.EncryptionKey) // the key that encrypts the proof

	asked  messages.APReq
	ours   wrapping
	theirs wrapping
}

// newAcceptor returns a server, and bob's exchange with it.
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

// offer offers protections, and says how large a message may be.
func (s *acceptor) offer(protections byte) []byte {
	s.tb.Helper()
	token, err := s.ours.wrap([]byte{protections, 1, 0, 0})
	eventstest.Must(s.tb, err)
	return token
}

// next takes a step that has to succeed, and not to be the last.
func next(tb testing.TB, e *exchange, said []byte) []byte {
	tb.Helper()
	answer, done, err := e.Next(said)
	if err != nil || done {
		tb.Fatalf("after %x: done %v, %v; want an answer", said, done, err)
	}
	return answer
}

// turn turns the bytes after the header to the right, as a server may.
func turn(token []byte, by int) []byte {
	b, body := bytes.Clone(token), token[wrapHeader:]
	binary.BigEndian.PutUint16(b[6:], uint16(by))
	by %= len(body)
	return append(append(b[:wrapHeader], body[len(body)-by:]...), body[:len(body)-by]...)
}

// kindsOfKeys are the encryption types of the exchanges. gokrb5 makes no ticket of aes256-sha384: see [TestRealKerberos].
func kindsOfKeys() map[string]int32 {
	return map[string]int32{
		"aes128-sha1": etypeID.AES128_CTS_HMAC_SHA1_96, "aes256-sha1": etypeID.AES256_CTS_HMAC_SHA1_96,
		"aes128-sha256": etypeID.AES128_CTS_HMAC_SHA256_128,
	}
}

// mutual reports whether the client has asked the server to prove itself.
func (s *acceptor) mutual() bool {
	return types.IsFlagSet(&s.asked.APOptions, flags.APOptionMutualRequired) &&
		binary.LittleEndian.Uint32(s.asked.Authenticator.Cksum.Checksum[20:])&flagMutual != 0
}
