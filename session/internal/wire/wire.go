// Package wire is the layer between a client and the network. It restricts a client to
// one session and a server to sane answers, times every request, and gives up silent
// servers.
package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// The reasons why a wire closes its connection. [Dialer.LastError] returns the latest.
var (
	// ErrReplaced is wrapped by the two errors below: the session of the link is gone,
	// and the client was prevented from continuing with another one.
	ErrReplaced = errors.New("the session is another one")
	// errSecondSession: the client requested a new session although it had one before.
	errSecondSession = zkerr.Sentinel("a second session on one client", ErrReplaced)
	// errSessionReplaced: the client requested its session, and the server granted
	// another one.
	errSessionReplaced = zkerr.Sentinel("server replaced the session", ErrReplaced)
	// errHandshakeTimeout: there was no complete answer to the handshake in time.
	errHandshakeTimeout = errors.New("handshake timed out")
	// errHandshakeRefused: the server closed the connection instead of answering.
	errHandshakeRefused = errors.New("server closed the connection during the handshake")
	// errHandshakeMalformed: the handshake has impossible values.
	errHandshakeMalformed = errors.New("malformed handshake")
	// errFrameLength: a frame has an impossible length. See also errForm.
	errFrameLength = errors.New("frame length out of bounds")
)

// ErrRefused is wrapped by the error of a handshake that a server closed without an
// answer, and of an authentication that failed after it. A server closes the connection
// if its state is older than what the client has seen, and does so forever if it has lost
// its data.
var ErrRefused = errors.New("handshake refused")

const (
	xidEvent int32 = -1 // a watch event, which answers no request
	xidPing  int32 = -2

	// pingFrame is a ping as the client writes it.
	pingFrame = "\x00\x00\x00\x08\xff\xff\xff\xfe\x00\x00\x00\x0b"

	// A frame is a length of four bytes, followed by that many bytes. Requests begin with
	// xid and operation, replies with xid, zxid and error. The client panics on a shorter
	// reply that it awaits, and on some that are long enough; see form.
	prefixLength = 4
	minRequest   = 8
	minReply     = 16
	// A handshake's request is read up to the end of the session ID, and its reply up to
	// the end of the password's length.
	minHandshakeRequest = 24
	minHandshakeReply   = 20
	// headSize is how much of a reply is inspected: up to the operation of a
	// transaction's first result.
	headSize = 20
	// maxFrame is the maximum length of a reply. The client allocates whatever a length
	// field says.
	maxFrame = 64 << 20
	// maxHandshake is the maximum length of a handshake reply; real ones have 36 or 37
	// bytes. It is far below maxFrame, so that a server with another protocol is
	// recognized at once.
	maxHandshake = 64 << 10
)

const (
	readBuffer = 64 << 10
	// crowd is the number of requests in progress from which more are expected at any
	// moment. A separate goroutine then sends them together.
	crowd = 4
	// outboxFull is the number of unsent bytes above which a write must wait.
	outboxFull = 1 << 20
	// outboxKept is the largest buffer that is kept for the next bytes.
	outboxKept = 64 << 10
)

// sent is a request in progress.
type sent struct {
	at     time.Time
	op     int32
	length int
	path   string    // of a request for a container
	awaits *Creation // of an awaited create

	operations operations // of a transaction
	watches    int        // how long the client made a request for watches; 0: a part of it
	standsIn   bool       // a read in place of a create; see readOf
}

// wire is one connection of a client to a server. It passes bytes through unchanged,
// except for a leftover create ([Link.Await]) and a long request for watches
// (watchesInParts), and inspects the frames that they form. It closes a connection that
// breaks the rules, and the call that notices it returns the reason.
//
// Read is for one goroutine at a time, and so is Write; the other methods are safe for
// concurrent use.
type wire struct {
	conn    net.Conn // carries the bytes: socket, or TLS on top of it
	socket  net.Conn
	in      *bufio.Reader // reads many small frames with one system call
	link    *Link
	server  string      // host:port, for hooks
	secured bool        // by TLS
	login   *login      // nil: the client has no identity
	report  func(error) // called with why the connection ended, or with nil after the handshake

	// Only the reader touches these.
	greeting []byte // the unread part of the answer to the handshake
	head     [headSize]byte
	length   int  // of the frame being read
	rest     int  // how many of its bytes are not passed on yet
	form     form // of those that were passed on
	resumed  bool // a session was resumed, and nothing read since; see awaitWatches

	left chan struct{} // closed when the client has requested the end of its session, or called Close
	once sync.Once     // closes left

	mu          sync.Mutex
	handshaking bool      // only the reader ends it, so it may read it without mu
	deadline    time.Time // for the handshake
	readBy      time.Time // the client's deadline, in force after the handshake
	writeBy     time.Time
	hello       sent      // the handshake request; its time is zero before it is sent
	asked       int64     // the session ID in hello
	established time.Time // when a session was granted on this connection
	ended       time.Time // when the connection ended; nothing is sent from then on
	closed      bool      // by us
	leaving     bool      // see leave
	gone        bool      // Read has returned the end of the connection
	pending     map[int32]sent
	order       []int32     // the xids of pending in order, and answered ones after the first
	parts       int32       // how many xids of parts were used; see watchesInParts
	pings       []time.Time // when pings were sent; they all have the same xid, and are answered in order
	heard       time.Time   // when the newest bytes of an owed answer arrived
	overdue     overdue     // of the oldest answer

	// The outbox. The client calls Write for each frame, and every call would be a system
	// call. Frames that arrive while one is in progress are sent together in the next
	// one.
	unsent  []byte
	spare   []byte     // the previously sent buffer
	sendBy  time.Time  // the deadline of the latest frame in unsent
	sending bool       // a goroutine is sending until unsent is empty
	room    *sync.Cond // signals room in unsent, or that the connection has ended

	// Guarded by the link's mutex, see noteResumed.
	watchesAsked chan struct{}
	missing      int
	asking       int  // requests for watches in progress
	refused      bool // such a request was refused
}

// newWire wraps a new connection. The handshake must be complete by the deadline. Close
// closes socket, not conn, because a TLS connection would first try to send an alert, for
// up to five seconds if the peer is dead. report is called from Read and Write.
func newWire(conn, socket net.Conn, l *Link, deadline time.Time, report func(error)) (*wire, error) {
	w := &wire{
		conn: conn, socket: socket, link: l, report: report, in: bufio.NewReaderSize(conn, readBuffer),
		handshaking: true, deadline: deadline, left: make(chan struct{}), watchesAsked: make(chan struct{}),
		pending: make(map[int32]sent),
	}
	w.room = sync.NewCond(&w.mu)
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("set handshake deadline: %w", err)
	}
	return w, nil
}

// Write sends p, or queues it and returns before it is sent. p is one frame, because the
// client writes each with one call. The handshake is sent when Write returns.
func (w *wire) Write(p []byte) (int, error) {
	// The client keeps pinging after its last request. That is useless, and can cost the
	// answer to that request:
	//
	//  1. The client requests the end of its session. 10,000 nodes are deleted, with an
	//     event each.
	//  2. The server answers, and closes the connection. Not all of that is read yet.
	//  3. A ping arrives at the closed connection, and the server's kernel resets it.
	//     Everything unread is discarded.
	select {
	case <-w.left:
		if string(p) == pingFrame {
			return len(p), nil
		}
	default:
	}
	// Read the clock before the first byte is sent. A session lives for its timeout from
	// when the server receives something, so a time that is too early is safe, and one
	// that is too late is not.
	now := w.link.Events.Now()
	w.mu.Lock()
	greets := w.hello.at.IsZero()
	frame, err := w.request(p, now)
	alone := len(w.pending) < crowd
	w.mu.Unlock()
	if err != nil {
		return 0, w.Fail(err)
	}
	if !greets {
		w.put(frame, alone)
		return len(p), nil
	}
	n, err := w.conn.Write(p)
	if err != nil && w.secured { // the server may have sent the reason before it reset
		if _, alert := w.conn.Read(make([]byte, 1)); errors.Is(alert, ErrDenied) {
			err = alert
		}
	}
	if err != nil {
		err = w.lose(err)
	}
	return n, err
}

// request notes a frame that is about to be sent, and returns what to send instead. It
// refuses a request for a new session if the link has had one. It is called with mu held.
func (w *wire) request(p []byte, now time.Time) ([]byte, error) {
	if w.hello.at.IsZero() {
		body, err := bodyOf(p, minHandshakeRequest)
		if err != nil {
			return nil, err
		}
		w.hello, w.asked = sent{at: now, op: opcode.Connect, length: len(body)}, int64At(body, 16)
		if id := w.link.Session(); w.asked == 0 && id != 0 {
			return nil, fmt.Errorf("%w: had 0x%x", errSecondSession, uint64(id))
		}
		return p, nil
	}
	body, err := bodyOf(p, minRequest)
	if err != nil {
		return nil, err
	}
	s, xid := sent{at: now, op: int32At(body, 4), length: len(body)}, int32At(body, 0)
	switch s.op {
	case opcode.Exists, opcode.GetData, opcode.GetChildren2:
		w.link.noteRead(pathIn(body))
	case opcode.SetWatches:
		w.noteWatchesAsked()
		s.watches = len(body)
		if s.watches > partMax {
			p, s.length = w.watchesInParts(xid, body, now)
		}
	case opcode.CloseSession:
		w.once.Do(func() { close(w.left) })
	case opcode.Multi:
		s.operations = operationsIn(body)
	case opcode.CreateContainer:
		s.path = string(pathIn(body))
		s.awaits = w.link.noteCreate(pathIn(body), w)
	case opcode.Create:
		// The directory's create was sent on an earlier connection, and its outcome is
		// unknown. The client expects an answer, so send a read instead.
		if s.awaits = w.link.noteCreate(pathIn(body), w); s.awaits.apart() {
			p = readOf(xid, pathIn(body))
			s.op, s.length, s.awaits, s.standsIn = opcode.GetData, len(p)-prefixLength, nil, true
		}
	}
	if xid == xidPing {
		w.pings = append(w.pings, now)
		return p, nil
	}
	w.pending[xid] = s
	w.order = append(w.order, xid)
	return p, nil
}

// readOf returns a request for the data of the path, in place of a create that must not
// be sent. A server never has a node of that name, because it would append a number, so
// it answers that the node does not exist. The client would take any other answer for one
// to the create.
func readOf(xid int32, path []byte) []byte {
	var p []byte
	for _, n := range []int32{int32(minRequest + 4 + len(path) + 1), xid, opcode.GetData, int32(len(path))} {
		p = binary.BigEndian.AppendUint32(p, uint32(n))
	}
	return append(append(p, path...), 0) // no watch
}

// pathIn returns the path at the beginning of a request, or nil.
func pathIn(body []byte) []byte {
	const begin = minRequest + 4
	if len(body) < begin {
		return nil
	}
	n := int(int32At(body, minRequest))
	if n <= 0 || n > len(body)-begin {
		return nil
	}
	return body[begin : begin+n]
}

// put queues a frame. After the end of the connection, frames are dropped. alone means
// that no other frame is expected; the caller then sends the frame itself, unless a
// goroutine is sending.
func (w *wire) put(p []byte, alone bool) {
	w.mu.Lock()
	for len(w.unsent) > outboxFull && w.ended.IsZero() {
		w.room.Wait()
	}
	if !w.ended.IsZero() {
		w.mu.Unlock()
		return
	}
	// Keep the deadline with the bytes: they may be sent after the client has cleared it.
	w.unsent, w.sendBy = append(w.unsent, p...), w.writeBy
	begin := !w.sending
	w.sending = true
	w.mu.Unlock()
	if begin && (alone || !w.link.Events.Start(w.gather)) {
		w.send()
	}
}

// gather lets other goroutines run first, which may have something to send, and then
// sends. Otherwise each frame would be sent by itself: the goroutine that writes a frame
// blocks to wait for the next one, and this goroutine would then be the first to run.
func (w *wire) gather() {
	runtime.Gosched()
	w.send()
}

// send sends until unsent is empty.
func (w *wire) send() {
	w.mu.Lock()
	for len(w.unsent) > 0 {
		batch, by := w.unsent, w.sendBy
		w.unsent, w.spare = w.spare, nil
		w.mu.Unlock()
		err := w.conn.SetWriteDeadline(by)
		if err == nil {
			_, err = w.conn.Write(batch)
		}
		if err != nil {
			// The client must not learn of the error from Write. If a write fails, it
			// answers the request at once, and again when the connection has ended, but
			// there is not always room for the second answer:
			//
			//  1. The client sends an identity on a new connection, a request with room
			//     for one answer.
			//  2. The write fails, and the error takes the room.
			//  3. The client's loop answers all requests of the connection, and waits for
			//     room forever, with its mutex held.
			//
			// So from now on Write drops everything, and only Read reports the end.
			_ = w.lose(err)
			_ = w.hangUp()
			return
		}
		w.mu.Lock()
		if cap(batch) <= outboxKept {
			w.spare = batch[:0]
		}
		w.room.Broadcast()
	}
	w.sending = false
	w.mu.Unlock()
}

// Read receives into p. It does not return bytes that break the rules.
func (w *wire) Read(p []byte) (int, error) {
	// Read the answer to the handshake as a whole, so that the client sees its session
	// only once the server knows its identity. Until then nothing else is in flight, in
	// either direction: the client waits for the answer, and a server sends no events
	// before a watch is set.
	if w.handshaking {
		answer, err := readFrame(w.in, minHandshakeReply, maxHandshake)
		if errors.Is(err, errFrameLength) {
			return 0, w.over(w.Fail(fmt.Errorf("reply: %w", err)))
		}
		if err == nil && w.login != nil && int64At(answer, prefixLength+8) != 0 {
			err = w.login.prove(w.conn, w.in)
		}
		if err != nil {
			return 0, w.over(w.lose(err))
		}
		if err := w.greeted(answer[prefixLength:]); err != nil {
			return 0, w.over(w.Fail(err))
		}
		w.greeting = answer
	}
	if len(w.greeting) > 0 {
		n := copy(p, w.greeting)
		w.greeting = w.greeting[n:]
		return n, nil
	}
	// Inspect the head of any other frame before returning its first byte.
	if w.rest == 0 {
		head, err := w.in.Peek(prefixLength)
		if err != nil {
			return 0, w.over(w.lose(err))
		}
		if w.resumed {
			w.awaitWatches()
		}
		w.length = int(int32At(head, 0))
		if w.length < minReply || w.length > maxFrame {
			err := fmt.Errorf("reply: %w: %d, want %d to %d", errFrameLength, w.length, minReply, maxFrame)
			return 0, w.over(w.Fail(err))
		}
		if head, err = w.in.Peek(prefixLength + min(w.length, headSize)); err != nil {
			return 0, w.over(w.lose(err))
		}
		copy(w.head[:], head[prefixLength:])
		w.rest = prefixLength + w.length
		if w.form, err = w.formOfHead(); err != nil {
			return 0, w.over(w.Fail(err))
		}
	}
	n, err := w.in.Read(p[:min(len(p), w.rest)])
	if err != nil {
		return n, w.over(w.lose(err))
	}
	if err := w.form.take(p[:n]); err != nil {
		return 0, w.over(w.Fail(err))
	}
	if w.rest -= n; w.rest < w.length {
		w.received()
	}
	return n, nil
}

// over returns the error with which Read ends, once the client may see it. A client that
// leaves sees the end late; see leave. During a handshake it sees the end at once, dials
// again, and gets a [farewell].
func (w *wire) over(err error) error {
	w.mu.Lock()
	stays := w.leaving && !w.established.IsZero()
	w.gone = !stays
	w.mu.Unlock()
	if stays {
		<-w.left
	}
	return err
}

// received notes a part of an answer that is about to be returned by Read, or, with its
// last part, the whole answer.
func (w *wire) received() {
	now, xid, code := w.link.Events.Now(), int32At(w.head[:], 0), int32At(w.head[:], 12)
	w.mu.Lock()
	// Servers answer in order. So any part of the answer to the oldest request shows that
	// the server is alive, even if the answer is not complete yet.
	if len(w.order) > 0 && xid == w.order[0] || len(w.order) == 0 && xid == xidPing {
		w.heard = now
	}
	if w.rest > 0 || xid == xidEvent {
		w.mu.Unlock()
		return
	}
	s, found := w.pending[xid]
	if xid == xidPing && len(w.pings) > 0 {
		s, found = sent{at: w.pings[0], op: opcode.Ping, length: minRequest}, true
		w.pings = w.pings[1:]
	} else if found {
		delete(w.pending, xid)
		answered := 0
		for answered < len(w.order) {
			if _, waits := w.pending[w.order[answered]]; waits {
				break
			}
			answered++
		}
		w.order = slices.Delete(w.order, 0, answered)
	}
	reported := !w.ended.IsZero() // a hook was already called for it, without an answer
	waits := len(w.order) > 0
	w.mu.Unlock()
	if !found {
		return
	}
	// A stuck server may still answer pings. That shows something only if no request waits:
	// what was left unanswered was a ping, or a request whose caller has given up.
	if s.op != opcode.Ping || !waits {
		w.link.settle()
	}
	zxid := int64At(w.head[:], 4)
	if s.awaits != nil && code == zkerr.CodeNone {
		s.awaits.zxid.Store(zxid)
	}
	a := Answer{Sent: s.at, Answered: now, Op: s.op, Err: code, Container: s.path, Zxid: zxid}
	if s.op == opcode.SetWatches {
		w.noteWatchesAnswered(s, &a)
	}
	w.link.Events.OnAnswered(a)
	if w.link.Events.OnRequest != nil && !reported {
		err := zkerr.ErrorOf(code)
		if s.op == opcode.Multi && err == nil && w.length >= headSize &&
			int32At(w.head[:], minReply) == opError {
			err = errTransaction
		}
		w.tell(s, prefixLength+w.length, now, err)
	}
}

// greeted checks the complete answer to the handshake. Session 0 means that the session
// that was asked for has expired, which the client must see.
func (w *wire) greeted(answer []byte) error {
	timeout, id := time.Duration(int32At(answer, 4))*time.Millisecond, int64At(answer, 8)
	password := int(int32At(answer, minHandshakeReply-lengthSize)) // its length; -1: none
	w.mu.Lock()
	hello, asked := w.hello, w.asked
	w.mu.Unlock()
	switch {
	case hello.at.IsZero():
		return fmt.Errorf("%w: answered before it was asked", errHandshakeMalformed)
	case id != 0 && asked != 0 && id != asked:
		return fmt.Errorf("%w: asked for 0x%x, got 0x%x", errSessionReplaced, uint64(asked), uint64(id))
	case id == 0 && asked == 0:
		return fmt.Errorf("%w: no session", errHandshakeMalformed)
	case password > len(answer)-minHandshakeReply:
		// The client would allocate that much before it checks that the bytes are there.
		return fmt.Errorf("%w: a password of %d bytes", errHandshakeMalformed, password)
	case id != 0 && timeout <= 0:
		// The client would panic when it creates a ticker.
		return fmt.Errorf("%w: session timeout %v", errHandshakeMalformed, timeout)
	}
	// From here on nothing can fail before the client sees the answer. Otherwise the
	// client might not know a session that the link knows, request a new one, and be
	// refused forever.
	if asked != 0 && id != 0 {
		w.noteResumed()
	}
	now, code := w.link.Events.Now(), zkerr.CodeSessionExpired
	w.mu.Lock()
	w.handshaking = false
	if id != 0 {
		w.established, code = now, zkerr.CodeNone
	}
	// From now on the client's own deadlines are in force. Setting them fails only on a
	// closed connection, which the next Read or Write reports.
	_ = w.conn.SetReadDeadline(w.readBy)
	_ = w.conn.SetWriteDeadline(w.writeBy)
	reported := !w.ended.IsZero()
	w.mu.Unlock()
	w.report(nil)
	if id != 0 {
		w.link.establish(id, timeout)
		w.link.Events.OnAnswered(Answer{Sent: hello.at, Answered: now, Op: opcode.Connect, Timeout: timeout})
	}
	if w.link.Events.OnRequest != nil && !reported {
		w.tell(hello, prefixLength+len(answer), now, zkerr.ErrorOf(code))
	}
	return nil
}

// tell calls OnRequest for a request; bytes is the length of its answer.
func (w *wire) tell(s sent, bytes int, now time.Time, err error) {
	w.link.Events.OnRequest(Request{
		Op: opcode.Name(s.op), Server: w.server,
		Bytes: prefixLength + s.length + bytes, Duration: now.Sub(s.at), Err: err,
	})
}

// owing returns since when the server has owed an answer. It returns the zero time if
// nothing is in progress, or during the handshake, which has its own deadline.
func (w *wire) owing() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owed()
}

// owed is like owing, with mu held. The oldest request counts: a server answers in order,
// so one that answers only later requests and pings has lost it.
func (w *wire) owed() (since time.Time) {
	switch {
	case w.handshaking || !w.ended.IsZero():
		return since
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

// SetDeadline sets both deadlines.
func (w *wire) SetDeadline(t time.Time) error {
	return errors.Join(w.SetReadDeadline(t), w.SetWriteDeadline(t))
}

// SetReadDeadline sets the deadline for Read. During the handshake, the handshake's
// deadline applies if it is earlier; t takes effect afterwards. After the handshake, Read
// ends at the latest when the oldest request has waited for too long.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readBy = t
	if w.handshaking {
		return w.conn.SetReadDeadline(earlier(t, w.deadline))
	}
	if since := w.owed(); !since.IsZero() {
		timeout, now := w.link.Timeout(), w.link.Events.Now()
		if debt := w.link.Owing(); !debt.IsZero() && w.established.Sub(debt) < MostPatience(timeout) {
			since = debt // callers have been waiting since then
		}
		if !w.overdue.since.Equal(since) {
			w.overdue = overdue{since: since, by: time.Now().Add(requestPatience(timeout, now.Sub(since)))}
		} else if late := time.Now(); late.After(w.overdue.by) && !w.overdue.late {
			// Nothing was read in time, perhaps because this process was paused.
			w.overdue.by, w.overdue.late = late.Add(requestPatience(timeout, timeout)), true
		}
		t = earlier(t, w.overdue.by)
	}
	return w.conn.SetReadDeadline(t)
}

// overdue says when reading ends because an answer is missing. The client sets a deadline
// before each frame, and frames that answer nothing must not put it off.
type overdue struct {
	since time.Time // since when the answer is owed
	by    time.Time
	late  bool // by was put off once
}

// SetWriteDeadline sets the deadline for Write, in the same way. After the handshake, it
// applies to the bytes that are written later.
func (w *wire) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeBy = t
	if !w.handshaking {
		return nil
	}
	return w.conn.SetWriteDeadline(earlier(t, w.deadline))
}

// earlier returns the earlier of two deadlines. A zero t means no deadline.
func earlier(t, bound time.Time) time.Time {
	if t.IsZero() || t.After(bound) {
		return bound
	}
	return t
}

// Fail gives up the connection because of err, and returns err.
func (w *wire) Fail(err error) error {
	w.end(err)
	// An error from closing does not matter: the connection is given up for a worse one.
	_ = w.hangUp()
	return err
}

// lose notes that a Read or Write has failed, and returns the error with an explanation.
// The client closes the connection.
func (w *wire) lose(err error) error {
	w.mu.Lock()
	handshaking, ours := w.handshaking, w.closed
	e := ending{handshaking: handshaking, resuming: w.asked != 0, secured: w.secured}
	for _, s := range w.pending {
		e.request = max(e.request, s.length)
	}
	w.mu.Unlock()
	switch failed := new(exchangeError); {
	case ours:
		return err
	case handshaking && (errors.As(err, &failed) || errors.Is(err, ErrDenied)):
		err = zkerr.Sentinel(err.Error(), err, ErrRefused)
	case handshaking && errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("%w: %w", errHandshakeTimeout, err)
	case handshaking:
		err = e.explain(err)
		err = zkerr.Sentinel(err.Error(), err, ErrRefused)
	default:
		err = e.explain(err)
	}
	w.end(err)
	return err
}

// end notes when the connection ended, and reports why unless err is nil. Only the first
// call counts, because an error caused by our own Close is not the reason.
func (w *wire) end(err error) {
	w.mu.Lock()
	if !w.ended.IsZero() {
		w.mu.Unlock()
		return
	}
	debt, now := w.owed(), w.link.Events.Now()
	w.ended = now
	w.room.Broadcast()
	// The hooks are called for requests that will not be answered. If an answer arrives
	// after all, they are not called again.
	var left []sent
	if w.link.Events.OnRequest != nil {
		if w.handshaking && !w.hello.at.IsZero() {
			left = append(left, w.hello)
		}
		for _, at := range w.pings {
			left = append(left, sent{at: at, op: opcode.Ping, length: minRequest})
		}
		for _, s := range w.pending {
			left = append(left, s)
		}
	}
	w.mu.Unlock()
	if !debt.IsZero() && (errors.Is(err, ErrSilent) || errors.Is(err, os.ErrDeadlineExceeded)) {
		w.link.leaveDebt(debt)
	}
	for _, s := range left {
		w.tell(s, 0, now, zk.ErrConnectionClosed)
	}
	if err != nil {
		w.report(err)
	}
}

// lifetime returns how long the connection carried a session, or 0 if it never did, and
// whether that is long enough to count as good.
func (w *wire) lifetime() (life time.Duration, good bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.established.IsZero() {
		return 0, false
	}
	ended := w.ended
	if ended.IsZero() {
		ended = w.link.Events.Now()
	}
	life = ended.Sub(w.established)
	return life, life >= min(w.link.Timeout()/10, lifeMax)
}

// leave makes the client see the connection's end only after it has requested the end of
// its session. It reports whether it was in time for that. Otherwise the client may leave
// that request unanswered, and wait a second for the answer:
//
//  1. The client starts to close.
//  2. Its connection ends. Its loop sees that it must quit, answers all requests, and
//     ends.
//  3. The client requests the end of its session.
//
// With no request in progress, nothing waits for the report of step 2, so it may come
// after step 3.
func (w *wire) leave() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaving = !w.gone
	return w.leaving
}

// Close closes the socket for the client, and lets a client that is leaving see the end.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.left) })
	return w.hangUp()
}

// hangUp closes the socket at once, without ending the session. It is idempotent, and
// unblocks Read and Write.
func (w *wire) hangUp() error {
	w.end(nil)
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	w.mu.Unlock()
	if !first {
		return nil
	}
	if w.login != nil {
		w.login.cancel()
	}
	return w.socket.Close()
}

// LocalAddr returns the address of our end.
func (w *wire) LocalAddr() net.Addr { return w.conn.LocalAddr() }

// RemoteAddr returns the address of the server's end.
func (w *wire) RemoteAddr() net.Addr { return w.conn.RemoteAddr() }

// readFrame reads one frame, and returns it including its length prefix.
func readFrame(r io.Reader, least, most int) ([]byte, error) {
	var prefix [prefixLength]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	length := int(int32At(prefix[:], 0))
	if length < least || length > most {
		return nil, fmt.Errorf("%w: %d, want %d to %d", errFrameLength, length, least, most)
	}
	frame := append(prefix[:], make([]byte, length)...)
	_, err := io.ReadFull(r, frame[prefixLength:])
	return frame, err
}

// bodyOf returns the body of a frame that the client writes.
func bodyOf(frame []byte, least int) ([]byte, error) {
	length := len(frame) - prefixLength
	if length < least || int(int32At(frame, 0)) != length {
		return nil, fmt.Errorf("request: %w: %d bytes are no frame", errFrameLength, len(frame))
	}
	return frame[prefixLength:], nil
}

// int32At and int64At read a field of a frame.
func int32At(b []byte, at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }

func int64At(b []byte, at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

// The rest of the file puts into words why a server may have ended a connection, because
// servers give no reason.

var errEnded = errors.New("the server, or something on the way to it, closed the connection")

// Two reasons why a connection may end as soon as it begins.
const (
	noRoom      = "it accepts no more connections, from here or in all (maxClientCnxns, maxCnxns, connection throttling)"
	nobodyThere = "it is a load balancer without a server"
)

// largeRequest is the length from which a request may be the reason why a server closed
// the connection. A server with a lower limit would be useless.
const largeRequest = 16 << 10

// ending is what is known about a connection that a server has ended.
type ending struct {
	handshaking bool // the handshake was not answered
	resuming    bool // the client requested its existing session
	secured     bool // by TLS
	request     int  // the length of the longest unanswered request
}

// isEnd reports whether err means that the other end has closed the connection.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// endedAtOnce adds the possible reasons to the error of a dial whose connection was
// closed at once. It returns any other error unchanged.
func endedAtOnce(err error) error {
	if !isEnd(err) {
		return err
	}
	return fmt.Errorf("the connection was closed as soon as it was made: %w (one of: %s; %s)",
		err, noRoom, nobodyThere)
}

// explain adds to err every reason that a server may have, because none can be singled
// out.
func (e ending) explain(err error) error {
	if !e.handshaking {
		switch {
		case !isEnd(err):
			return err
		case e.request < largeRequest:
			return fmt.Errorf("%w: %w", errEnded, err)
		}
		return fmt.Errorf("%w: %w (a request of %d bytes was under way; if this happens again, "+
			"it is more than jute.maxbuffer or largeRequestMaxBytes allows)", errEnded, err, e.request)
	}
	reasons := []string{"it is starting, or without a quorum, also in read-only mode", noRoom, nobodyThere}
	switch {
	case e.resuming:
		reasons = append(reasons, "its data are older than what this client has seen")
	case !e.secured:
		reasons = append(reasons, "it is a port for TLS")
	}
	if e.secured {
		reasons = append(reasons, "it refuses the certificate")
	}
	return fmt.Errorf("%w: %w (one of: %s)", errHandshakeRefused, err, strings.Join(reasons, "; "))
}
