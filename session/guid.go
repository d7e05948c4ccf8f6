package session

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// A protected name is `_c_<uuid>-lock-<number>`, in the form that Curator gives
// it, so that every family of clients reads it as a contender.
const (
	guidMark   = "_c_"
	lockMarker = "-lock-"
)

// newGUID returns a random UUID (version 4) in its canonical form of 36
// characters.
func newGUID() string {
	var b [16]byte
	// Since Go 1.24 Read fills b or ends the process.
	_, _ = rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// bears tells whether the node's name has the GUID.
func bears(node, id string) bool {
	return id != "" && strings.HasPrefix(node, guidMark+id+"-")
}
