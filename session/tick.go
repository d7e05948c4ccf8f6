package session

import "time"

// The bounds that servers set to a session timeout, in ticks, unless their configuration names others.
const (
	leastTicks = 2
	mostTicks  = 20
)

// ImpliedTick returns the servers' tickTime that follows from the timeout that they granted: they raise a short one to 2 ticks, and lower a
// long one to 20. It returns 0 if they left the timeout as it was asked for, which implies nothing. It is a hint: a server's
// minSessionTimeout and maxSessionTimeout may set other bounds.
func ImpliedTick(asked, granted time.Duration) time.Duration {
	switch {
	case granted > asked:
		return granted / leastTicks
	case granted < asked:
		return granted / mostTicks
	default:
		return 0
	}
}

// longTick returns the tick that the granted timeout implies if it is longer than the one that was told, and 0 otherwise.
func longTick(asked, granted, told time.Duration) time.Duration {
	if tick := ImpliedTick(asked, granted); tick > told {
		return tick
	}
	return 0
}
