package zktest

import (
	"bufio"
	"net"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// rawClient speaks the protocol without the client library, to test what the library
// hides.
type rawClient struct {
	net.Conn
	ticket

	tb  testing.TB
	in  *frameReader
	xid int32
}

// ticket is what a handshake requests, and what the server grants.
type ticket struct {
	timeout  int32
	session  int64
	password []byte
}

type reply struct {
	xid  int32
	zxid int64
	code Code
	body *decoder
}

func newRaw(tb testing.TB, nc net.Conn) *rawClient {
	tb.Helper()
	tb.Cleanup(func() { _ = nc.Close() })
	return &rawClient{tb: tb, Conn: nc, in: &frameReader{r: bufio.NewReader(nc)}}
}

func rawTCP(tb testing.TB, addr string) *rawClient {
	tb.Helper()
	nc, err := net.Dial("tcp", addr)
	eventstest.Must(tb, err)
	return newRaw(tb, nc)
}

func rawMemory(tb testing.TB, s *Server) *rawClient {
	tb.Helper()
	nc, err := s.DialContext(tb.Context(), "tcp", "anywhere:1")
	eventstest.Must(tb, err)
	return newRaw(tb, nc)
}

// member returns a client with a session, for which it requests a timeout in
// milliseconds.
func member(tb testing.TB, s *Server, timeout int32) *rawClient {
	tb.Helper()
	r := rawMemory(tb, s)
	r.ticket = r.hello(ticket{timeout: timeout})
	return r
}

// withMember runs the test in virtual time, on a server with such a client.
func withMember(t *testing.T, timeout int32, test func(t *testing.T, s *Server, r *rawClient), settings ...Setting) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		s := Start(t, settings...)
		test(t, s, member(t, s, timeout))
	})
}

// greeting returns the body of a handshake. A ticket without a session requests a new
// one.
func greeting(newest int64, k ticket) []byte {
	if k.password == nil {
		k.password = make([]byte, passwordLength)
	}
	b := appendInt32(appendInt64(appendInt32(nil, 0), newest), k.timeout)
	return appendBytes(appendInt64(b, k.session), k.password)
}

// decodeTicket decodes the answer to a handshake, and returns what may follow it.
func decodeTicket(body []byte) (protocol int32, k ticket, rest *decoder) {
	d := &decoder{buf: string(body)}
	return d.int32(), ticket{d.int32(), d.int64(), d.bytes()}, d
}

func decodeReply(body []byte) (reply, error) {
	d := &decoder{buf: string(body)}
	r := reply{d.int32(), d.int64(), Code(d.int32()), d}
	return r, d.err
}

// hello makes a handshake. The answer has no session if there is none to resume.
func (r *rawClient) hello(k ticket) ticket {
	r.tb.Helper()
	r.write(frame(greeting(0, k)))
	body, err := r.receive()
	eventstest.Must(r.tb, err)
	_, k, rest := decodeTicket(body)
	eventstest.Must(r.tb, rest.err)
	return k
}

// resumes reports whether the client's session can be resumed on a new connection.
func (r *rawClient) resumes(s *Server) bool {
	r.tb.Helper()
	return rawMemory(r.tb, s).hello(r.ticket).session == r.session
}

func (r *rawClient) write(b []byte) {
	r.tb.Helper()
	_, err := r.Write(b)
	eventstest.Must(r.tb, err)
}

// frame returns the client's next request, for a caller that writes several at once.
func (r *rawClient) frame(op Op, body []byte) []byte {
	r.xid++
	return requestFrame(r.xid, op, body)
}

func requestFrame(xid int32, op Op, body []byte) []byte {
	return frame(append(appendInt32(appendInt32(nil, xid), int32(op)), body...))
}

func (r *rawClient) request(op Op, body []byte) {
	r.tb.Helper()
	r.write(r.frame(op, body))
}

// receive returns the next frame, or why there is none. It fails the test if neither
// happens.
func (r *rawClient) receive() ([]byte, error) {
	r.tb.Helper()
	type outcome struct {
		body []byte
		err  error
	}
	came := make(chan outcome, 1)
	go func() {
		body, err := r.in.next()
		came <- outcome{body, err}
	}()
	got := eventstest.Receive(r.tb, came, "a frame from the server, or the end of the connection")
	return got.body, got.err
}

func (r *rawClient) next() reply {
	r.tb.Helper()
	body, err := r.receive()
	eventstest.Must(r.tb, err)
	a, err := decodeReply(body)
	eventstest.Must(r.tb, err)
	return a
}

// ended fails the test unless the server closes the connection now.
func (r *rawClient) ended(what string) {
	r.tb.Helper()
	if b, err := r.receive(); err == nil {
		r.tb.Errorf("%s: the server sent %v, want the end of the connection", what, b)
	}
}

// call returns the answer to a request. No event may precede it.
func (r *rawClient) call(op Op, body []byte) reply {
	r.tb.Helper()
	r.request(op, body)
	a := r.next()
	if a.xid != r.xid {
		r.tb.Fatalf("%v: answer to %d, want %d", op, a.xid, r.xid)
	}
	return a
}

func (r *rawClient) can(op Op, body []byte, want Code) reply {
	r.tb.Helper()
	a := r.call(op, body)
	eventstest.Expect(r.tb, a.code == want, "%v: %v, want %v", op, a.code, want)
	return a
}

// about returns the body of a read. watched arms a watch.
func about(path string, watched bool) []byte { return appendBool(appendString(nil, path), watched) }

func createBody(p string, flags int32) []byte {
	return appendInt32(appendACLs(appendBytes(appendString(nil, p), nil), openACL()), flags)
}

// versioned returns the body of a request with a node's version, or with a kind of watch.
func versioned(path string, version int32) []byte {
	return appendInt32(appendString(nil, path), version)
}

func setBody(path, data string) []byte {
	return appendInt32(appendBytes(appendString(nil, path), []byte(data)), -1)
}
