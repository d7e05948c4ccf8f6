package events

import (
	"fmt"
	"strconv"
)

// Reason tells why a lock was lost. Its zero value is no reason at all.
type Reason uint8

// The reasons for a loss.
const (
	// ReasonSessionExpired: a server said that the session is over.
	ReasonSessionExpired Reason = iota + 1
	// ReasonLeaseRanOut: nothing has proved the session alive for so long that the
	// ensemble may soon end it. The loss is reported before the ensemble can end it.
	ReasonLeaseRanOut
	// ReasonNodeRemoved: the node was deleted, and not by its owner.
	ReasonNodeRemoved
	// ReasonSuspended: the connection was lost, and the caller had asked to treat that as
	// a loss.
	ReasonSuspended
	// ReasonRevoked: the lock was asked back, and the grace ran out.
	ReasonRevoked
)

// String names the reason in lower case, as in a log line.
func (r Reason) String() string {
	names := [...]string{
		ReasonSessionExpired: "session expired", ReasonLeaseRanOut: "lease ran out", ReasonNodeRemoved: "node removed",
		ReasonSuspended: "connection suspended", ReasonRevoked: "revoked",
	}
	if r > 0 && int(r) < len(names) {
		return names[r]
	}
	return "reason " + strconv.Itoa(int(r))
}

// MarshalText returns String, so that JSON and logs have the text.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText accepts what MarshalText returns.
func (r *Reason) UnmarshalText(text []byte) error {
	for known := range 256 {
		if Reason(known).String() == string(text) {
			*r = Reason(known)
			return nil
		}
	}
	return fmt.Errorf("zkgrant: %.64q is no reason", text)
}
