package actors

import (
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// Port is what one acquisition needs of a session. None of its methods blocks.
//
// The session answers, and tells its news, by calling the post function that it
// was opened with, from any goroutine; answers and news of one acquisition come
// in the order in which the session took note of them. Each request is answered
// exactly once with its epoch, except Watch, of which nothing is heard as long as
// it is armed and the node exists, and Discard, which is not answered. A request for an epoch that is
// over is answered Unknown. A Create behind which a Cancel comes in time is answered Canceled.
type Port interface {
	// Open starts the news, and returns Opened if there is a session that has a connection; its epoch is 0 if not. Then the news begin with
	// Opened when there is a session, and with Suspended behind that if it has no connection at the moment.
	Open(post Post) recipes.Opened
	// Close ends the news. Answers still come, but for those to what is not sent by then: only a Delete still is.
	Close()

	// Do makes a request, one of the effects that are for ZooKeeper, a Pause, or a Revoke with a moment. Pause is answered Paused when the
	// time is over, and Revoke Overdue, unless the port is closed before; with or without a connection.
	Do(request recipes.Effect)

	// Deadline returns until when the session of the epoch can be believed
	// alive without further contact; the zero time if it is over.
	Deadline(recipes.Epoch) time.Time
}

// Post takes one input for the machine. The error explains a Refused.
type Post func(in recipes.Input, err error)
