package gssapi

import (
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zkgrant/zkgrant/session/sasl"
)

// exchange presents a ticket, checks the server's proof, and agrees that nothing after
// that is signed or encrypted (RFC 4752, 3.1).
type exchange struct {
	mechanism *mechanism
	peer      principal // in the client's form
	ticket    ticket
	steps     int

	seconds time.Time // of the client's proof, which the server repeats
	micros  int
	ours    wrapping
	theirs  wrapping
}

// Next takes one step of the exchange.
func (e *exchange) Next(said []byte) (answer []byte, done bool, err error) {
	defer func() { err = caught(recover(), err) }()
	e.steps++
	switch e.steps {
	case 1:
		e.mechanism.drop(e.peer)
		answer, err = e.show()
	case 2:
		answer, err = []byte{}, e.judge(said)
	case 3:
		answer, err = e.agree(said)
	default:
		e.mechanism.keep(e.peer, e.ticket)
		return nil, true, nil
	}
	return answer, false, err
}

// show makes the token with the ticket and the proof that the ticket is ours.
func (e *exchange) show() ([]byte, error) {
	if !slices.Contains(sessionKinds(), e.ticket.key.KeyType) {
		return nil, fmt.Errorf("%w: the session key for %s is of type %d, want AES: %v", ErrKDC, e.ticket.peer, e.ticket.key.KeyType, sessionKinds())
	}
	a := e.mechanism.authenticator(wishes())
	a.SeqNumber = number()
	a.SubKey = types.EncryptionKey{KeyType: e.ticket.key.KeyType, KeyValue: make([]byte, len(e.ticket.key.KeyValue))}
	_, _ = rand.Read(a.SubKey.KeyValue) // it never fails
	e.seconds, e.micros = a.CTime, a.Cusec
	e.ours = wrapping{key: a.SubKey, number: uint64(a.SeqNumber)}
	q, err := messages.NewAPReq(e.ticket.sealed, e.ticket.key, a)
	if err != nil {
		return nil, err
	}
	types.SetFlag(&q.APOptions, flags.APOptionMutualRequired)
	message, err := q.Marshal()
	if err != nil {
		return nil, err
	}
	return frame(tokenRequest, message)
}

// judge checks the server's proof.
func (e *exchange) judge(said []byte) error {
	kind, message, err := unframe(said)
	if err != nil {
		return fmt.Errorf("%w: %w", sasl.ErrMechanism, err)
	}
	switch kind {
	case tokenReply:
	case tokenError:
		var no messages.KRBError
		if err := no.Unmarshal(message); err != nil {
			return fmt.Errorf("%w: %w", sasl.ErrMechanism, err)
		}
		if no.ErrorCode == errorcode.KRB_AP_ERR_SKEW {
			return e.mechanism.skew(e.ticket.peer.String(), no.STime)
		}
		return fmt.Errorf("%s refuses the ticket: %w", e.ticket.peer, reason(no))
	default:
		return fmt.Errorf("%w: its token is of kind %#04x", sasl.ErrMechanism, kind)
	}
	var r messages.APRep
	if err := r.Unmarshal(message); err != nil {
		return fmt.Errorf("%w: %w", sasl.ErrServer, err)
	}
	text, err := crypto.DecryptEncPart(r.EncPart, e.ticket.key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return fmt.Errorf("%w: %w", sasl.ErrServer, err)
	}
	var proof messages.EncAPRepPart
	if err := proof.Unmarshal(text); err != nil {
		return fmt.Errorf("%w: %w", sasl.ErrServer, err)
	}
	if !proof.CTime.Equal(e.seconds) || proof.Cusec != e.micros {
		return fmt.Errorf("%w: its answer has another time than the request", sasl.ErrServer)
	}
	if len(proof.Subkey.KeyValue) > 0 {
		e.ours.key, e.ours.subkey = proof.Subkey, true
	}
	e.theirs = wrapping{key: e.ours.key, subkey: e.ours.subkey, server: true, number: uint64(uint32(proof.SequenceNumber))}
	return nil
}

// agree chooses no protection from the server's offer.
func (e *exchange) agree(said []byte) ([]byte, error) {
	const none = 1
	offer, err := e.theirs.unwrap(said)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sasl.ErrServer, err)
	}
	if len(offer) != 4 || offer[0]&none == 0 {
		return nil, fmt.Errorf("%w: it offers the protections %x, want one without protection", sasl.ErrMechanism, offer)
	}
	return e.ours.wrap([]byte{none, 0, 0, 0}) // no name: the client authenticates as itself
}

// Explain names causes that a server logs but does not report to the client.
func (e *exchange) Explain() string {
	m := e.mechanism
	return fmt.Sprintf("its log has the cause; perhaps its keytab lacks the key of %s, version %d, or its clock differs from this one (%s) by more than %v",
		e.ticket.peer, e.ticket.sealed.EncPart.KVNO, m.now().UTC().Format(time.RFC3339), m.allowedSkew())
}

var _ sasl.Explainer = (*exchange)(nil)
