package wire

import (
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

// restoreMax is how long replies on a resumed connection wait for the client to ask for its watches. It
// asks at once, if it has any.
const restoreMax = 20 * time.Millisecond

// FirstRequest is how old a new session has to be before requests are made in it.
//
// The client looks for watches to restore then, too, though it can have none. Without the wait:
//
//  1. It announces the session.
//  2. A create, a listing and a getData that arms a watch are made before it gets to look.
//  3. It finds the watch, and reads its last zxid while replies write it.
//
// With the wait the client has long passed that point.
const FirstRequest = 5 * time.Millisecond

// longRequest is the length from which on a request for watches may not be the last. If the paths do not
// fit into 128 KiB the client makes several requests, each when the one before is answered. Those before
// the last are as long as the next path allows.
const longRequest = 64 << 10

// restoration holds back what the server sends on a resumed connection until the client has asked for its
// watches again.
//
// The client reads its last zxid for that request without a lock while replies write it:
//
//  1. The connection is lost with requests in the client's queue.
//  2. The session is resumed, and the client starts to send its queue.
//  3. The first reply arrives and its zxid is stored.
//  4. Only now the client puts the request for its watches together, and asks for what has changed after
//     that zxid. It never hears of a change of children that came before.
//
// Deletions are not lost that way, and the session relies on nothing else, but a data race has no defined
// outcome.
//
// Replies that come before the request are thus read after it. A client without watches never asks; that
// costs a reconnect restoreMax once. The backlog decides which request is the one of this connection.
type restoration struct {
	backlog *backlog
	asked   chan struct{} // closed by the writer when the request goes out
	missing int           // requests until then; guarded by the backlog's mutex
	due     bool          // reader's: the connection resumed a session, and nothing was read since
}

// backlog counts the requests for watches that may still wait in the client's queue, for all connections of
// one client.
//
// Such a request can outlive its connection:
//
//  1. The session is resumed, and a goroutine of the client puts the request into the queue.
//  2. The connection is lost before the request is taken out.
//  3. The next connection resumes the session, and sends it.
//  4. Its answer arrives, and its zxid is stored, while the client puts together the request of this
//     connection.
//
// After some quick losses several may wait. So as many have to go out as may be waiting before one is this
// connection's for certain.
//
// It counts too many if a request was dropped, or if there were no watches to ask for. Then replies wait
// for restoreMax, by which time the queue is empty.
type backlog struct {
	mu      sync.Mutex
	waiting int
}

// Complained is called by each goroutine of the client that logs something. A goroutine that could not ask
// for the watches because the client is being closed logs that. It is the only sign that the last zxid has
// been read: this orders that before the next answer.
func (b *backlog) Complained() {
	b.mu.Lock()
	defer b.mu.Unlock()
}

func newRestoration(b *backlog) *restoration {
	return &restoration{backlog: b, asked: make(chan struct{})}
}

// begin is called by the reader, when the handshake has resumed the session, and before the client hears of
// that.
func (r *restoration) begin() {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	r.backlog.waiting++
	r.missing = r.backlog.waiting
	r.due = true
}

// note takes each operation that goes out.
func (r *restoration) note(op int32) {
	if op != opcode.SetWatches {
		return
	}
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	r.backlog.waiting = max(0, r.backlog.waiting-1)
	if r.missing > 0 {
		if r.missing--; r.missing == 0 {
			close(r.asked)
		}
	}
}

// answered takes each answer before the client gets it.
func (r *restoration) answered(s sent) {
	if s.op != opcode.SetWatches || s.length < longRequest {
		return
	}
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	r.backlog.waiting++
}

// await returns when replies may be handed to the client. It is called when due.
func (r *restoration) await() {
	r.due = false
	timer := time.NewTimer(restoreMax)
	defer timer.Stop()
	select {
	case <-r.asked:
	case <-timer.C:
		r.backlog.mu.Lock()
		defer r.backlog.mu.Unlock()
		r.backlog.waiting = 0
	}
}
