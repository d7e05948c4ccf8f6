package wire

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// Events are the calls that a link makes. They come from the client's goroutines, one at
// a time for each connection, and the calls of one connection end before the first of the
// next begins. They must not block and must not call the client. Each may be nil.
type Events struct {
	// Start runs a function in a goroutine that the caller's side waits for, or reports
	// that it does not run it. nil never runs one.
	Start func(func()) bool
	// OnAnswered reports an answered request before the client sees the reply. A
	// handshake that granted a session counts as operation opcode.Connect, and is the
	// first of its connection.
	OnAnswered func(Answer)
	// OnFailed reports why a connection could not be made, or has ended. [ErrReplaced],
	// [ErrRefused] and [ErrDenied] are found in the error if they apply.
	OnFailed func(err error)
	// OnUnresolved reports a name that could not be resolved. Its earlier addresses are
	// dialled.
	OnUnresolved func(server string, err error)
	// OnRequest reports each request, when it is answered, after OnAnswered, or when its
	// connection has ended.
	OnRequest func(Request)
	// Now is the clock for the times of OnAnswered; nil means time.Now.
	Now func() time.Time
}

// Answer is an answered request. A transaction that failed may carry its code further
// inside, and no error here.
type Answer struct {
	Sent      time.Time // just before its first byte was written
	Answered  time.Time // when its reply was handed to the client
	Op        int32
	Err       int32
	Zxid      int64         // in the reply
	Container string        // of a request for a container: its path
	Timeout   time.Duration // of a handshake: what the server granted
	Restored  bool          // of a request for watches: the server has all that the client had
}

// Request reports the outcome of a request, for the hooks of a program.
type Request struct {
	Op       string // as the protocol has it
	Server   string // host:port
	Bytes    int    // of the request, and of the answer if there is one
	Duration time.Duration
	Err      error // nil if it was executed
}

// errTransaction is a hook's error for a transaction that was refused.
var errTransaction = errors.New("zkgrant: transaction refused")

// opError is the operation of the first result of a transaction that was refused.
const opError int32 = -1

// Link is what all connections of one client have in common: the one session they carry.
// All methods are safe for concurrent use.
type Link struct {
	Events Events

	mu      sync.Mutex
	id      int64
	timeout time.Duration
	debt    time.Time // see Owing
	waiting int       // requests for watches that may be in the client's queue
	awaited map[string]*Creation
}

// NewLink returns a link that has had no session yet. Use one for each client.
func NewLink(events Events) *Link {
	if events.Now == nil {
		events.Now = time.Now
	}
	if events.Start == nil {
		events.Start = func(func()) bool { return false }
	}
	if events.OnAnswered == nil {
		events.OnAnswered = func(Answer) {}
	}
	if events.OnFailed == nil {
		events.OnFailed = func(error) {}
	}
	if events.OnUnresolved == nil {
		events.OnUnresolved = func(string, error) {}
	}
	return &Link{Events: events}
}

// Session returns the id of the session, 0 before the first handshake. It stays after the
// session has ended.
func (l *Link) Session() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// Timeout returns the session timeout as negotiated in the latest handshake, and before
// the first one what the client asks for.
func (l *Link) Timeout() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.timeout
}

// Creation is a create that is awaited.
type Creation struct {
	// Sent is closed when the request is sent. What the client is given after that is
	// sent later.
	Sent chan struct{}

	path   string
	behind *Creation // see Await
	on     *wire     // on which it was sent; the link's mutex guards it
	zxid   atomic.Int64
}

// Zxid returns the zxid that has created the node, or 0 before a server has answered so.
func (x *Creation) Zxid() int64 { return x.zxid.Load() }

// apart reports whether it is sent on another connection than the one that it belongs to.
func (x *Creation) apart() bool {
	return x != nil && x.behind != nil && x.behind.on != nil && x.behind.on != x.on
}

// Await waits for the next create of the path to be sent, until Forget. If it is sent
// behind another one, it is sent on the same connection. On a later one, where the client
// sends what it had in its queue when the connection before ended, a read takes its
// place, and the client gets the answer that there is no such node. The connection
// remains: there may be a hundred of these creates.
func (l *Link) Await(path string, behind *Creation) *Creation {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.awaited == nil {
		l.awaited = map[string]*Creation{}
	}
	x := &Creation{Sent: make(chan struct{}), path: path, behind: behind}
	l.awaited[path] = x
	return x
}

// Forget ends the wait for creates to be sent. Somebody else may wait for the same path.
func (l *Link) Forget(creations ...*Creation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range creations {
		if l.awaited[x.path] == x {
			delete(l.awaited, x.path)
		}
	}
}

// sends notes that a create of the path is sent. It returns nil if that is not awaited.
func (l *Link) sends(path []byte, on *wire) *Creation {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.awaited[string(path)]
	if x != nil {
		delete(l.awaited, string(path))
		x.on = on
		close(x.Sent)
	}
	return x
}

// establish notes an answered handshake.
func (l *Link) establish(id int64, timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.timeout = id, timeout
}

// Owing returns since when servers have owed an answer on connections that were given up
// for that. It returns the zero time if there was none, or a server has answered since.
func (l *Link) Owing() (since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.debt
}

// leaveDebt notes since when an answer was owed on a connection that was given up for
// that, unless an answer is owed for longer.
func (l *Link) leaveDebt(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.debt.IsZero() {
		l.debt = since
	}
}

// settle forgets the debt: a server has answered a request.
func (l *Link) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.debt = time.Time{}
}

// What follows holds back what the server sends on a resumed connection until the client
// has asked for its watches again. The client reads its last zxid for that request
// without a lock while replies write it:
//
//  1. The connection is lost with requests in the client's queue.
//  2. The session is resumed, and the client starts to send its queue.
//  3. The first reply arrives and its zxid is stored.
//  4. Only now the client puts the request for its watches together, and asks for what
//     has changed after that zxid. It never learns of a change of children that came
//     before.
//
// Deletions are not lost that way, and the session relies on nothing else, but a data
// race has no defined outcome. So replies that come before the request are read after it.
// A client without watches never asks; that costs a reconnect restoreMax once.
//
// The request can outlive its connection:
//
//  1. The session is resumed, and a goroutine of the client puts the request into the
//     queue.
//  2. The connection is lost before the request is taken out.
//  3. The next connection resumes the session, and sends it.
//  4. Its answer arrives, and its zxid is stored, while the client puts together the
//     request of this connection.
//
// After some quick losses several may wait. So as many have to go out as may be waiting
// before one is this connection's for certain. The link counts them. It counts too many
// if a request was dropped, or if there were no watches to ask for. Then replies wait for
// restoreMax, by which time the queue is empty.

const (
	// restoreMax is how long replies on a resumed connection wait for the client to ask
	// for its watches. It asks at once, if it has any.
	restoreMax = 20 * time.Millisecond
	// longRequest is the length from which on a request for watches may not be the last.
	// If the paths do not fit into 128 KiB the client makes several requests, each when
	// the one before is answered. Those before the last are as long as the next path
	// allows.
	longRequest = 64 << 10
	// FirstRequest is how old a new session has to be before requests are made in it.
	//
	// The client looks for watches to restore then, too, though it can have none. Without
	// the wait:
	//
	//  1. It announces the session.
	//  2. A create, a listing and a getData that arms a watch are made before it gets to
	//     look.
	//  3. It finds the watch, and reads its last zxid while replies write it.
	//
	// With the wait the client has long passed that point.
	FirstRequest = 5 * time.Millisecond
)

// noteResumed is called by the reader when the handshake has resumed the session, before
// the client learns of that.
func (w *wire) noteResumed() {
	w.link.mu.Lock()
	defer w.link.mu.Unlock()
	w.link.waiting++
	w.missing, w.resumed = w.link.waiting, true
}

// noteWatchesAsked notes that a request for watches goes out.
func (w *wire) noteWatchesAsked() {
	w.link.mu.Lock()
	defer w.link.mu.Unlock()
	w.asking++
	w.link.waiting = max(0, w.link.waiting-1)
	if w.missing > 0 {
		if w.missing--; w.missing == 0 {
			close(w.watchesAsked)
		}
	}
}

// noteWatchesAnswered notes the answer to one, before the client gets it. It reports
// whether the server now has all watches that the client had when the connection began:
// this connection's own request is answered, and no other one is in progress or may be in
// the client's queue.
func (w *wire) noteWatchesAnswered(s sent, code int32) (restored bool) {
	w.link.mu.Lock()
	defer w.link.mu.Unlock()
	w.asking--
	if s.length >= longRequest {
		w.link.waiting++
	}
	return code == zkerr.CodeNone && w.missing+w.asking+w.link.waiting == 0
}

// awaitWatches returns when replies may be handed to the client.
func (w *wire) awaitWatches() {
	w.resumed = false
	timer := time.NewTimer(restoreMax)
	defer timer.Stop()
	select {
	case <-w.watchesAsked:
	case <-timer.C:
		w.link.mu.Lock()
		defer w.link.mu.Unlock()
		w.link.waiting = 0
	}
}

// Complained is called by each goroutine of the client that logs something. A goroutine
// that could not ask for the watches because the client is being closed logs that. It is
// the only sign that the last zxid has been read: this orders that before the next
// answer.
func (l *Link) Complained() {
	l.mu.Lock()
	defer l.mu.Unlock()
}
