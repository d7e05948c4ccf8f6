package session

import "time"

// opSetWatches is the operation by which the client asks for its watches again.
const opSetWatches int32 = 101

// restoreMax is how long replies on a resumed connection wait for the client to
// ask for its watches. It asks at once, if it has any.
const restoreMax = 20 * time.Millisecond

// firstRequest is how old a new session has to be before requests are made in it.
//
// The client looks for watches to restore then, too, though it can have none: 1. it
// announces the session; 2. a create, a listing and a getData that arms a watch are
// made before it gets to look; 3. it finds the watch, and reads its last zxid while
// replies write it. By then the client has long passed that point.
const firstRequest = 5 * time.Millisecond

// restoration holds back what the server sends on a resumed connection until the
// client has asked for its watches again.
//
// The client reads its last zxid for that request without a lock while replies
// write it: 1. the connection is lost with requests in the client's queue; 2. the
// session is resumed, and the client starts to send its queue; 3. the first reply
// arrives and its zxid is stored; 4. only now the client puts the request for its
// watches together, asks for what has changed after that zxid, and never hears
// of a change of children that came before. Deletions are not lost that way, and
// this package asks for nothing else, but a data race has no defined outcome.
//
// Replies that come before the request are thus read after it. That a client
// without watches never asks costs a reconnect restoreMax once.
type restoration struct {
	asked  chan struct{} // closed by the writer when the request goes out
	closed bool          // writer's
	due    bool          // reader's: the connection resumed a session, and nothing was read since
}

func newRestoration() *restoration { return &restoration{asked: make(chan struct{})} }

// note is told each operation that goes out.
func (r *restoration) note(op int32) {
	if op == opSetWatches && !r.closed {
		r.closed = true
		close(r.asked)
	}
}

// await returns when replies may be handed to the client. It is called when due.
func (r *restoration) await() {
	r.due = false
	timer := time.NewTimer(restoreMax)
	defer timer.Stop()
	select {
	case <-r.asked:
	case <-timer.C:
	}
}
