package gssapi

import (
	"bytes"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
)

// The kinds of tokens that begin a context (RFC 4121, 4.1).
const (
	tokenRequest = 0x0100
	tokenReply   = 0x0200
	tokenError   = 0x0300
)

// kerberos is the mechanism's name in GSSAPI.
func kerberos() asn1.ObjectIdentifier { return asn1.ObjectIdentifier{1, 2, 840, 113554, 1, 2, 2} }

// frame wraps a Kerberos message in a token (RFC 2743, 3.1).
func frame(kind uint16, message []byte) ([]byte, error) {
	name, err := asn1.Marshal(kerberos())
	if err != nil {
		return nil, err
	}
	inner := append(binary.BigEndian.AppendUint16(name, kind), message...)
	return asn1.Marshal(asn1.RawValue{Class: asn1.ClassApplication, Tag: 0, IsCompound: true, Bytes: inner})
}

// unframe unwraps a token.
func unframe(token []byte) (kind uint16, message []byte, err error) {
	var outer asn1.RawValue
	var name asn1.ObjectIdentifier
	rest, err := asn1.Unmarshal(token, &outer)
	if err != nil || len(rest) > 0 || outer.Class != asn1.ClassApplication || outer.Tag != 0 || !outer.IsCompound {
		return 0, nil, errors.New("it is not a GSSAPI token")
	}
	inner, err := asn1.Unmarshal(outer.Bytes, &name)
	if err != nil || !name.Equal(kerberos()) || len(inner) < 2 {
		return 0, nil, errors.New("it is not a Kerberos token")
	}
	return binary.BigEndian.Uint16(inner), inner[2:], nil
}

// The flags of a context that the client requests.
const (
	flagMutual   = 1 << 1
	flagReplay   = 1 << 2
	flagSequence = 1 << 3
	flagInteg    = 1 << 5
)

// wishes returns the flags that the client requests, in the form of a checksum (RFC 4121,
// 4.1.1). It has no channel bindings.
func wishes() types.Checksum {
	const kind, bindings = 0x8003, 16
	b := binary.LittleEndian.AppendUint32(nil, bindings)
	b = append(b, make([]byte, bindings)...)
	b = binary.LittleEndian.AppendUint32(b, flagMutual|flagReplay|flagSequence|flagInteg)
	return types.Checksum{CksumType: kind, Checksum: b}
}

// wrapping is one direction of a context, for messages that are signed (RFC 4121, 4.2).
type wrapping struct {
	key    types.EncryptionKey
	subkey bool // the server chose the key
	server bool // the sender is the server
	number uint64
}

const (
	wrapHeader = 16
	wrapServer = 1 << 0
	wrapSealed = 1 << 1
	wrapSubkey = 1 << 2
)

var errWrapped = errors.New("a message is not what the server has signed")

func (w wrapping) flags() (flags byte) {
	if w.server {
		flags |= wrapServer
	}
	if w.subkey {
		flags |= wrapSubkey
	}
	return flags
}

func (w wrapping) usage() uint32 {
	if w.server {
		return keyusage.GSSAPI_ACCEPTOR_SEAL
	}
	return keyusage.GSSAPI_INITIATOR_SEAL
}

// signed returns the bytes that are signed: the message, and the header without lengths.
func (w wrapping) signed(message []byte) []byte {
	b := append(bytes.Clone(message), 5, 4, w.flags(), 0xff, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint64(b, w.number)
}

// wrap signs a message.
func (w wrapping) wrap(message []byte) ([]byte, error) {
	kind, err := crypto.GetEtype(w.key.KeyType)
	if err != nil {
		return nil, err
	}
	sum, err := kind.GetChecksumHash(w.key.KeyValue, w.signed(message), w.usage())
	if err != nil {
		return nil, err
	}
	b := binary.BigEndian.AppendUint16([]byte{5, 4, w.flags(), 0xff}, uint16(len(sum)))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint64(b, w.number)
	return append(append(b, message...), sum...), nil
}

// unwrap returns the message that the other side has signed.
func (w wrapping) unwrap(token []byte) ([]byte, error) {
	if len(token) < wrapHeader || token[0] != 5 || token[1] != 4 || token[3] != 0xff {
		return nil, fmt.Errorf("%w: it has no header", errWrapped)
	}
	if flags := token[2] & (wrapServer | wrapSealed | wrapSubkey); flags != w.flags() {
		return nil, fmt.Errorf("%w: its flags are %#x, want %#x", errWrapped, flags, w.flags())
	}
	if n := binary.BigEndian.Uint64(token[8:]); n != w.number {
		return nil, fmt.Errorf("%w: its number is %d, want %d", errWrapped, n, w.number)
	}
	length, turned, body := int(binary.BigEndian.Uint16(token[4:])), int(binary.BigEndian.Uint16(token[6:])), token[wrapHeader:]
	if length > len(body) || len(body) == 0 {
		return nil, fmt.Errorf("%w: it is cut off", errWrapped)
	}
	turned %= len(body)
	body = append(bytes.Clone(body[turned:]), body[:turned]...) // undo the rotation to the right
	message, sum := body[:len(body)-length], body[len(body)-length:]
	kind, err := crypto.GetEtype(w.key.KeyType)
	if err != nil {
		return nil, err
	}
	if !kind.VerifyChecksum(w.key.KeyValue, w.signed(message), sum, w.usage()) {
		return nil, fmt.Errorf("%w: its checksum is wrong", errWrapped)
	}
	return message, nil
}
