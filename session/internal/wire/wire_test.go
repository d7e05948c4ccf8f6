package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

const testTimeout = 9 * time.Second

func TestMuteServerIsGivenUpInLessThanAThirdOfTheTimeout(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		f := &fakeServer{serve: func(n int, c fakeConn) {
			switch n {
			case 1: // accepts and says nothing
			case 2: // answers, but not to the end
				c.handshake()
				_, _ = c.Write(frameOf(grantBody(testTimeout, 7))[:20])
			case 3: // grants less than was asked for, then closes
				c.handshake()
				c.grant(testTimeout/3, 7)
				time.Sleep(time.Second)
				return
			}
			for c.recv() != nil {
			}
		}}
		r := newRig(t, f.dial, testTimeout, Events{}, "a:1")
		start := time.Now()
		r.await(t, zk.StateDisconnected)
		took(t, "a handshake with a mute server", start, testTimeout*3/10)
		if err := r.dialer.LastError(); !errors.Is(err, errHandshakeTimeout) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after a handshake with a mute server the last error is %v, want %v", err, errHandshakeTimeout)
		}
		r.await(t, zk.StateConnected)
		start = time.Now()
		r.await(t, zk.StateDisconnected)
		took(t, "a handshake that stops half-way", start, testTimeout*3/10)
		r.await(t, zk.StateHasSession)
		if got := r.link.Timeout(); got != testTimeout/3 {
			t.Errorf("the negotiated timeout is %v, want %v", got, testTimeout/3)
		}
		if err := r.dialer.LastError(); err != nil {
			t.Errorf("after a handshake the last error is %v, want none", err)
		}
		r.await(t, zk.StateConnected)
		start = time.Now()
		r.await(t, zk.StateDisconnected)
		took(t, "the handshake behind a shorter timeout", start, testTimeout/10)
		r.end(t)
		f.wg.Wait()
	})
}

func TestSecondSessionIsRefused(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []int64
		f := &fakeServer{serve: func(n int, c fakeConn) {
			id, ok := c.handshake()
			if !ok {
				return
			}
			mu.Lock()
			asked = append(asked, id)
			mu.Unlock()
			switch n {
			case 1:
				c.grant(testTimeout, 7) // and closes
			case 2:
				c.grant(0, 0) // expired, and leaves the socket open
				c.echo()
			default:
				c.grant(testTimeout, 8)
				c.echo()
			}
		}}
		var replaced []error
		r := newRig(t, f.dial, testTimeout, Events{
			OnReplaced: func(err error) { mu.Lock(); replaced = append(replaced, err); mu.Unlock() },
		}, "a:1", "b:1")
		r.await(t, zk.StateExpired)
		r.await(t, zk.StateConnected)
		r.await(t, zk.StateDisconnected)
		r.await(t, zk.StateDisconnected) // it goes on trying, and reports only once
		if err := r.dialer.LastError(); !errors.Is(err, errSecondSession) {
			t.Error(err)
		}
		if !f.sock(2).isClosed() {
			t.Error("the socket of the expired handshake is open, want it closed")
		}
		r.end(t)
		f.wg.Wait()
		if want := []int64{0, 7}; !slices.Equal(asked, want) {
			t.Errorf("servers were asked for sessions %d, want %d", asked, want)
		}
		if len(replaced) != 1 || !errors.Is(replaced[0], errSecondSession) {
			t.Errorf("told of %v, want once of %v", replaced, errSecondSession)
		}
		if r.link.Session() != 7 {
			t.Errorf("the link is in session %d, want 7", r.link.Session())
		}
	})
}

func TestReplacedSessionIsNoticed(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		f := &fakeServer{serve: func(n int, c fakeConn) {
			c.handshake()
			c.grant(testTimeout, int64(6+n))
			if n > 1 {
				c.echo()
			}
		}}
		replaced := make(chan error, 10)
		r := newRig(t, f.dial, testTimeout, Events{OnReplaced: func(err error) { replaced <- err }}, "a:1")
		r.await(t, zk.StateHasSession)
		r.await(t, zk.StateConnected)
		r.await(t, zk.StateDisconnected)
		r.await(t, zk.StateDisconnected)
		for len(r.states) > 0 {
			if <-r.states == zk.StateHasSession {
				t.Error("the client took the other session, want it refused")
			}
		}
		r.end(t)
		f.wg.Wait()
		if len(replaced) != 1 {
			t.Fatalf("the replacement was told %d times, want once", len(replaced))
		}
		if err := <-replaced; !errors.Is(err, errSessionReplaced) {
			t.Error(err)
		}
		if r.link.Session() != 7 || r.conn.SessionID() != 7 {
			t.Errorf("the link is in session %d and the client in %d, want 7", r.link.Session(), r.conn.SessionID())
		}
	})
}

// answer is what OnAnswered got.
type answer struct{ op, zkErr int32 }

func TestBadFramesCloseTheConnection(t *testing.T) {
	for name, length := range map[string]uint32{"negative": math.MaxUint32, "huge": 64<<20 + 1, "short": 15, "empty": 0} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				f := &fakeServer{serve: func(_ int, c fakeConn) {
					c.handshake()
					c.grant(testTimeout, 7)
					_, _ = c.Write(binary.BigEndian.AppendUint32(nil, length))
					c.echo()
				}}
				r := newRig(t, f.dial, testTimeout, Events{}, "a:1")
				r.await(t, zk.StateHasSession)
				r.await(t, zk.StateDisconnected)
				if err := r.dialer.LastError(); !errors.Is(err, errFrameLength) {
					t.Error(err)
				}
				if !f.sock(1).isClosed() {
					t.Error("the socket is open after a bad frame, want it closed")
				}
				r.end(t)
				f.wg.Wait()
			})
		})
	}
}

func TestBadHandshakesCloseTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		serve func(c fakeConn)
		want  error
	}{
		"no timeout":       {func(c fakeConn) { c.handshake(); c.grant(0, 7); c.echo() }, errHandshakeMalformed},
		"negative timeout": {func(c fakeConn) { c.handshake(); c.grant(-time.Second, 7); c.echo() }, errHandshakeMalformed},
		"short":            {func(c fakeConn) { c.handshake(); c.send(make([]byte, 15)); c.echo() }, errFrameLength},
		"other protocol":   {func(c fakeConn) { c.handshake(); _, _ = c.Write([]byte("HTTP/1.1 400\r\n")); c.echo() }, errFrameLength},
		"closed":           {func(c fakeConn) { c.handshake() }, errHandshakeRefused},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				f := &fakeServer{serve: func(_ int, conn fakeConn) { c.serve(conn) }}
				refused := make(chan int64, 1000)
				r := newRig(t, f.dial, testTimeout, Events{OnRefused: func(asked int64, err error) {
					if !errors.Is(err, errHandshakeRefused) || !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "without a quorum") {
						t.Error(err)
					}
					refused <- asked
				}}, "a:1")
				r.await(t, zk.StateDisconnected)
				if err := r.dialer.LastError(); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				if told := len(refused) > 0; told != errors.Is(c.want, errHandshakeRefused) {
					t.Errorf("a refusal was told: %v, want that only for a closed connection", told)
				}
				r.end(t)
				f.wg.Wait()
			})
		})
	}
}

// wirePair returns a wire and the server's end of it, outside of any client.
func wirePair(t *testing.T, events Events) (*wire, fakeConn, *Link) {
	t.Helper()
	near, far := net.Pipe()
	l := NewLink(events)
	w, err := newWire(near, near, l, time.Now().Add(3*time.Second), func(error) {})
	eventstest.Must(t, err)
	return w, fakeConn{far}, l
}

func handshakeFrame(id int64) []byte {
	body := make([]byte, 44)
	binary.BigEndian.PutUint64(body[16:], uint64(id))
	return frameOf(body)
}

func TestBytesPassUnchangedInAnyPieces(t *testing.T) {
	for _, size := range []int{1, 2, 3, 5, 7, 30, 1000} {
		eventstest.Bubble(t, func(t *testing.T) {
			answers := 0
			w, far, l := wirePair(t, Events{OnAnswered: func(_, _ time.Time, op, zkErr int32) {
				want := []answer{{op: opcode.Connect}, {op: 4}, {op: opcode.Ping}, {op: 14, zkErr: -5}}[answers]
				if op != want.op || zkErr != want.zkErr {
					t.Errorf("answer %d has op %d and error %d, want %d and %d", answers, op, zkErr, want.op, want.zkErr)
				}
				answers++
			}})
			request := func(xid, op int32, tail int) []byte {
				body := binary.BigEndian.AppendUint32(nil, uint32(xid))
				body = binary.BigEndian.AppendUint32(body, uint32(op))
				return frameOf(append(body, bytes.Repeat([]byte{0xee}, tail)...))
			}
			reply := func(xid, code int32, tail int) []byte {
				body := binary.BigEndian.AppendUint32(nil, uint32(xid))
				body = binary.BigEndian.AppendUint64(body, 99)
				body = binary.BigEndian.AppendUint32(body, uint32(code))
				return frameOf(append(body, bytes.Repeat([]byte{0xdd}, tail)...))
			}
			out := slices.Concat(handshakeFrame(0), request(1, 4, 100), request(xidPing, opcode.Ping, 0), request(2, 14, 0))
			back := slices.Concat(frameOf(grantBody(testTimeout, 7)), reply(1, 0, 200), reply(xidEvent, 0, 20),
				reply(xidPing, 0, 0), reply(77, 0, 3), reply(2, -5, 0))
			var arrived []byte
			var server sync.WaitGroup
			server.Go(func() {
				arrived = make([]byte, len(out))
				if _, err := io.ReadFull(far, arrived); err != nil {
					t.Error(err)
				}
				for rest := back; len(rest) > 0; {
					n, err := far.Write(rest[:min(13, len(rest))])
					if err != nil {
						t.Error(err)
						return
					}
					rest = rest[n:]
				}
			})
			for rest := out; len(rest) > 0; {
				n, err := w.Write(rest[:min(size, len(rest))])
				eventstest.Must(t, err)
				rest = rest[n:]
			}
			var got []byte
			buf := make([]byte, size)
			for len(got) < len(back) {
				n, err := w.Read(buf)
				eventstest.Must(t, err)
				got = append(got, buf[:n]...)
			}
			server.Wait()
			if !bytes.Equal(arrived, out) {
				t.Error("the server read other bytes than the client wrote, want the same")
			}
			if !bytes.Equal(got, back) {
				t.Error("the client read other bytes than the server wrote, want the same")
			}
			if answers != 4 || l.Session() != 7 || l.Timeout() != testTimeout {
				t.Errorf("%d answers in session %d with timeout %v, want 4 in session 7 with %v", answers, l.Session(), l.Timeout(), testTimeout)
			}
			eventstest.Check(t, errors.Join(w.Close(), far.Close()))
		})
	}
}

func TestASplitSecondSessionRequestNeverReachesTheServerWhole(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		w, far, l := wirePair(t, Events{})
		l.establish(7, testTimeout)
		var arrived []byte
		var server sync.WaitGroup
		server.Go(func() { arrived, _ = io.ReadAll(far) })
		var err error
		for _, b := range handshakeFrame(0) {
			if _, err = w.Write([]byte{b}); err != nil {
				break
			}
		}
		server.Wait()
		if !errors.Is(err, errSecondSession) || len(arrived) >= 28 {
			t.Errorf("a second session is asked for: %v after %d bytes, want %v before the 28th", err, len(arrived), errSecondSession)
		}
		eventstest.Check(t, far.Close())
	})
}

func TestDeadlinesBelongToTheClientAfterTheHandshake(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		w, far, _ := wirePair(t, Events{})
		start := time.Now()
		eventstest.Must(t, errors.Join(w.SetReadDeadline(start.Add(20*time.Second)), w.SetWriteDeadline(start.Add(10*time.Second))))
		var server sync.WaitGroup
		server.Go(func() {
			far.handshake()
			far.grant(testTimeout, 7)
		})
		if _, err := w.Write(handshakeFrame(0)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(w, make([]byte, 40)); err != nil {
			t.Fatal(err)
		}
		server.Wait()
		if _, err := w.Write(make([]byte, 4)); err == nil {
			t.Error("Write of an empty request = nil, want an error")
		}
		w2, far2, _ := wirePair(t, Events{})
		server.Go(func() { far2.handshake(); far2.grant(testTimeout, 7) })
		start = time.Now()
		eventstest.Must(t, errors.Join(w2.SetReadDeadline(start.Add(20*time.Second)), w2.SetWriteDeadline(start.Add(10*time.Second))))
		if _, err := w2.Write(handshakeFrame(0)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(w2, make([]byte, 40)); err != nil {
			t.Fatal(err)
		}
		server.Wait()
		if _, err := w2.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 20*time.Second {
			t.Errorf("the first read ends with %v after %v, want its deadline after 20s", err, time.Since(start))
		}
		eventstest.Check(t, w2.SetDeadline(time.Now().Add(time.Second)))
		if _, err := w2.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 21*time.Second {
			t.Errorf("the second read ends with %v after %v, want its deadline after 21s", err, time.Since(start))
		}
		eventstest.Check(t, w2.SetWriteDeadline(time.Now().Add(time.Second)))
		// A write that fails closes the connection, and says nothing: the client hears of it by Read.
		if _, err := w2.Write(make([]byte, 2)); err != nil || time.Since(start) != 22*time.Second {
			t.Errorf("the write ends with %v after %v, want no error after 22s", err, time.Since(start))
		}
		if _, err := w2.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 22*time.Second {
			t.Errorf("the read after the write ends with %v after %v, want a closed connection after 22s", err, time.Since(start))
		}
		for _, c := range []io.Closer{w, w, w2, far, far2} {
			eventstest.Check(t, c.Close())
		}
	})
}

func TestAnsweredBeforeAskedIsRefused(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		w, far, _ := wirePair(t, Events{})
		var server sync.WaitGroup
		server.Go(func() { far.grant(testTimeout, 7) })
		if _, err := io.ReadFull(w, make([]byte, 40)); !errors.Is(err, errHandshakeMalformed) {
			t.Error(err)
		}
		server.Wait()
		eventstest.Check(t, far.Close())
	})
}

func TestOurOwnCloseIsNotBlamedOnTheServer(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		w, far, _ := wirePair(t, Events{OnRefused: func(_ int64, err error) { t.Error(err) }})
		time.AfterFunc(time.Second, func() {
			eventstest.Check(t, w.Close())
		})
		if _, err := w.Read(make([]byte, 4)); err == nil || errors.Is(err, errHandshakeRefused) {
			t.Error(err)
		}
		eventstest.Check(t, far.Close())
	})
}
