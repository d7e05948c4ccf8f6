// Package wire is the layer between a client and the network. It holds a client to one session and a server to sane answers, takes the
// times of every request, and gives up a server that is silent.
package wire

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// The reasons for which a wire closes its connection. The client only logs them; [Dialer.LastError] has the latest.
var (
	// errSecondSession: the client asked for a new session although it has had one.
	errSecondSession = errors.New("a second session on one client")
	// errSessionReplaced: the client asked for its session and the server gave it another one.
	errSessionReplaced = errors.New("server replaced the session")
	// errHandshakeTimeout: no complete answer to the handshake in time.
	errHandshakeTimeout = errors.New("handshake timed out")
	// errHandshakeRefused: the server closed the connection instead of answering the handshake.
	errHandshakeRefused = errors.New("server closed the connection during the handshake")
	// errHandshakeMalformed: the handshake has impossible values.
	errHandshakeMalformed = errors.New("malformed handshake")
)

const (
	xidEvent int32 = -1 // a watch event: it answers no request
	xidPing  int32 = -2

	readBuffer = 64 << 10
)

// sent is a request under way.
type sent struct {
	at     time.Time
	op     int32
	length int    // of the request
	told   bool   // a hook was told that it will not be answered
	path   string // of a request for a container
}

// wire is one connection of a client to a server. It passes bytes through unchanged and watches the frames that they form. It holds the
// client to one session and the server to a deadline for the handshake and to sane frames, and it takes the times of every request. It
// closes a connection that breaks the rules, and the call that noticed it returns why.
//
// Read is for one goroutine at a time, and so is Write; the other methods are safe for concurrent use.
type wire struct {
	conn    net.Conn // the bytes go through it: socket, or TLS on top of it
	socket  net.Conn
	link    *Link
	server  string        // host:port, for hooks
	secured bool          // by TLS
	cancel  func()        // ends an exchange
	report  func(error)   // told why the connection ended, or nil once the handshake is answered
	in      *bufio.Reader // many small frames come with one system call

	outbox  *outbox
	out     splitter // writer's
	outAt   time.Time
	greeted bool // the first frame out is complete; writer's

	back splitter // reader's

	restoration *restoration

	left chan struct{} // closed when the client has asked for the end of its session, or has closed the connection
	once sync.Once     // closes left

	mu          sync.Mutex
	handshaking bool
	deadline    time.Time // for the handshake
	readBy      time.Time // what the client asked for, in force once the handshake is over
	writeBy     time.Time
	requested   bool  // the handshake request went out
	asked       int64 // session id in it
	askedAt     time.Time
	askedLength int
	established time.Time // session granted on this connection
	granted     time.Time // the same by the link's clock
	ended       time.Time
	cut         bool // hooks were told of all that is not answered
	closed      bool
	leaving     bool // see [wire.leave]
	gone        bool // the client was told that the connection has ended
	pending     map[int32]sent
	order       []int32     // the xids of pending as they were sent, and perhaps of answered ones behind the first
	pings       []time.Time // all pings have the same xid, and are answered in order
	heard       time.Time   // when the newest bytes came of an answer that the server owed
}

// newWire wraps a fresh connection. The handshake must be complete by the deadline. Close closes socket, not conn: a TLS connection would
// first try to say goodbye, for up to five seconds if the peer is dead. report is called from Read and Write.
func newWire(conn, socket net.Conn, l *Link, deadline time.Time, report func(error)) (*wire, error) {
	w := &wire{
		conn: conn, socket: socket, link: l, report: report, in: bufio.NewReaderSize(conn, readBuffer),
		out:         splitter{min: minHandshakeRequest, max: maxHandshake},
		back:        splitter{min: minHandshakeReply, max: maxHandshake},
		restoration: newRestoration(&l.Backlog),
		handshaking: true, deadline: deadline, cancel: func() {},
		left:    make(chan struct{}),
		pending: make(map[int32]sent),
	}
	w.outbox = newOutbox(conn, l.Events.Start, w.unsent)
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("set handshake deadline: %w", err)
	}
	return w, nil
}

// Write sends p, or accepts it for sending and may return before it is sent. The handshake has been sent when Write returns. It refuses the
// request for a new session if the link has had one.
func (w *wire) Write(p []byte) (int, error) {
	if w.isLatePing(p) {
		return len(p), nil
	}
	// The clock is read before the first byte leaves: a session lives for its timeout from the moment in which the server hears of the
	// client. So a time that is too early is safe and one that is too late is not.
	wasGreeted := w.greeted // before this write: the handshake itself is sent in the old way
	if err := w.noteSent(p, w.link.Events.Now()); err != nil {
		return 0, w.Fail(err)
	}
	if wasGreeted {
		w.outbox.put(p, w.writeDeadline(), w.alone())
		return len(p), nil
	}
	n, err := w.conn.Write(p)
	if err != nil && w.secured { // a server that resets the connection may have said why
		if _, alert := w.conn.Read(make([]byte, 1)); errors.Is(alert, ErrDenied) {
			err = alert
		}
	}
	if err != nil {
		err = w.lose(err)
	}
	return n, err
}

// unsent takes the error of a connection that cannot send. The client must not hear of it from Write. It answers a request at
// once if its write fails, and again when the connection has ended, and there is not always room for the second answer:
//
//  1. It sends an identity on a new connection, a request with room for one answer.
//  2. The write fails, and the error takes the room.
//  3. Its loop answers all requests of the connection, and waits for ever for room, with its mutex held.
//
// So this connection swallows what it is given, and only Read tells its end.
func (w *wire) unsent(err error) {
	_ = w.lose(err)
	_ = w.hangUp()
}

// crowd is the number of requests under way from which on more are expected at any moment. Then it pays to let a goroutine of its own send
// them together.
const crowd = 4

// alone reports whether few requests are under way.
func (w *wire) alone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending) < crowd
}

// writeDeadline returns until when the client wants its bytes sent.
func (w *wire) writeDeadline() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writeBy
}

// Read receives into p. Bytes that break the rules are not handed out. A client that leaves hears of the end late: see [wire.leave].
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.read(p)
	if err != nil {
		w.stay()
	}
	return n, err
}

func (w *wire) read(p []byte) (int, error) {
	resumed := w.restoration.due // before this read: the answer to the handshake itself must not wait
	n, err := w.in.Read(p)
	if resumed && n > 0 {
		w.restoration.await()
	}
	if n > 0 {
		if bad := w.noteReceived(p[:n]); bad != nil {
			return 0, w.Fail(bad)
		}
	}
	if err != nil {
		err = w.lose(err)
	}
	return n, err
}

// noteSent follows the frames in p, which is about to be written.
func (w *wire) noteSent(p []byte, now time.Time) error {
	for {
		starts := w.out.between()
		n, m, err := w.out.next(p)
		if err != nil {
			return fmt.Errorf("request: %w", err)
		}
		if starts && n > 0 {
			w.outAt = now
		}
		p = p[n:]
		switch m {
		case markMore:
			return nil
		case markHeaded:
			if err := w.noteRequest(p); err != nil {
				return err
			}
		case markEnded:
			if !w.greeted {
				w.greeted = true
				w.out.min, w.out.max = minRequest, math.MaxInt32
			}
		}
	}
}

// noteRequest looks at the head of a frame on its way out, and at what follows the head. The rest of the frame has not been written yet,
// so a server cannot act on a request that is refused here.
func (w *wire) noteRequest(rest []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.greeted {
		w.asked, w.askedAt, w.askedLength, w.requested = w.out.int64At(16), w.outAt, w.out.length, true
		if id := w.link.Session(); w.asked == 0 && id != 0 {
			return fmt.Errorf("%w: had 0x%x", errSecondSession, uint64(id))
		}
		return nil
	}
	xid, op := w.out.int32At(0), w.out.int32At(4)
	w.restoration.note(op)
	if op == opcode.CloseSession {
		w.once.Do(func() { close(w.left) })
	}
	if xid == xidPing {
		w.pings = append(w.pings, w.outAt)
	} else {
		s := sent{at: w.outAt, op: op, length: w.out.length}
		if op == opcode.CreateContainer {
			s.path = w.out.stringAt(minRequest, rest)
		}
		w.pending[xid] = s
		w.order = append(w.order, xid)
	}
	return nil
}

// noteReceived follows the frames in p, which is about to be handed to the client.
func (w *wire) noteReceived(p []byte) error {
	for {
		n, m, err := w.back.next(p)
		if err != nil {
			return fmt.Errorf("reply: %w", err)
		}
		p = p[n:]
		switch m {
		case markMore:
			if w.back.headed {
				w.hear(w.back.int32At(0), w.link.Events.Now()) // a part of a long answer
			}
			return nil
		case markHeaded:
		case markEnded:
			if w.inHandshake() {
				if err := w.noteHandshake(); err != nil {
					return err
				}
				continue
			}
			now := w.link.Events.Now()
			w.hear(w.back.int32At(0), now)
			if s, found := w.match(w.back.int32At(0)); found {
				w.restoration.answered(s)
				if s.op != opcode.Ping {
					w.link.settle()
				}
				w.link.answered(s.at, now, s.op, w.back.int32At(12))
				if s.path != "" && w.back.int32At(12) == zkerr.CodeNone {
					w.link.madeContainer(s.path, w.back.int64At(4))
				}
				w.answer(s, now, w.back.int32At(12))
			}
		}
	}
}

// hear notes when an answer that the server owed came, or a part of it: the answer to the oldest request, or to a ping while nothing else
// is under way.
func (w *wire) hear(xid int32, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.order) > 0 && xid == w.order[0] || len(w.order) == 0 && xid == xidPing {
		w.heard = now
	}
}

// owing returns since when the server owes an answer. It returns the zero time if nothing is under way, or if the handshake is, which has a
// deadline of its own.
func (w *wire) owing() (since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.handshaking || !w.ended.IsZero() {
		return since
	}
	return w.owed()
}

// owed returns since when the oldest request is under way, or has been the oldest. A server answers requests in order, so if it answers
// later requests and pings it has lost the oldest one. owed is called with mu held.
func (w *wire) owed() (since time.Time) {
	switch {
	case len(w.order) > 0:
		since = w.pending[w.order[0]].at
	case len(w.pings) > 0:
		since = w.pings[0]
	default:
		return since
	}
	if w.heard.After(since) {
		since = w.heard
	}
	return since
}

// match takes the request with this xid off the list of those under way.
func (w *wire) match(xid int32) (sent, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch xid {
	case xidEvent:
		return sent{}, false
	case xidPing:
		if len(w.pings) == 0 {
			return sent{}, false
		}
		at := w.pings[0]
		w.pings = w.pings[1:]
		return sent{at: at, op: opcode.Ping, length: minRequest, told: w.cut}, true
	}
	s, found := w.pending[xid]
	delete(w.pending, xid)
	w.order = slices.Delete(w.order, 0, w.settled())
	s.told = w.cut
	return s, found
}

// settled returns how many xids at the beginning of order are not pending. It is called with mu held.
func (w *wire) settled() (n int) {
	for n < len(w.order) {
		if _, waits := w.pending[w.order[n]]; waits {
			break
		}
		n++
	}
	return n
}

// noteHandshake judges the complete answer to the handshake. Session 0 is the server's word that the session has expired: the client must
// hear it.
func (w *wire) noteHandshake() error {
	timeout, id := time.Duration(w.back.int32At(4))*time.Millisecond, w.back.int64At(8)
	w.mu.Lock()
	requested, asked := w.requested, w.asked
	greeting := sent{at: w.askedAt, op: opcode.Connect, length: w.askedLength}
	w.mu.Unlock()
	switch {
	case !requested:
		return fmt.Errorf("%w: answered before it was asked", errHandshakeMalformed)
	case id != 0 && asked != 0 && id != asked:
		return fmt.Errorf("%w: asked for 0x%x, got 0x%x", errSessionReplaced, uint64(asked), uint64(id))
	case id != 0 && timeout <= 0:
		// The client would panic on a ticker without an interval.
		return fmt.Errorf("%w: session timeout %v", errHandshakeMalformed, timeout)
	}
	greeting.told = w.endHandshake(id != 0)
	if asked != 0 {
		w.restoration.begin()
	}
	w.back.min, w.back.max = minReply, maxFrame
	w.report(nil)
	if id != 0 {
		// Nothing between here and the client can fail any more. If it could, the client might not know of a session that the link knows
		// of, ask for a new one, and be refused for ever.
		w.link.establish(id, timeout)
		now := w.link.Events.Now()
		w.link.answered(greeting.at, now, opcode.Connect, zkerr.CodeNone)
		w.answer(greeting, now, zkerr.CodeNone)
	} else {
		w.answer(greeting, w.link.Events.Now(), zkerr.CodeSessionExpired)
	}
	return nil
}

func (w *wire) inHandshake() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.handshaking
}

// endHandshake puts the client's own deadlines into force. It reports whether a hook was told that there will be no answer.
func (w *wire) endHandshake(granted bool) (told bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handshaking = false
	if granted {
		w.established, w.granted = time.Now(), w.link.Events.Now()
	}
	// This fails only on a connection that has been closed, here or (a pipe) at the other end. The next Read or Write reports that, and the
	// client has to hear of its session nevertheless.
	_ = w.conn.SetReadDeadline(w.readBy)
	_ = w.conn.SetWriteDeadline(w.writeBy)
	return w.cut
}
