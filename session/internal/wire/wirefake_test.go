package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testTimeout = 9 * time.Second

// expect fails the test unless the condition holds.
func expect(tb testing.TB, holds bool, format string, args ...any) {
	tb.Helper()
	eventstest.Expect(tb, holds, format, args...)
}

// equal fails the test unless got equals want. what describes the value.
func equal[T comparable](tb testing.TB, got, want T, what string, args ...any) {
	tb.Helper()
	expect(tb, got == want, "%s: %v, want %v", fmt.Sprintf(what, args...), got, want)
}

// bytesOf encodes numbers, texts with their lengths, and bytes, as in the protocol.
func bytesOf(parts ...any) (b []byte) {
	for _, part := range parts {
		switch part := part.(type) {
		case int32:
			b = binary.BigEndian.AppendUint32(b, uint32(part))
		case int64:
			b = binary.BigEndian.AppendUint64(b, uint64(part))
		case string:
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
		case []byte:
			b = append(b, part...)
		}
	}
	return b
}

func textOf(s string) []byte { return bytesOf(s) }

func numbersOf(numbers ...int32) (b []byte) {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// frameOf puts the length before a body.
func frameOf(parts ...any) []byte { return bytesOf(string(bytesOf(parts...))) }

// handshakeFrame requests a session, and grantFrame grants one.
func handshakeFrame(id int64) []byte { return frameOf(make([]byte, 16), id, make([]byte, 20)) }

func grantFrame(timeout time.Duration, id int64) []byte {
	return frameOf(int32(0), int32(timeout/time.Millisecond), id, int32(16), make([]byte, 16))
}

// requestFrame and replyFrame return frames with these bytes after their headers.
func requestFrame(xid, op int32, tail ...byte) []byte { return frameOf(xid, op, tail) }

func replyFrame(xid, code int32, tail ...byte) []byte { return frameOf(xid, int64(99), code, tail) }

// eventFrame reports that the node at the path is deleted.
func eventFrame(path string) []byte {
	const deleted, connected = 2, 3
	return replyFrame(xidEvent, 0, bytesOf(int32(deleted), int32(connected), path)...)
}

// fakeConn is the server's end of a connection. If the client is gone, the next recv
// shows that.
type fakeConn struct{ net.Conn }

// recv returns the body of the next frame, or nil if the connection has ended.
func (c fakeConn) recv() []byte {
	var prefix [4]byte
	if _, err := io.ReadFull(c, prefix[:]); err != nil {
		return nil
	}
	body := make([]byte, int32At(prefix[:], 0))
	if _, err := io.ReadFull(c, body); err != nil {
		return nil
	}
	return body
}

func (c fakeConn) send(frame []byte) { _, _ = c.Write(frame) }

// handshake reads the request, and returns its session ID.
func (c fakeConn) handshake() (asked int64, ok bool) {
	if body := c.recv(); body != nil {
		return int64At(body, 16), true
	}
	return 0, false
}

// grant answers a handshake.
func (c fakeConn) grant(timeout time.Duration, id int64) {
	c.handshake()
	c.send(grantFrame(timeout, id))
}

// echo answers every request with success until the client leaves.
func (c fakeConn) echo() {
	for request := c.recv(); request != nil; request = c.recv() {
		c.send(replyFrame(int32At(request, 0), 0))
	}
}

// ignore reads until the client leaves.
func (c fakeConn) ignore() { _, _ = io.Copy(io.Discard, c) }

// inBubbles runs the test in virtual time for each case.
func inBubbles[C any](t *testing.T, cases map[string]C, test func(t *testing.T, c C)) {
	t.Helper()
	for name, c := range cases {
		eventstest.Case(t, name, func(t *testing.T) { test(t, c) })
	}
}

// fakeServer plays the servers of an ensemble over in-memory pipes, with one goroutine
// per connection. serve decides what it does on each, and gets the number of the
// connection, from 1.
type fakeServer struct {
	serve func(n int, c fakeConn)

	mu    sync.Mutex
	socks []*countingConn
	wg    sync.WaitGroup
}

// countingConn is the client's end. It counts the writes, and records whether it was
// closed.
type countingConn struct {
	net.Conn
	writes atomic.Int64
	closed atomic.Bool
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func (c *countingConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

func (f *fakeServer) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	f.mu.Lock()
	defer f.mu.Unlock()
	sock := &countingConn{Conn: near}
	f.socks = append(f.socks, sock)
	n := len(f.socks)
	f.wg.Go(func() {
		defer far.Close()
		f.serve(n, fakeConn{far})
	})
	return sock, nil
}

// closed reports whether the client has closed its n-th connection.
func (f *fakeServer) closed(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.socks[n-1].closed.Load()
}

// dialerOf returns a dialer with what every test needs.
func dialerOf(t *testing.T, events Events, cfg Dialing) *Dialer {
	t.Helper()
	cfg.Asked, cfg.Rng = testTimeout, testRand()
	d := NewDialer(NewLink(events), cfg)
	t.Cleanup(d.Stop)
	return d
}

// failing returns events that pass on the failures of this kind.
func failing(kind error) (Events, <-chan error) {
	told := make(chan error, 10_000)
	return Events{OnFailed: func(err error) {
		if errors.Is(err, kind) {
			told <- err
		}
	}}, told
}

// rig is the real client with our hosts, dialer and wire.
type rig struct {
	*testing.T
	dialer *Dialer
	link   *Link
	conn   *zk.Conn
	done   <-chan zk.Event
	states chan zk.State
}

// withRig runs the test in virtual time, with a client of these servers.
func withRig(t *testing.T, events Events, f *fakeServer, test func(r *rig), names ...string) {
	t.Helper()
	eventstest.Bubble(t, func(t *testing.T) {
		r := newRig(t, events, Dialing{Dial: f.dial}, append(names, "a:1")...)
		test(r)
		r.end()
		f.wg.Wait()
	})
}

// newRig connects a client. Call end before the bubble ends.
func newRig(t *testing.T, events Events, cfg Dialing, names ...string) *rig {
	t.Helper()
	cfg.Hosts = NewHosts(names, testRand())
	d := dialerOf(t, events, cfg)
	r := &rig{T: t, states: make(chan zk.State, 10_000), dialer: d, link: d.link}
	var err error
	r.conn, r.done, err = zk.Connect(names, testTimeout,
		zk.WithHostProvider(cfg.Hosts), zk.WithDialer(d.Dial),
		zk.WithLogger(eventstest.Quiet{}), zk.WithLogInfo(false),
		zk.WithEventCallback(func(e zk.Event) {
			if e.Type == zk.EventSession {
				select {
				case r.states <- e.State:
				default: // the test has seen enough
				}
			}
		}))
	eventstest.Must(t, err)
	return r
}

// await waits for states, one after another.
func (r *rig) await(wants ...zk.State) {
	r.Helper()
	timeout := time.After(5 * time.Minute)
	for _, want := range wants {
		for got := zk.State(-1); got != want; {
			select {
			case got = <-r.states:
			case <-timeout:
				err := r.dialer.LastError()
				r.end()
				r.Fatalf("no %v; last error: %v", want, err)
			}
		}
	}
}

// end closes the client and waits until its goroutines have ended.
func (r *rig) end() {
	r.Helper()
	r.dialer.Stop()
	r.conn.Close()
	eventstest.Check(r, r.dialer.HardClose())
	for range r.done {
	}
}

// took fails the test unless exactly this much time has passed since start.
func took(t *testing.T, what string, start time.Time, want time.Duration) {
	t.Helper()
	equal(t, time.Since(start), want, "%s takes", what)
}

// played is a wire without a client. The test reads and writes at both ends.
type played struct {
	*testing.T
	*wire
	peer fakeConn
	xid  int32
}

// play makes the link's next connection.
func play(t *testing.T, l *Link) *played {
	t.Helper()
	near, far := net.Pipe()
	w, err := newWire(near, near, l, time.Now().Add(testTimeout/3), func(error) {})
	eventstest.Must(t, err)
	w.server = "zk1:2181"
	t.Cleanup(func() { _, _ = w.Close(), far.Close() })
	return &played{T: t, wire: w, peer: fakeConn{far}}
}

// established returns a wire after its handshake, of which nothing was really sent.
func established(t *testing.T, events Events) *played {
	t.Helper()
	p := play(t, NewLink(events))
	p.noteOut(handshakeFrame(0))
	p.noteIn(grantFrame(testTimeout, 7))
	return p
}

// noteOut and noteIn make the wire follow a frame that is neither sent nor received.
func (p *played) noteOut(frame []byte) {
	p.Helper()
	p.mu.Lock()
	_, err := p.request(frame, p.link.Events.Now())
	p.mu.Unlock()
	eventstest.Must(p.T, err)
}

func (p *played) noteIn(frame []byte) {
	p.Helper()
	if body := frame[prefixLength:]; p.handshaking {
		eventstest.Must(p.T, p.greeted(body))
	} else {
		copy(p.head[:], body)
		p.length = len(body)
		p.received()
	}
}

// greet resumes a session, or requests a new one if session is 0. The server grants
// session 7.
func (p *played) greet(session int64) {
	p.Helper()
	go p.peer.grant(testTimeout, 7)
	p.ask(handshakeFrame(session))
	p.receive(len(grantFrame(testTimeout, 7)))
}

// ask makes the client send a request.
func (p *played) ask(frame []byte) {
	p.Helper()
	_, err := p.Write(frame)
	eventstest.Check(p.T, err)
}

// receive makes the client read this many bytes, and returns how long that takes.
func (p *played) receive(n int) time.Duration {
	p.Helper()
	start := time.Now()
	_, err := io.ReadFull(p.wire, make([]byte, n))
	eventstest.Must(p.T, err)
	return time.Since(start)
}

// hear makes the server send a frame, and the client read it.
func (p *played) hear(frame []byte) time.Duration {
	p.Helper()
	go p.peer.send(frame)
	return p.receive(len(frame))
}

// watches requests watches with a request of this length, which the server reads and
// answers.
func (p *played) watches(length int) {
	p.Helper()
	p.xid++
	frame := requestFrame(p.xid, opcode.SetWatches, make([]byte, length-minRequest)...)
	go func(xid int32) {
		p.peer.recv()
		p.peer.send(replyFrame(xid, 0))
	}(p.xid)
	p.ask(frame)
}
