package actors

import (
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// Port is what one acquisition needs from a session. None of its methods blocks.
//
// The session's [Loop] sends answers and news by calling the post function that the port
// was opened with. No method of the port calls post itself. The loop calls Open, Close
// and Do; any goroutine may call the others. Answers and news of one acquisition come in
// the order in which the session noted them. Each request is answered exactly once, with
// its epoch, but a Watch is not answered while it is armed and the node exists, and a
// Discard never. A request for an epoch that is over is answered Unknown. A Create is
// answered Canceled if a Cancel follows in time.
type Port interface {
	// Open starts the news. It returns Opened if there is a session. Otherwise the epoch
	// is 0, and the news begin with Opened when there is one.
	Open(post Post) recipes.Opened
	// Close ends the news. Sent requests are still answered. Of the others, only a Delete
	// is still sent.
	Close()

	// Do makes a request: an effect for ZooKeeper, a Pause, or a Revoke with a moment.
	// Pause is answered Paused when the time is over, and Revoke is answered Overdue,
	// with or without a connection, except by a closed port.
	Do(request recipes.Effect)

	// Deadline returns until when the session of the epoch counts as alive without
	// further contact. It is the zero time if the session is over.
	Deadline(recipes.Epoch) time.Time
	// Proven reports two facts: the session of the epoch counts as alive, and a write
	// sent within two probe intervals was answered.
	Proven(recipes.Epoch) (alive, recent bool)
	// Interval returns the time between two probes.
	Interval() time.Duration
}

// Post gives the machine one input. The error explains a Refused. It returns whether the
// machine holds its lock after that. The loop calls it, and never while a method of the
// port runs.
type Post func(in recipes.Input, err error) (holds bool)

// origin is the zero of moments.
//
//nolint:gochecknoglobals // never written
var origin = time.Now()

// MomentOf converts a time to the form that machines use. It is never 0.
func MomentOf(t time.Time) recipes.Moment {
	if m := recipes.Moment(t.Sub(origin)); m != 0 {
		return m
	}
	return 1
}

// TimeOf is the inverse of MomentOf.
func TimeOf(m recipes.Moment) time.Time {
	now := time.Now()
	return now.Add(time.Duration(m - MomentOf(now)))
}

// isDue reports whether a wish has a deadline, and that has come. There may be no wish.
func isDue(wish *recipes.Revoke, now time.Time) bool {
	return wish != nil && wish.By != 0 && !now.Before(TimeOf(wish.By))
}
