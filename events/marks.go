package events

import (
	"regexp"
	"strconv"
	"strings"
)

// Marks are properties of the owner in the names of this library's nodes. They are the
// bits of one hexadecimal digit, the fourteenth of the GUID with which a name begins. The
// GUID is a UUID of version 8, as its thirteenth digit says; RFC 9562 leaves the other
// bits of that version to the implementation. The GUIDs of Curator and kazoo have version
// 4, and those of go-zookeeper look different.
type Marks uint8

const (
	// MarkRevocable means that the node's owner releases the lock by the deadline of a
	// revocation request.
	MarkRevocable Marks = 1 << iota
	// MarkPermits means that the name has the number of a semaphore's permits that the
	// contender requests; see [PermitsOf].
	MarkPermits
	// MarkCached means that the node stays while no other contender requests the lock.
	// The node may be idle.
	MarkCached
)

// ownGUID is how our names begin: `_c_<uuid>-`, or in kazoo's form the digits of the UUID
// alone.
var ownGUID = regexp.MustCompile(`^(?:` +
	`_c_[0-9a-f]{8}-[0-9a-f]{4}-8([0-9a-f])([0-9a-f]{2})-[89ab][0-9a-f]([0-9a-f]{2})-[0-9a-f]{12}-|` +
	`[0-9a-f]{12}8([0-9a-f])[0-9a-f]{2}[89ab][0-9a-f]{15}__)`)

// MarksOf returns the marks of a node, and whether this library created it. It accepts
// the names and paths of contenders and of a semaphore's permits.
func MarksOf(node string) (marks Marks, ours bool) {
	found := ownGUID.FindStringSubmatch(node[strings.LastIndexByte(node, '/')+1:])
	if found == nil {
		return 0, false
	}
	digit, err := strconv.ParseUint(found[1]+found[4], 16, 4)
	return Marks(digit), err == nil
}

// HasMark reports whether this library created the node, with the mark. It accepts names
// and paths, like [MarksOf].
func HasMark(node string, mark Marks) bool {
	marks, ours := MarksOf(node)
	return ours && marks&mark != 0
}

// PermitsOf returns how many permits of a semaphore a contender requests, or 0 if its
// name does not say. It accepts names and paths, like [MarksOf]. The number has 16 bits:
// the two digits after the [Marks], and the last two of the next group.
func PermitsOf(node string) int {
	found := ownGUID.FindStringSubmatch(node[strings.LastIndexByte(node, '/')+1:])
	if !HasMark(node, MarkPermits) || found[2] == "" { // kazoo has no such semaphore
		return 0
	}
	permits, _ := strconv.ParseUint(found[2]+found[3], 16, 16) // four hexadecimal digits
	return int(permits)
}
