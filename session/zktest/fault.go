package zktest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Request is a client request that is about to be executed.
type Request struct {
	// Session is the client's session. For OpConnect, it is the session to resume, or 0.
	Session int64
	Op      Op
	// Path is the request's node, or for a multi, that of its first part.
	Path string
	// Count is how many requests with this Op the server has received so far, including
	// this one.
	Count int
	// Parts are the operations of a multi.
	Parts []Part
}

// Part is one operation of a multi.
type Part struct {
	Op   Op
	Path string
}

// Action is what happens to a request. The zero Action lets it pass.
type Action struct {
	kind  actionKind
	delay time.Duration
	code  Code
}

type actionKind uint8

const (
	pass actionKind = iota // the zero Action
	cutBefore
	cutAfter
	swallow
	fail
)

// Pass executes the request and answers it.
func Pass() Action { return Action{} }

// CutBefore closes the connection without executing the request. Answers to earlier
// requests are sent first.
func CutBefore() Action { return Action{kind: cutBefore} }

// CutAfter executes the request and closes the connection instead of answering. Answers
// to earlier requests are sent first.
func CutAfter() Action { return Action{kind: cutAfter} }

// Swallow executes the request and never answers it; the connection stays open.
func Swallow() Action { return Action{kind: swallow} }

// Fail answers the request with an error and does not execute it. A handshake cannot be
// answered with an error; its connection is closed.
func Fail(code Code) Action { return Action{kind: fail, code: code} }

// Delay executes the request at once and delays its answer by d. Everything later on the
// same connection, watch events included, waits for the answer; requests are executed
// meanwhile.
func Delay(d time.Duration) Action { return Action{delay: d} }

// due returns when the answer may be sent.
func (a Action) due() time.Time {
	if a.delay <= 0 {
		return time.Time{}
	}
	return time.Now().Add(a.delay)
}

// Intercept makes f decide about every client request from now on, including handshakes
// and pings; nil lets all of them pass. f is called in order for the requests of one
// connection, and concurrently for different connections. It may call any method of the
// server except Close. Until it returns, its connection executes nothing else.
func (s *Server) Intercept(f func(Request) Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = f
}

// consult counts a request and passes it to the hook, without holding the lock.
func (s *Server) consult(c *conn, q call) Action {
	s.received.Add(1)
	s.mu.Lock()
	s.requests[q.op]++
	r := Request{Session: c.claimed, Op: q.op, Count: s.requests[q.op]}
	hook := s.hook
	s.mu.Unlock()
	if hook == nil {
		return Pass()
	}
	r.Path = strings.Clone(q.path)
	for _, part := range q.parts {
		r.Parts = append(r.Parts, Part{part.op, strings.Clone(part.path)})
	}
	if len(r.Parts) > 0 {
		r.Path = r.Parts[0].Path
	}
	return hook(r)
}

// Expire ends a session now. Its ephemerals are deleted in one transaction, its
// connection is closed, and its client learns of that at the next handshake. A client
// with a watch receives the event before the answer to any request that it makes after
// Expire has returned. Expire fails if there is no such session.
func (s *Server) Expire(session int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses := s.sessions[session]
	if ses == nil {
		return fmt.Errorf("zktest: expire: no session %#x", session)
	}
	s.expireSession(ses)
	return nil
}

// Cut closes the connection of a session, whose timeout keeps running. Without a
// connection, Cut does nothing.
func (s *Server) Cut(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses := s.sessions[session]; ses != nil && ses.conn != nil {
		s.cut(ses.conn)
	}
}

// CutAll closes every connection.
func (s *Server) CutAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutAll()
}

func (s *Server) cutAll() {
	for _, c := range s.connections() {
		s.cut(c)
	}
}

func (s *Server) cut(c *conn) {
	s.leave(c)
	c.kill()
}

// connections returns all connections, oldest first.
func (s *Server) connections() []*conn { return slices.SortedFunc(maps.Keys(s.conns), byNumber) }

func byNumber(a, b *conn) int { return cmp.Compare(a.number, b.number) }

// Down makes the server unreachable, or reachable again. It closes all connections and
// accepts no new ones. In memory, new ones are refused. Over TCP, they are closed as soon
// as they are made, so that no other process gets the port. The timeouts of the sessions
// keep running.
func (s *Server) Down(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down || s.dead
	if down {
		s.cutAll()
	}
}

// Mute makes the server ignore a session, or stop ignoring it. Its connection stays open,
// but nothing is read from it or written to it. The same holds for handshakes that try to
// resume the session. The session's timeout keeps running; when it expires, the client is
// not notified. What was held back is executed and sent when Mute ends, if the session is
// still alive.
func (s *Server) Mute(session int64, mute bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mute {
		s.muted[session] = true
	} else {
		delete(s.muted, session)
	}
	s.applyMute()
}

// MuteAll is Mute for all sessions and all new connections: the server accepts
// connections and sends nothing, like a machine that hangs. MuteAll(false) does not end
// the Mute of a single session.
func (s *Server) MuteAll(mute bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muteAll = mute
	s.applyMute()
}

func (s *Server) applyMute() {
	for c := range s.conns {
		c.mute(s.muteAll || s.muted[c.claimed])
	}
}

// LoseQuorum makes the server lose its quorum, or regain it. Without a quorum, it closes
// all connections and each handshake, and answers the four-letter words that it is not
// serving. No session ends meanwhile. Afterwards each has its full timeout again, as with
// a new leader.
func (s *Server) LoseQuorum(lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaderless = lost
	if lost {
		s.cutAll()
	}
	const never = 100 * 365 * 24 * time.Hour
	for _, ses := range s.sessions {
		left := ses.timeout
		if lost {
			left = never
		}
		ses.deadline = s.tickAfter(left)
		s.wakeClock(ses.deadline)
	}
}

// Wipe makes the server lose all data: nodes, sessions and the transaction count. After
// that, it refuses, without an answer, any client that has seen a transaction, because
// the client has seen a later state than the server's. Real servers do the same.
func (s *Server) Wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutAll()
	s.tree = newTree()
	s.sessions = make(map[int64]*session)
	s.zxid = 0
	s.nextReap = time.Time{}
}
