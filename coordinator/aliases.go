package coordinator

import "github.com/zkgrant/zkgrant/events"

// These are messages of package events, which has their fields.
type (
	// Event is any message of [Coordinator.Events].
	Event = events.Event
	// Grant reports that the lock is held.
	Grant = events.Grant
	// Lost reports that a held lock was lost.
	Lost = events.Lost
	// Revoked reports a request to release a [Revocable] lock.
	Revoked = events.Revoked
	// Contended reports a contender that a holder keeps out.
	Contended = events.Contended
	// Ended reports the end of an acquisition.
	Ended = events.Ended
	// Contender is a holder or a waiter.
	Contender = events.Contender
	// Leader is what [Election.Observe] delivers.
	Leader = events.Leader
)
