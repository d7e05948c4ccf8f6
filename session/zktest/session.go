package zktest

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"slices"
	"time"
)

// passwordLength is fixed by the protocol.
const passwordLength = 16

// session is a client's session. It is independent of connections: without one, it waits
// for its deadline.
type session struct {
	id       int64
	password []byte
	conn     *conn // nil while the client is away
	timeout  time.Duration
	deadline time.Time
}

// hello is the first frame of a connection.
type hello struct {
	lastZxid    int64
	timeout     time.Duration
	session     int64
	password    []byte
	hasReadOnly bool // newer clients send one more byte, and expect one in the answer
}

func decodeHello(d *decoder) (hello, error) {
	var h hello
	d.int32() // protocol version, always 0
	h.lastZxid = d.int64()
	h.timeout = time.Duration(d.int32()) * time.Millisecond
	h.session = d.int64()
	h.password = d.bytes()
	h.hasReadOnly = d.err == nil && len(d.buf) > 0
	return h, d.err
}

// handshake gives the connection a session and reports whether requests may follow.
func (s *Server) handshake(c *conn, in *frameReader) bool {
	n, err := in.length()
	if err != nil {
		return false
	}
	if text, known := s.answerWord(n); known {
		c.push(outgoing{frame: text})
		c.hangUp()
		return false
	}
	body, err := in.body(n)
	if err != nil {
		return false
	}
	h, err := decodeHello(&decoder{buf: string(body)})
	if err != nil {
		return false
	}
	s.claim(c, h.session)
	if !c.audible() {
		return false
	}
	act := s.consult(c, call{op: OpConnect})
	return s.admit(c, h, act)
}

// claim notes the session that a connection requests, so that Mute finds it before it is
// admitted.
func (s *Server) claim(c *conn, id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.claimed = id
	c.mute(s.muteAll || s.muted[id])
}

// admit creates or resumes the session that a client requests.
func (s *Server) admit(c *conn, h hello, act Action) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone || s.leaderless || act.kind == cutBefore || act.kind == fail {
		return false
	}
	if h.lastZxid > s.zxid {
		return false // the client has seen a later state than the server's, and gets no answer
	}
	c.timeout = min(max(h.timeout, 2*s.tick), 20*s.tick)
	var ses *session
	if h.session == 0 || s.dialect == clickHouseKeeper {
		ses = s.newSession()
	} else {
		ses = s.sessions[h.session]
		// A real server drops the old connection before it checks the password.
		if ses != nil && ses.conn != nil {
			old := ses.conn
			s.leave(old)
			old.fade()
		}
		if ses != nil && !bytes.Equal(ses.password, h.password) {
			ses = nil
		}
	}
	if ses != nil {
		ses.conn, c.session, c.claimed = c, ses, ses.id
		if s.muted[ses.id] {
			c.mute(true)
		}
		s.renew(c)
	}
	switch act.kind {
	case cutAfter:
		return false
	case swallow:
	default:
		c.push(outgoing{frame: helloFrame(ses, c.timeout, h.hasReadOnly), due: act.due()})
	}
	if ses == nil {
		c.hangUp()
		return false
	}
	return true
}

// helloFrame returns the answer to a handshake. A nil session means that there is none to
// resume.
func helloFrame(ses *session, timeout time.Duration, readOnly bool) []byte {
	if ses == nil {
		ses, timeout = &session{password: make([]byte, passwordLength)}, 0
	}
	b := appendInt32(appendInt32(nil, 0), int32(timeout/time.Millisecond))
	b = appendBytes(appendInt64(b, ses.id), ses.password)
	if readOnly {
		b = appendBool(b, false)
	}
	return frame(b)
}

// newSession creates a session, which is a transaction like any other.
func (s *Server) newSession() *session {
	s.zxid++
	s.lastSession++
	ses := &session{id: s.lastSession, password: make([]byte, passwordLength)}
	// Read never returns an error and always fills the slice.
	_, _ = rand.Read(ses.password)
	s.sessions[ses.id] = ses
	return ses
}

// renew moves the deadline of a session after a sign of life reached the leader.
func (s *Server) renew(c *conn) {
	if c.stranded {
		return
	}
	c.session.timeout, c.session.deadline = c.timeout, s.tickAfter(c.timeout)
	s.wakeClock(c.session.deadline)
}

// tickAfter returns the first tick boundary that is more than the time away.
func (s *Server) tickAfter(d time.Duration) time.Time {
	since := time.Now().Add(d).Sub(s.started)
	return s.started.Add((since/s.tick + 1) * s.tick)
}

// endSession deletes all nodes that a session owns in one transaction, and notifies the
// watchers. Its connection, if there is one, no longer takes part in anything, but is not
// closed yet.
func (s *Server) endSession(ses *session) {
	t := s.begin(caller{session: ses.id, trusted: true})
	const fixed, each = 36, 4 // the header and the number of paths, and the length of each
	size := fixed
	for _, p := range sortedPaths(s.tree.ephemerals[ses.id]) {
		size += each + len(p)
		t.remove(s.tree.nodes[p])
	}
	delete(s.tree.ephemerals, ses.id)
	s.notify(t.changes)
	delete(s.sessions, ses.id)
	if c := ses.conn; c != nil && !c.stranded {
		s.leave(c)
	}
	if s.maxBuffer > 0 && size > 2*s.maxBuffer {
		s.dead, s.down = true, true
		s.cutAll()
	}
}

// expireSession is endSession for a client that did not request it. A stranded connection
// stays as it is, because its follower cannot be notified. Any other connection is cut
// off first, and receives no event of the deletions. A real server does the same when
// another connection takes over the session to close it. If a session ends by silence,
// there is no client to receive events.
func (s *Server) expireSession(ses *session) {
	c := ses.conn
	if c != nil && !c.stranded {
		s.leave(c)
		c.fade()
	}
	if s.sessions[ses.id] != nil { // otherwise it has ended with its connection
		s.endSession(ses)
	}
}

// leave removes a connection from everything: its watches are dropped, and its session,
// if it is alive, waits for another connection.
func (s *Server) leave(c *conn) {
	c.gone = true
	c.replica = nil
	delete(s.replicas, c)
	s.dataWatches.drop(c)
	s.childWatches.drop(c)
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
		if s.dialect == clickHouseKeeper && s.sessions[c.session.id] != nil {
			s.endSession(c.session)
		}
	}
}

// expireDue ends the sessions whose deadline has passed, longest overdue first.
func (s *Server) expireDue(now time.Time) {
	var due []*session
	for _, ses := range s.sessions {
		if !ses.deadline.After(now) {
			due = append(due, ses)
		}
	}
	slices.SortFunc(due, func(a, b *session) int {
		return cmp.Or(a.deadline.Compare(b.deadline), cmp.Compare(a.id, b.id))
	})
	for _, ses := range due {
		s.expireSession(ses)
	}
}
