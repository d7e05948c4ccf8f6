package wire

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// fakeServer plays the servers of an ensemble over in-memory pipes, one goroutine a connection. serve decides what it does on each,
// and gets the number of the connection, from 1.
type fakeServer struct {
	serve func(n int, c fakeConn)

	mu    sync.Mutex
	dials []time.Time
	addrs []string
	socks []*countingConn
	wg    sync.WaitGroup
}

// countingConn is the client's end. It knows whether it was closed.
type countingConn struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (c *countingConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *countingConn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

func (f *fakeServer) dial(_ context.Context, _, addr string) (net.Conn, error) {
	near, far := net.Pipe()
	sock := &countingConn{Conn: near, closed: make(chan struct{})}
	f.mu.Lock()
	f.dials = append(f.dials, time.Now())
	f.addrs = append(f.addrs, addr)
	f.socks = append(f.socks, sock)
	n := len(f.dials)
	f.mu.Unlock()
	f.wg.Go(func() {
		defer far.Close()
		f.serve(n, fakeConn{far})
	})
	return sock, nil
}

func (f *fakeServer) sock(n int) *countingConn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.socks[n-1]
}

// fakeConn is the server's end of a connection.
type fakeConn struct{ net.Conn }

// recv returns the body of the next frame, nil if the connection has ended.
func (c fakeConn) recv() []byte {
	var prefix [4]byte
	if _, err := io.ReadFull(c, prefix[:]); err != nil {
		return nil
	}
	body := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return nil
	}
	return body
}

// send sends a frame. If the client has gone, the next recv shows it.
func (c fakeConn) send(body []byte) { _, _ = c.Write(frameOf(body)) }

// handshake reads the request and returns the session id in it.
func (c fakeConn) handshake() (asked int64, ok bool) {
	body := c.recv()
	if body == nil {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(body[16:])), true
}

func (c fakeConn) grant(timeout time.Duration, id int64) { c.send(grantBody(timeout, id)) }

func grantBody(timeout time.Duration, id int64) []byte {
	body := binary.BigEndian.AppendUint32(nil, 0)
	body = binary.BigEndian.AppendUint32(body, uint32(timeout/time.Millisecond))
	body = binary.BigEndian.AppendUint64(body, uint64(id))
	body = binary.BigEndian.AppendUint32(body, 16)
	return append(body, make([]byte, 16)...)
}

// reply answers a request with a header only. A nil request gets no answer.
func (c fakeConn) reply(request []byte, code int32) {
	if request == nil {
		return
	}
	body := append([]byte(nil), request[:4]...)
	body = binary.BigEndian.AppendUint64(body, 1)
	c.send(binary.BigEndian.AppendUint32(body, uint32(code)))
}

// echo answers every request with success until the client goes.
func (c fakeConn) echo() {
	for {
		request := c.recv()
		if request == nil {
			return
		}
		c.reply(request, 0)
	}
}

// rig is the real client on our hosts, dialer and wire.
type rig struct {
	hosts  *Hosts
	dialer *Dialer
	link   *Link
	conn   *zk.Conn
	done   <-chan zk.Event
	states chan zk.State
}

// newRig connects a client; call end before the bubble does.
func newRig(t *testing.T, dial DialFunc, timeout time.Duration, events Events, names ...string) *rig {
	t.Helper()
	r := &rig{link: NewLink(events), states: make(chan zk.State, 10_000)}
	r.hosts = NewHosts(names, testRand())
	r.dialer = NewDialer(t.Context(), r.link, Dialing{Dial: dial, Asked: timeout, Rng: testRand()})
	r.connect(t, timeout, names...)
	return r
}

// connect starts the client.
func (r *rig) connect(t *testing.T, timeout time.Duration, names ...string) {
	t.Helper()
	conn, done, err := zk.Connect(names, timeout,
		zk.WithHostProvider(r.hosts), zk.WithDialer(r.dialer.Dial), zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false),
		zk.WithEventCallback(func(e zk.Event) {
			if e.Type == zk.EventSession {
				select {
				case r.states <- e.State:
				default: // the test has seen enough
				}
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	r.conn, r.done = conn, done
}

// await waits for a state.
func (r *rig) await(t *testing.T, want zk.State) {
	t.Helper()
	timeout := time.NewTimer(5 * time.Minute)
	defer timeout.Stop()
	for {
		select {
		case s := <-r.states:
			if s == want {
				return
			}
		case <-timeout.C:
			err := r.dialer.LastError()
			r.end(t)
			t.Fatalf("no %v; last error: %v", want, err)
		}
	}
}

// endWithin is end, and fails the test if it takes longer.
func (r *rig) endWithin(t *testing.T, most time.Duration) {
	t.Helper()
	if took := r.end(t); took > most {
		t.Errorf("the client ends after %v, want %v at most", took, most)
	}
}

// took fails the test unless exactly so much time has passed since start.
func took(t *testing.T, what string, start time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(start); got != want {
		t.Errorf("%s takes %v, want %v", what, got, want)
	}
}

// end closes the client and waits until its goroutines have ended. It returns how long that took.
func (r *rig) end(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	r.dialer.Stop()
	r.conn.Close()
	eventstest.Check(t, r.dialer.HardClose())
	for range r.done {
	}
	return time.Since(start)
}
