package wire

import (
	"sync"
	"time"
)

// Events are the calls that a link makes. They come from the client's goroutines, one at a time for each connection, and the calls of one
// connection end before the first of the next begins. They must not block and must not call the client. Each may be nil.
type Events struct {
	// Start runs a function in a goroutine that the caller's side waits for, or reports that it does not run it. nil never runs one.
	Start func(func()) bool
	// OnAnswered reports an answered request: the time just before its first byte was written, the time its reply was handed to the client,
	// the operation, and the error code in the reply's header (0 if none; a Multi that failed may carry its code further inside). It comes
	// before the client sees the reply. A handshake that granted a session counts as operation opcode.Connect, and is the first of its
	// connection.
	OnAnswered func(sent, answered time.Time, op, zkErr int32)
	// OnContainer reports a container that a server has made for a request of this client, and the zxid that created it. It comes before
	// the client sees the reply.
	OnContainer func(path string, czxid int64)
	// OnReplaced comes at most once: the session of this link is gone, or the server gave out another one, and the client has been kept
	// from going on with that. The error wraps errSecondSession or errSessionReplaced.
	OnReplaced func(err error)
	// OnRefused reports a handshake that failed: the server closed the connection without an answer, or the exchange after it failed. A
	// server closes the connection if it is behind the client, for ever so if it has lost its data. asked is the session that the client
	// wanted to resume, or 0.
	OnRefused func(asked int64, err error)
	// OnDenied reports, after OnRefused, a server that has refused the client's identity, or could not prove its own. The error wraps
	// [ErrDenied].
	OnDenied func(err error)
	// OnUnresolved reports a name that could not be resolved. Its earlier addresses are dialled.
	OnUnresolved func(server string, err error)
	// OnRequest reports each request, when it is answered, after OnAnswered, or when its connection has ended.
	OnRequest func(Request)
	// Now is the clock for the times of OnAnswered; nil means time.Now.
	Now func() time.Time
}

// Link is what all connections of one client have in common: the one session they carry.
// All methods are safe for concurrent use.
type Link struct {
	Events  Events
	Backlog backlog

	mu       sync.Mutex
	id       int64
	granted  time.Duration
	replaced bool      // OnReplaced has been called
	debt     time.Time // since when an answer was owed on a connection that was given up for that; zero: none was, or a server has answered since
}

// NewLink returns a link that has had no session yet. Use one for each client.
func NewLink(events Events) *Link {
	if events.Now == nil {
		events.Now = time.Now
	}
	if events.Start == nil {
		events.Start = func(func()) bool { return false }
	}
	return &Link{Events: events}
}

// Session returns the id of the session, 0 before the first handshake. It stays after the session has ended.
func (l *Link) Session() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// Timeout returns the session timeout as negotiated in the latest handshake, 0 before the first one.
func (l *Link) Timeout() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted
}

// establish records an answered handshake.
func (l *Link) establish(id int64, timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.granted = id, timeout
}

// leaveDebt notes since when an answer was owed on a connection that was given up for that, unless an answer is owed for longer.
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

// Owing returns since when servers have owed an answer on connections that were given up for that, or the zero time.
func (l *Link) Owing() (since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.debt
}

func (l *Link) answered(sent, answered time.Time, op, zkErr int32) {
	if l.Events.OnAnswered != nil {
		l.Events.OnAnswered(sent, answered, op, zkErr)
	}
}

func (l *Link) madeContainer(path string, czxid int64) {
	if l.Events.OnContainer != nil {
		l.Events.OnContainer(path, czxid)
	}
}

func (l *Link) refused(asked int64, err error) {
	if l.Events.OnRefused != nil {
		l.Events.OnRefused(asked, err)
	}
}

func (l *Link) denied(err error) {
	if l.Events.OnDenied != nil {
		l.Events.OnDenied(err)
	}
}

func (l *Link) unresolved(server string, err error) {
	if l.Events.OnUnresolved != nil {
		l.Events.OnUnresolved(server, err)
	}
}

func (l *Link) replace(err error) {
	l.mu.Lock()
	first := !l.replaced
	l.replaced = true
	l.mu.Unlock()
	if first && l.Events.OnReplaced != nil {
		l.Events.OnReplaced(err)
	}
}
