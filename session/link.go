package session

import (
	"sync"
	"time"
)

// linkEvents is what a link calls. The calls come from the client's goroutines, one at a time for each connection, and
// those of one connection end before the first of the next begins. They must not block and must not call the client.
// Each may be nil.
type linkEvents struct {
	// start runs a function in a goroutine that somebody waits for, or reports that it does not. nil never does.
	start func(func()) bool
	// onAnswered reports an answered request: the time just before its first byte was written, the time its
	// reply was handed to the client, the operation, and the error code in the reply's header (0 if none; a Multi
	// that failed may carry its code further inside). It comes before the client sees the reply. A
	// handshake that granted a session counts as operation opcode.Connect, and is the first of its connection.
	onAnswered func(sent, answered time.Time, op, zkErr int32)
	// onReplaced comes at most once: the session this link had is gone, or the server gave out another one, and
	// the client has been kept from going on with that. The error wraps errSecondSession or errSessionReplaced.
	onReplaced func(err error)
	// onRefused reports a handshake that the server closed without an answer. A server does that when it is behind the client, for
	// ever so if it has lost its data. asked is the session the client wanted to resume, or 0.
	onRefused func(asked int64, err error)
	// onRequest reports each request, when it is answered, behind onAnswered, or when its connection has ended.
	onRequest func(Request)
	// now is the clock for the times of onAnswered; nil means time.Now.
	now func() time.Time
}

// link is what all connections of one client have in common: the one session they carry.
// All methods are safe for concurrent use.
type link struct {
	events  linkEvents
	backlog backlog

	mu       sync.Mutex
	id       int64
	granted  time.Duration
	replaced bool      // onReplaced has been called
	debt     time.Time // since when servers have owed an answer, when a connection was given up for that; zero: none was, or one has answered since
}

// newLink returns a link that has had no session yet. Use one for each client.
func newLink(events linkEvents) *link {
	if events.now == nil {
		events.now = time.Now
	}
	if events.start == nil {
		events.start = func(func()) bool { return false }
	}
	return &link{events: events}
}

// session returns the id of the session, 0 before the first handshake. It stays after the session has ended.
func (l *link) session() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// timeout returns the session timeout as negotiated in the latest handshake, 0 before the first one.
func (l *link) timeout() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted
}

// establish records an answered handshake.
func (l *link) establish(id int64, timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.granted = id, timeout
}

// leaveDebt notes since when an answer was owed on a connection that was given up for that, unless one is owed for longer.
func (l *link) leaveDebt(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.debt.IsZero() {
		l.debt = since
	}
}

// settle forgets the debt: a server has answered a request.
func (l *link) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.debt = time.Time{}
}

// owing returns since when servers have owed an answer on connections that were given up for that, or the zero time.
func (l *link) owing() (since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.debt
}

func (l *link) answered(sent, answered time.Time, op, zkErr int32) {
	if l.events.onAnswered != nil {
		l.events.onAnswered(sent, answered, op, zkErr)
	}
}

func (l *link) refused(asked int64, err error) {
	if l.events.onRefused != nil {
		l.events.onRefused(asked, err)
	}
}

func (l *link) replace(err error) {
	l.mu.Lock()
	first := !l.replaced
	l.replaced = true
	l.mu.Unlock()
	if first && l.events.onReplaced != nil {
		l.events.onReplaced(err)
	}
}
