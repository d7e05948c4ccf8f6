package wire

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// Events are the functions that a link calls. They are called from the client's
// goroutines, one at a time per connection, and the calls for one connection end before
// those for the next begin. They must not block, and must not call the client. Each may
// be nil.
type Events struct {
	// Start runs a function in a goroutine that the user of the link waits for, or
	// returns false. If nil, no function is run.
	Start func(func()) bool
	// OnAnswered reports an answered request before the client sees the reply. A
	// handshake that granted a session counts as operation opcode.Connect, and is the
	// first of its connection.
	OnAnswered func(Answer)
	// OnFailed reports why a connection failed or ended. The error wraps [ErrReplaced],
	// [ErrRefused] or [ErrDenied] if they apply.
	OnFailed func(err error)
	// OnUnresolved reports a name that could not be resolved. Its earlier addresses are
	// dialed.
	OnUnresolved func(server string, err error)
	// OnRequest reports each request once: after OnAnswered, or when its connection has
	// ended.
	OnRequest func(Request)
	// Now is the clock for the times of OnAnswered; nil means time.Now.
	Now func() time.Time
}

// Answer is an answered request. A failed transaction may have its code in the body, and
// none here.
type Answer struct {
	Sent      time.Time // just before its first byte was written
	Answered  time.Time // when its reply was handed to the client
	Op        int32
	Err       int32
	Zxid      int64         // in the reply
	Container string        // of a request for a container: its path
	Timeout   time.Duration // of a handshake: what the server granted
	Restored  bool          // of a request for watches: the server has all that the client had
	More      bool          // of a request for watches: another one may follow
	Refused   bool          // of a request for watches: the first that this connection refuses
}

// Request reports the outcome of a request, for the hooks of a program.
type Request struct {
	Op       string // the protocol's name
	Server   string // host:port
	Bytes    int    // of the request and its answer
	Duration time.Duration
	Err      error // nil if it was executed
}

// errTransaction is the hooks' error for a refused transaction.
var errTransaction = errors.New("zkgrant: transaction refused")

// opError is the operation in the first result of a refused transaction.
const opError int32 = -1

// Link is what all connections of one client have in common: the session that they carry.
// All methods are safe for concurrent use.
type Link struct {
	Events Events

	mu      sync.Mutex
	id      int64
	timeout time.Duration
	debt    time.Time // see Owing
	waiting int       // requests for watches that may be in the client's queue
	longest int       // the length of the longest path that was read
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

// Session returns the session ID, or 0 before the first handshake. The ID remains after
// the session has ended.
func (l *Link) Session() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// Timeout returns the session timeout negotiated in the latest handshake, or, before the
// first one, the requested timeout.
func (l *Link) Timeout() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.timeout
}

// Creation is an awaited create.
type Creation struct {
	// Sent is closed when the request is sent. Requests passed to the client after that
	// are sent later.
	Sent chan struct{}

	path   string
	behind *Creation // see Await
	on     *wire     // the connection on which it was sent; the link's mutex guards it
	zxid   atomic.Int64
}

// Zxid returns the zxid that created the node, or 0 before a server has reported that.
func (x *Creation) Zxid() int64 { return x.zxid.Load() }

// apart reports whether it is sent on another connection than the create that it follows.
func (x *Creation) apart() bool {
	return x != nil && x.behind != nil && x.behind.on != nil && x.behind.on != x.on
}

// Await tracks the next create of the path that is sent, until Forget is called. If
// behind is not nil, the create is sent only on the connection on which behind was sent.
// On a later connection, where the client sends what was still in its queue, a read is
// sent instead, and the client receives the answer that the node does not exist. The
// connection is kept, because there may be a hundred such creates.
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

// Forget stops tracking creates. Another caller may be tracking the same path.
func (l *Link) Forget(creations ...*Creation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range creations {
		if l.awaited[x.path] == x {
			delete(l.awaited, x.path)
		}
	}
}

// noteCreate notes that a create of the path is sent. It returns nil if no caller awaits
// it.
func (l *Link) noteCreate(path []byte, on *wire) *Creation {
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

// noteRead notes that a path is read. The read may arm a watch.
func (l *Link) noteRead(path []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest = max(l.longest, len(path))
}

// establish notes an answered handshake.
func (l *Link) establish(id int64, timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.timeout = id, timeout
}

// Owing returns since when servers have owed an answer on connections that were given up
// for that reason, or the zero time if there were none or settle was called since.
func (l *Link) Owing() (since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.debt
}

// leaveDebt notes since when an answer was owed on a connection that was given up for
// that reason, unless one has been owed for longer.
func (l *Link) leaveDebt(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.debt.IsZero() {
		l.debt = since
	}
}

// settle forgets the debt: a server has answered a request, or a ping while no request
// waited.
func (l *Link) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.debt = time.Time{}
}

// The rest of the file holds back what the server sends on a resumed connection until the
// client has requested its watches again. For that request, the client reads its last
// zxid without a lock while replies write it:
//
//  1. The connection is lost with requests in the client's queue.
//  2. The session is resumed, and the client starts to send its queue.
//  3. The first reply arrives and its zxid is stored.
//  4. Only now does the client build the request for its watches, and asks for changes
//     after that zxid. It never learns of an earlier change of children.
//
// Deletions are not lost that way, and the session relies on nothing else, but a data
// race has no defined outcome. So replies that come before the request are read after it.
// A client without watches never sends the request; that costs a reconnect restoreMax
// once.
//
// The request can outlive its connection:
//
//  1. The session is resumed, and a goroutine of the client queues the request.
//  2. The connection is lost before the request is dequeued.
//  3. The next connection resumes the session, and the request is sent.
//  4. Its answer arrives, and its zxid is stored, while the client builds the request for
//     this connection.
//
// After a few quick losses, several may be waiting. So all those that may be waiting must
// be sent before one is certainly this connection's. The link counts them. Its count is
// too high if a request was dropped, or if there were no watches. Then replies wait for
// restoreMax, by which time the queue is empty.

const (
	// restoreMax is how long replies on a resumed connection wait for the client to
	// request its watches. It does so at once, if it has any.
	restoreMax = 20 * time.Millisecond
	// watchesMax is the maximum length of a request for watches of several paths. If the
	// paths do not fit into one, the client sends several, each when the previous one was
	// answered. It begins another one only for a path that does not fit.
	watchesMax = 128 << 10
	// partMax is the maximum length of a part of such a request, unless a path is longer.
	partMax = largeRequest
	// firstPart is the xid of a connection's first part. Each further one is lower by 1.
	firstPart int32 = -8
	// FirstRequest is how old a new session must be before requests are sent in it.
	//
	// The client also looks for watches to restore in a new session, although it cannot
	// have any. Without the wait:
	//
	//  1. The client announces the session.
	//  2. A create, a listing and a getData that arms a watch are made before the client
	//     looks.
	//  3. The client finds the watch, and reads its last zxid while replies write it.
	//
	// With the wait the client has long passed that point.
	FirstRequest = 5 * time.Millisecond
)

// noteResumed is called by the reader when a handshake has resumed the session, before
// the client sees that.
func (w *wire) noteResumed() {
	w.link.mu.Lock()
	defer w.link.mu.Unlock()
	w.link.waiting++
	w.missing, w.resumed = w.link.waiting, true
}

// noteWatchesAsked notes that a request for watches is sent.
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

// watchesInParts returns the frames of a long request for watches, and the length of the
// last one. A server with a small jute.maxbuffer would hang up on a single frame, and
// again after each reconnect. The last part has the xid of the request. The others have
// negative xids, and the client ignores their answers. It is called with mu held.
func (w *wire) watchesInParts(xid int32, body []byte, now time.Time) (frames []byte, last int) {
	parts := partsOf(body)
	for i, part := range parts {
		id := xid
		if last = minRequest + len(part); i < len(parts)-1 {
			id = firstPart - w.parts
			w.parts++
			w.pending[id] = sent{at: now, op: opcode.SetWatches, length: last}
			w.order = append(w.order, id)
		}
		for _, n := range []int32{int32(last), id, opcode.SetWatches} {
			frames = binary.BigEndian.AppendUint32(frames, uint32(n))
		}
		frames = append(frames, part...)
	}
	return frames, last
}

// partsOf splits the body of a request for watches: a zxid, and a list of paths for each
// of the three kinds of watches.
func partsOf(body []byte) (parts [][]byte) {
	const lists, begin = 3, minRequest + 8
	var paths [lists][]byte
	var counts [lists]uint32
	size := begin + lists*lengthSize
	flush := func() {
		part := slices.Clone(body[minRequest:begin])
		for i := range paths {
			part = append(binary.BigEndian.AppendUint32(part, counts[i]), paths[i]...)
		}
		parts = append(parts, part)
		paths, counts, size = [lists][]byte{}, [lists]uint32{}, begin+lists*lengthSize
	}
	r := rest(body[begin:])
	for i := range paths {
		for n := r.int32(); n > 0 && len(r) > 0; n-- {
			path := r
			r.text()
			path = path[:len(path)-len(r)]
			if counts != [lists]uint32{} && size+len(path) > partMax {
				flush()
			}
			paths[i], size = append(paths[i], path...), size+len(path)
			counts[i]++
		}
	}
	flush()
	return parts
}

// noteWatchesAnswered notes the answer a to such a request or to a part of it, before the
// client gets it. More means that another answer may follow: this one is to a part before
// the last, or the longest path would not have fit in. Restored means that the server now
// has all watches that the client had when the connection began: this connection's own
// request was executed, none was refused, and no other such request is in progress or may
// be in the client's queue.
func (w *wire) noteWatchesAnswered(s sent, a *Answer) {
	w.link.mu.Lock()
	defer w.link.mu.Unlock()
	a.Refused = a.Err != zkerr.CodeNone && !w.refused
	w.refused = w.refused || a.Refused
	if s.watches == 0 {
		a.More = true
		return
	}
	w.asking--
	switch {
	case a.Err != zkerr.CodeNone: // the client gives up
	case s.watches+lengthSize+w.link.longest > watchesMax:
		w.link.waiting++
		a.More = true
	}
	a.Restored = !w.refused && w.missing+w.asking+w.link.waiting == 0
}

// awaitWatches waits until replies may be passed to the client.
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

// Complained is called by each goroutine of the client that logs something. The goroutine
// that cannot request the watches because the client is being closed logs that; nothing
// else shows that it has read the last zxid. Taking the mutex orders that read before the
// next answer.
func (l *Link) Complained() {
	l.mu.Lock()
	defer l.mu.Unlock()
}
