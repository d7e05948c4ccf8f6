package events

import (
	"fmt"
	"strconv"
)

// Reason is the reason why a lock was lost. Its zero value is not a reason.
type Reason uint8

// The reasons for a loss.
const (
	// ReasonSessionExpired: a server reported that the session is over.
	ReasonSessionExpired Reason = iota + 1
	// ReasonLeaseRanOut: nothing has proved the session alive for so long that the
	// ensemble may soon end it. The loss is reported before the ensemble can do so.
	ReasonLeaseRanOut
	// ReasonNodeRemoved: another client deleted the node.
	ReasonNodeRemoved
	// ReasonSuspended: the connection was lost, and the caller had chosen to treat that
	// as a loss.
	ReasonSuspended
	// ReasonRevoked: the lock was revoked, and its grace ran out.
	ReasonRevoked
)

// String returns the reason in lower case, as in a log line.
func (r Reason) String() string {
	names := [...]string{
		ReasonSessionExpired: "session expired", ReasonLeaseRanOut: "lease ran out",
		ReasonNodeRemoved: "node removed", ReasonSuspended: "connection suspended",
		ReasonRevoked: "revoked",
	}
	if r > 0 && int(r) < len(names) {
		return names[r]
	}
	return "reason " + strconv.Itoa(int(r))
}

// MarshalText returns String, so JSON and logs contain the text.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText accepts what MarshalText returns.
func (r *Reason) UnmarshalText(text []byte) error {
	for known := range 256 {
		if Reason(known).String() == string(text) {
			*r = Reason(known)
			return nil
		}
	}
	return fmt.Errorf("zkgrant: %.64q is not a reason", text)
}
