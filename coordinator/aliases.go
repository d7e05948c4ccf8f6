package coordinator

import "github.com/zkgrant/zkgrant/events"

// Messages of package events, so that most programs need one import.
type (
	Event     = events.Event     // any message of [Coordinator.Events]
	Grant     = events.Grant     // the lock is held
	Lost      = events.Lost      // a held lock was lost
	Revoked   = events.Revoked   // a request to give a [Revocable] lock back
	Contended = events.Contended // a contender that a hold keeps out
	Ended     = events.Ended     // an acquisition is over
	Contender = events.Contender // a holder or a waiter
	Leader    = events.Leader    // what [Election.Observe] delivers
)
