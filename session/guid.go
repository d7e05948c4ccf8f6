package session

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"strings"

	"github.com/zkgrant/zkgrant/events"
)

// guidMark begins a protected name: `_c_<uuid>-<marker of the kind><number>`. That is
// Curator's form, so every family of clients reads it as a contender. Exception: kazoo's
// needs `<32 digits of the uuid><marker><number>`.
const guidMark = "_c_"

// guid is a UUID of version 8, of which the bits are free for the application (RFC 9562).
// Four bits are the marks. In the GUID of a semaphore's contender sixteen are the number
// of permits (see [events.PermitsOf]). The others are random.
type guid [16]byte

func newGUID(marks events.Marks, permits int32) (id guid) {
	// Since Go 1.24 Read fills id or ends the process.
	_, _ = rand.Read(id[:])
	if permits > 0 && permits <= math.MaxUint16 { // a request for more is too large for any server
		marks |= events.MarkPermits
		id[7], id[9] = byte(permits>>8), byte(permits)
	}
	id[6] = 0x80 | byte(marks)&0x0f
	id[8] = id[8]&0x3f | 0x80
	return id
}

// appendHead appends what the names of an attempt's nodes begin with: the GUID in the
// family's own form, and the marker of a kind of contender or, with kind 0, of permits.
func appendHead(b []byte, kind events.Kind, id guid) []byte {
	if kind.Kazoo() {
		return hex.AppendEncode(b, id[:])
	}
	b = append(b, guidMark...)
	from := 0
	for _, to := range [...]int{4, 6, 8, 10, len(id)} { // the canonical form of 36 characters
		b = append(hex.AppendEncode(b, id[from:to]), '-')
		from = to
	}
	return b
}

// head is appendHead for a string.
func head(kind events.Kind, id guid) string {
	var room [64]byte
	return string(appendHead(room[:0], kind, id))
}

// AttemptOf returns the common part of the names of all nodes of one semaphore attempt:
// the GUID with which they begin. It returns any other name unchanged. The name may be a
// path.
func AttemptOf(node string) string {
	name := node[strings.LastIndexByte(node, '/')+1:]
	const length = len(guidMark) + 36
	if len(name) < length || !strings.HasPrefix(name, guidMark) {
		return name
	}
	return name[:length]
}
