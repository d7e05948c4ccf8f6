package session

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"strings"

	"github.com/zkgrant/zkgrant/events"
)

// guidMark begins a protected name: `_c_<uuid>-<marker of the kind><number>`, in the form
// that Curator gives it, so that every family of clients reads it as a contender but for kazoo's, which
// wants `<32 digits of the uuid><marker><number>`.
const guidMark = "_c_"

// guid is a UUID of version 8, whose bits mean what whoever makes it wants (RFC 9562): four are the marks, of a semaphore's contender
// sixteen are the number of permits (see [events.PermitsOf]), the others are random.
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

// String returns the canonical form of 36 characters.
func (id guid) String() string {
	h := hex.EncodeToString(id[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// head returns what the names of an attempt's nodes begin with, of a kind of contender or,
// with kind 0, of permits: the GUID in the family's own form.
func head(kind events.Kind, id string) string {
	if kind.Kazoo() {
		return strings.ReplaceAll(id, "-", "")
	}
	return guidMark + id + "-"
}

// AttemptOf returns what the names of all nodes of one attempt of a semaphore have in common, the GUID with which
// they begin; of a name that does not begin like that, the name itself. A path will do for a name.
func AttemptOf(node string) string {
	name := node[strings.LastIndexByte(node, '/')+1:]
	const length = len(guidMark) + 36
	if len(name) < length || !strings.HasPrefix(name, guidMark) {
		return name
	}
	return name[:length]
}
