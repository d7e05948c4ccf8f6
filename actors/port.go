package actors

import (
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// Port is what one acquisition needs from a session. None of its methods blocks.
//
// The session's [Loop] delivers answers and news by calling the post function passed to
// Open. No method of the port calls post itself. Only the loop calls Open, Close and Do;
// any goroutine may call the other methods. An acquisition receives answers and news in
// the order in which the session noted them. Each request is answered exactly once, with
// its epoch, except that a Watch is not answered while it is armed and the node exists,
// and a Discard, a Cancel, a Warm and a Rest never are. A request for an epoch that is
// over is answered with Unknown, and a Create that is canceled in time with Canceled.
type Port interface {
	// Open subscribes to the session's news. It returns Opened if there is a session.
	// Otherwise the returned epoch is 0, and Opened is the first news once there is a
	// session.
	Open(post Post) recipes.Opened
	// Close ends the news. Requests already sent are still answered. Of those not sent
	// yet, only a Delete is still sent.
	Close()

	// Do makes a request: one of the requests in recipes/effect.go, or a Revoke with a
	// deadline. When its time has passed, a Pause is answered with Paused and a Revoke
	// with Overdue, with or without a connection, unless the port is closed.
	Do(request recipes.Effect)

	// Deadline returns the time until which the session of the epoch counts as alive
	// without further contact, or the zero time if the session is over.
	Deadline(recipes.Epoch) time.Time
	// Proven reports whether the session of the epoch counts as alive, and whether it has
	// an answer to a write that was sent less than two probe intervals ago.
	Proven(recipes.Epoch) (alive, recent bool)
	// Interval returns the time between two probes.
	Interval() time.Duration
}

// Post passes one input to the machine, and reports whether the machine then holds its
// lock. The error explains a Refused. Only the loop calls it, and never while a method of
// the port is running.
type Post func(in recipes.Input, err error) (holds bool)

// origin is the time that a Moment counts from.
//
//nolint:gochecknoglobals // never written
var origin = time.Now()

// MomentOf converts a time to the form that machines use. The time is by the session's
// clock, which keeps running while the computer is suspended. The result is never 0.
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
