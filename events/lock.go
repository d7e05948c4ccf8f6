package events

import (
	"fmt"
	"strconv"
	"time"
)

// LockInfo describes the lock at a path, as it was when the servers were read.
type LockInfo struct {
	Path       string
	Kind       LockKind
	Size       int         // permits of a semaphore; 0 if its size node is missing or invalid
	Contenders []Contender // holders and waiters, in the order of Queue
	Seen       time.Time   // when it was read
}

// LockKind is the kind of lock at a path, as its nodes show it.
type LockKind uint8

// The kinds of lock that a read of the servers can find.
const (
	LockMutex     LockKind = iota + 1 // a mutex or an election: their nodes are the same
	LockReadWrite                     // a contender has the name of a reader or a writer
	LockSemaphore                     // a size, or held permits
	LockUnfair                        // one ephemeral node, which may also be no lock
	LockUnknown                       // an unreadable path, or nodes of no session that block the lock
)

// String returns the name of the kind in lower case.
func (k LockKind) String() string {
	names := [...]string{
		LockMutex: "mutex", LockReadWrite: "readwrite", LockSemaphore: "semaphore", LockUnfair: "unfair",
		LockUnknown: "unknown",
	}
	if k > 0 && int(k) < len(names) {
		return names[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// HeldError names the holder of an unfair lock that coordinator.Try found held.
type HeldError struct {
	Path string
	// Holder held the lock when it was read, and may be gone by now.
	Holder Contender
}

// Error implements error.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%s has been held by session 0x%x since %s", e.Path, uint64(e.Holder.Session),
		e.Holder.Since.Format(time.RFC3339))
}
