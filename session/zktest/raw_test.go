package zktest

import (
	"bufio"
	"net"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// rawClient speaks the protocol without the client library, for what the library hides.
type rawClient struct {
	t *testing.T
	net.Conn
	in  *frameReader
	xid int32
}

func newRaw(t *testing.T, nc net.Conn) *rawClient {
	t.Helper()
	t.Cleanup(func() { _ = nc.Close() })
	return &rawClient{t: t, Conn: nc, in: &frameReader{r: bufio.NewReader(nc)}}
}

// ticket is the result of a handshake.
type ticket struct {
	timeout  int32
	session  int64
	password []byte
	rest     int
}

func (r *rawClient) hello(lastZxid int64, timeout int32, session int64, password []byte, extra ...byte) ticket {
	r.t.Helper()
	r.sendHello(lastZxid, timeout, session, password, extra...)
	body, err := receive(r.t, r.in)
	if err != nil {
		r.t.Fatalf("handshake: %v", err)
	}
	d := &decoder{buf: string(body)}
	d.int32()
	k := ticket{timeout: d.int32(), session: d.int64(), password: d.bytes(), rest: len(d.buf)}
	if d.err != nil {
		r.t.Fatal(d.err)
	}
	return k
}

func (r *rawClient) sendHello(lastZxid int64, timeout int32, session int64, password []byte, extra ...byte) {
	r.t.Helper()
	b := appendInt64(appendInt32(nil, 0), lastZxid)
	b = appendBytes(appendInt64(appendInt32(b, timeout), session), password)
	r.write(frame(append(b, extra...)))
}

func (r *rawClient) write(b []byte) {
	r.t.Helper()
	if _, err := r.Write(b); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rawClient) request(op Op, body []byte) {
	r.t.Helper()
	r.write(r.frame(op, body))
}

// frame is the client's next request, for a caller that writes several at once.
func (r *rawClient) frame(op Op, body []byte) []byte {
	r.xid++
	return frame(append(appendInt32(appendInt32(nil, r.xid), int32(op)), body...))
}

// reply is one frame from the server.
type reply struct {
	xid  int32
	zxid int64
	code Code
	body *decoder
}

func (r *rawClient) next() reply {
	r.t.Helper()
	body, err := receive(r.t, r.in)
	if err != nil {
		r.t.Fatalf("next frame: %v", err)
	}
	d := &decoder{buf: string(body)}
	return reply{d.int32(), d.int64(), Code(d.int32()), d}
}

// ended fails the test unless the server closes the connection now.
func (r *rawClient) ended(what string) {
	r.t.Helper()
	if b, err := receive(r.t, r.in); err == nil {
		r.t.Errorf("%s: the server sent %v, want the end of the connection", what, b)
	}
}

func (r *rawClient) call(op Op, body []byte) reply {
	r.t.Helper()
	r.request(op, body)
	a := r.next()
	if a.xid != r.xid {
		r.t.Fatalf("%v: answer to %d, want %d", op, a.xid, r.xid)
	}
	return a
}

func createBody(p string, flags int32) []byte {
	return appendInt32(appendACLs(appendBytes(appendString(nil, p), nil), openACL()), flags)
}

func (r *rawClient) create(p string, flags int32) string {
	r.t.Helper()
	a := r.call(OpCreate, createBody(p, flags))
	if a.code != ok {
		r.t.Fatalf("create %s: %v", p, a.code)
	}
	return a.body.string()
}

func rawTCP(t *testing.T, addr string) *rawClient {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	eventstest.Must(t, err)
	return newRaw(t, nc)
}

func rawMemory(t *testing.T, s *Server) *rawClient {
	t.Helper()
	nc, err := s.DialContext(t.Context(), "tcp", "anywhere:1")
	eventstest.Must(t, err)
	return newRaw(t, nc)
}
