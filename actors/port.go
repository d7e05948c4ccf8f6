package actors

import (
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// Port is what one acquisition needs of a session. None of its methods blocks.
//
// The session's [Loop] answers, and tells its news, by calling the post function that the
// port was opened with. None of the port's methods calls post itself, and any goroutine
// may call them. Answers and news of one acquisition come in the order in which the
// session took note of them. Each request is answered exactly once, with its epoch.
// Exception: Watch is not answered as long as it is armed and the node exists. Exception:
// Discard is not answered. A request for an epoch that is over is answered Unknown. A
// Create is answered Canceled if a Cancel follows in time.
type Port interface {
	// Open starts the news. It returns Opened if there is a session; else the epoch is 0,
	// and the news begin with Opened when there is one.
	Open(post Post) recipes.Opened
	// Close ends the news. Requests that were sent are still answered. Of the others only
	// a Delete is still sent.
	Close()

	// Do makes a request: an effect for ZooKeeper, a Pause, or a Revoke with a moment.
	// Pause is answered Paused when the time is over, and Revoke is answered Overdue,
	// with or without a connection. Exception: a closed port does not answer these two.
	Do(request recipes.Effect)

	// Deadline returns until when the session of the epoch can be believed alive without
	// further contact. It is the zero time if the session is over.
	Deadline(recipes.Epoch) time.Time
	// Proven reports two facts: the session of the epoch can be believed alive, and a
	// write sent within two probe intervals was answered.
	Proven(recipes.Epoch) bool
	// Interval returns the time between two probes.
	Interval() time.Duration
}

// Post gives the machine one input. The error explains a Refused. It reports whether the
// machine holds its lock after that. The loop calls it, and never while a method of the
// port runs.
type Post func(in recipes.Input, err error) (holds bool)
