package events

import "strconv"

// Reason tells why a lock was lost. Its zero value is no reason at all.
type Reason uint8

// The reasons for a loss.
const (
	// ReasonSessionExpired: a server said that the session is over.
	ReasonSessionExpired Reason = iota + 1
	// ReasonLeaseRanOut: for so long nothing proved the session alive that the
	// ensemble may soon end it. It is reported before the ensemble can.
	ReasonLeaseRanOut
	// ReasonNodeRemoved: somebody else deleted the node.
	ReasonNodeRemoved
	// ReasonSuspended: the connection was lost, and the caller had asked to
	// take that for a loss.
	ReasonSuspended
	// ReasonRevoked: somebody asked for the lock, and the grace ran out.
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
