package gssapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// sessionKinds returns the encryption types of session keys. The exchange follows RFC
// 4121, which covers these types.
func sessionKinds() []int32 {
	return []int32{
		etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA384_192, etypeID.AES128_CTS_HMAC_SHA256_128,
	}
}

// mostRealms limits the number of realms on the way to a server's.
const mostRealms = 10

// ticketFor returns a new ticket for a server.
func (m *mechanism) ticketFor(ctx context.Context, peer principal) (ticket, error) {
	t, err := m.credentials.granting(ctx, m, peer)
	if err != nil || t.peer.equal(peer) {
		return t, err
	}
	for range mostRealms {
		at := t.peer.instance() // t is a ticket for this realm's KDC
		wanted := peer
		if at != peer.realm {
			wanted = granting(peer.realm, at)
		}
		if t, err = m.exchange(ctx, t, wanted, at); err != nil || t.peer.equal(peer) {
			return t, err
		}
		if t.peer.name.NameString[0] != "krbtgt" || t.peer.instance() == at {
			return ticket{}, fmt.Errorf("%w: the KDC of %s gives a ticket for %s, want one for %s", ErrKDC, at, t.peer, wanted)
		}
		if wanted.equal(peer) {
			peer.realm = t.peer.instance() // this KDC knows the server's realm better
		}
	}
	return ticket{}, fmt.Errorf("%w: too many referrals on the way to the realm of %s", ErrKDC, peer)
}

// login gets a principal's ticket for the KDC, with a keytab: the AS exchange.
func (m *mechanism) login(ctx context.Context, table *keytab.Keytab, kinds []int32) (ticket, error) {
	realm := m.client.realm
	wanted := granting(realm, realm)
	all := slices.Clone(kinds) // types for the answer's key, which is the client's, and for the session key
	for _, kind := range sessionKinds() {
		if !slices.Contains(all, kind) {
			all = append(all, kind)
		}
	}
	q := messages.ASReq{KDCReqFields: messages.KDCReqFields{PVNO: iana.PVNO, MsgType: msgtype.KRB_AS_REQ, ReqBody: m.body(wanted, all)}}
	var answer []byte
	for _, refused := range [...]bool{false, true} {
		request, err := q.Marshal()
		if err != nil {
			return ticket{}, err
		}
		if answer, err = m.ask(ctx, realm, request); err != nil {
			return ticket{}, err
		}
		no, is := refusal(answer)
		if !is {
			break
		}
		if refused || no.ErrorCode != errorcode.KDC_ERR_PREAUTH_REQUIRED {
			return ticket{}, m.refused(no, wanted)
		}
		proof, err := m.proof(table, kinds, no)
		if err != nil {
			return ticket{}, err
		}
		q.PAData = types.PADataSequence{proof}
	}
	var r messages.ASRep
	if err := r.Unmarshal(answer); err != nil {
		return ticket{}, fmt.Errorf("%w: the answer of the KDC of %s: %w", ErrKDC, realm, err)
	}
	key, _, err := table.GetEncryptionKey(m.client.name, realm, 0, r.EncPart.EType) // the newest key, because a keytab may number its keys in its own way
	if err != nil {
		return ticket{}, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	return m.open(r.KDCRepFields, q.ReqBody, key, keyusage.AS_REP_ENCPART)
}

// proof returns the time, encrypted with the client's key. The KDC's refusal names the
// type of the key.
func (m *mechanism) proof(table *keytab.Keytab, kinds []int32, asked messages.KRBError) (proof types.PAData, err error) {
	kind := kinds[0]
	var hints types.PADataSequence
	if hints.Unmarshal(asked.EData) == nil {
		for _, hint := range hints {
			if hint.PADataType != patype.PA_ETYPE_INFO2 {
				continue
			}
			if info, err := hint.GetETypeInfo2(); err == nil && len(info) > 0 {
				kind = info[0].EType
			}
		}
	}
	key, version, err := table.GetEncryptionKey(m.client.name, m.client.realm, 0, kind)
	if err != nil {
		return proof, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	seconds, micros := m.time()
	text, err := asn1.Marshal(types.PAEncTSEnc{PATimestamp: seconds, PAUSec: micros})
	if err != nil {
		return proof, err
	}
	sealed, err := crypto.GetEncryptedData(text, key, keyusage.AS_REQ_PA_ENC_TIMESTAMP, version)
	if err != nil {
		return proof, err
	}
	value, err := sealed.Marshal()
	return types.PAData{PADataType: patype.PA_ENC_TIMESTAMP, PADataValue: value}, err
}

// exchange trades one ticket for another: the TGS exchange.
func (m *mechanism) exchange(ctx context.Context, t ticket, wanted principal, realm string) (ticket, error) {
	body := m.body(wanted, sessionKinds())
	body.Realm = realm
	types.SetFlag(&body.KDCOptions, flags.Canonicalize) // otherwise the KDC does not mention other realms
	text, err := body.Marshal()
	if err != nil {
		return ticket{}, err
	}
	kind, err := crypto.GetEtype(t.key.KeyType)
	if err != nil {
		return ticket{}, fmt.Errorf("%w: %w", ErrKDC, err)
	}
	sum, err := kind.GetChecksumHash(t.key.KeyValue, text, keyusage.TGS_REQ_PA_TGS_REQ_AP_REQ_AUTHENTICATOR_CHKSUM)
	if err != nil {
		return ticket{}, err
	}
	a := m.authenticator(types.Checksum{CksumType: kind.GetHashID(), Checksum: sum})
	presented, err := messages.NewAPReq(t.sealed, t.key, a)
	if err != nil {
		return ticket{}, err
	}
	shown, err := presented.Marshal()
	if err != nil {
		return ticket{}, err
	}
	q := messages.TGSReq{KDCReqFields: messages.KDCReqFields{
		PVNO: iana.PVNO, MsgType: msgtype.KRB_TGS_REQ, ReqBody: body,
		PAData: types.PADataSequence{{PADataType: patype.PA_TGS_REQ, PADataValue: shown}},
	}}
	request, err := q.Marshal()
	if err != nil {
		return ticket{}, err
	}
	answer, err := m.ask(ctx, realm, request)
	if err != nil {
		return ticket{}, err
	}
	if no, is := refusal(answer); is {
		return ticket{}, m.refused(no, wanted)
	}
	var r messages.TGSRep
	if err := r.Unmarshal(answer); err != nil {
		return ticket{}, fmt.Errorf("%w: the answer of the KDC of %s: %w", ErrKDC, realm, err)
	}
	return m.open(r.KDCRepFields, body, t.key, keyusage.TGS_REP_ENCPART_SESSION_KEY)
}

// body returns the body of a request for a ticket, without options.
func (m *mechanism) body(wanted principal, kinds []int32) messages.KDCReqBody {
	return messages.KDCReqBody{
		KDCOptions: types.NewKrbFlags(), CName: m.client.name, Realm: wanted.realm, SName: wanted.name,
		Till: m.now().UTC().Add(m.config.LibDefaults.TicketLifetime), Nonce: int(number()), EType: kinds,
	}
}

// authenticator returns the proof that its sender has the session key now.
func (m *mechanism) authenticator(sum types.Checksum) types.Authenticator {
	seconds, micros := m.time()
	return types.Authenticator{AVNO: iana.PVNO, CRealm: m.client.realm, CName: m.client.name, Cksum: sum, CTime: seconds, Cusec: micros}
}

// time returns the current time as messages encode it.
func (m *mechanism) time() (seconds time.Time, micros int) {
	now := m.now().UTC()
	return now.Truncate(time.Second), now.Nanosecond() / int(time.Microsecond)
}

// number returns a random number of 30 bits.
func number() int64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return int64(binary.BigEndian.Uint32(b[:]) >> 2)
}

// open decrypts an answer, and checks that it belongs to the request.
func (m *mechanism) open(r messages.KDCRepFields, asked messages.KDCReqBody, key types.EncryptionKey, usage uint32) (ticket, error) {
	text, err := crypto.DecryptEncPart(r.EncPart, key, usage)
	if err != nil {
		return ticket{}, fmt.Errorf("%w: the answer of the KDC of %s cannot be decrypted: %w", ErrKDC, asked.Realm, err)
	}
	var known messages.EncKDCRepPart
	if err := known.Unmarshal(text); err != nil {
		return ticket{}, fmt.Errorf("%w: the answer of the KDC of %s: %w", ErrKDC, asked.Realm, err)
	}
	client := principal{r.CName, r.CRealm}
	if known.Nonce != asked.Nonce || !client.equal(m.client) {
		return ticket{}, fmt.Errorf("%w: the KDC of %s answers another request, of %s", ErrKDC, asked.Realm, client)
	}
	t := ticket{client: client, peer: principal{known.SName, known.SRealm}, sealed: r.Ticket, key: known.Key, start: known.StartTime, end: known.EndTime}
	if t.start.IsZero() {
		t.start = known.AuthTime
	}
	return t, nil
}

// refusal returns the error in a KDC's answer, if there is one.
func refusal(answer []byte) (no messages.KRBError, is bool) {
	const tag = 0x60 | 30 // the tag of an error
	return no, len(answer) > 0 && answer[0] == tag && no.Unmarshal(answer) == nil
}

// unavailable reports whether a KDC cannot answer for the moment.
func unavailable(answer []byte) bool {
	no, is := refusal(answer)
	return is && no.ErrorCode == errorcode.KDC_ERR_SVC_UNAVAILABLE
}

// refused returns the error for a KDC's refusal of a ticket.
func (m *mechanism) refused(no messages.KRBError, wanted principal) error {
	by := "the KDC of " + wanted.realm
	switch no.ErrorCode {
	case errorcode.KRB_AP_ERR_SKEW:
		return m.skew(by, no.STime)
	case errorcode.KRB_AP_ERR_TKT_EXPIRED:
		return fmt.Errorf("%w: %s says so of the ticket of %s", ErrExpired, by, m.client)
	default:
		return fmt.Errorf("%w: %s gives %s none for %s: %w", ErrKDC, by, m.client, wanted, reason(no))
	}
}

// reason returns a KDC's or server's error in words.
func reason(no messages.KRBError) error {
	text := errorcode.Lookup(no.ErrorCode)
	if no.EText != "" {
		text += ": " + no.EText
	}
	return errors.New(text)
}

// skew returns the error for clocks that differ by too much, with the difference.
func (m *mechanism) skew(who string, theirs time.Time) error {
	ours := m.now()
	return fmt.Errorf("%w: the clocks of this machine (%s) and of %s (%s) differ by %v, and Kerberos allows %v",
		ErrClockSkew, ours.UTC().Format(time.RFC3339), who, theirs.UTC().Format(time.RFC3339), ours.Sub(theirs).Abs().Round(time.Second), m.allowedSkew())
}

// allowedSkew returns by how much clocks may differ: as configured, or Kerberos' default.
func (m *mechanism) allowedSkew() time.Duration {
	return cmp.Or(m.config.LibDefaults.Clockskew, 5*time.Minute)
}
