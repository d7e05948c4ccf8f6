package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

func TestMuteServerIsGivenUpInLessThanAThirdOfTheTimeout(t *testing.T) {
	f := &fakeServer{serve: func(n int, c fakeConn) {
		switch n {
		case 1: // accepts, and sends nothing
		case 2: // answers incompletely
			c.handshake()
			c.send(grantFrame(testTimeout, 7)[:20])
		case 3: // grants less than requested, then closes
			c.grant(testTimeout/3, 7)
			time.Sleep(time.Second)
			return
		}
		c.ignore()
	}}
	withRig(t, Events{}, f, func(r *rig) {
		start := time.Now()
		r.await(zk.StateDisconnected)
		took(r.T, "a handshake with a mute server", start, testTimeout*3/10)
		if err := r.dialer.LastError(); !errors.Is(err, errHandshakeTimeout) || !errors.Is(err, os.ErrDeadlineExceeded) {
			r.Errorf("after a handshake with a mute server the last error is %v, want %v", err, errHandshakeTimeout)
		}
		r.await(zk.StateConnected)
		start = time.Now()
		r.await(zk.StateDisconnected)
		took(r.T, "a handshake that stops half-way", start, testTimeout*3/10)
		r.await(zk.StateHasSession)
		equal(r.T, r.link.Timeout(), testTimeout/3, "the negotiated timeout")
		eventstest.ErrorIs(r, r.dialer.LastError(), nil, "the last error")
		r.await(zk.StateConnected)
		start = time.Now()
		r.await(zk.StateDisconnected)
		took(r.T, "the handshake behind a shorter timeout", start, testTimeout/10)
	})
}

func TestSecondSessionIsRefused(t *testing.T) {
	asked := make(chan int64, 10_000)
	f := &fakeServer{serve: func(n int, c fakeConn) {
		if id, ok := c.handshake(); ok {
			asked <- id
		}
		switch n {
		case 1:
			c.send(grantFrame(testTimeout, 7)) // and closes
		case 2:
			c.send(grantFrame(0, 0)) // expired, and leaves the socket open
			c.echo()
		default:
			c.send(grantFrame(testTimeout, 8))
			c.echo()
		}
	}}
	events, replaced := failing(ErrReplaced)
	withRig(t, events, f, func(r *rig) {
		// The client keeps trying.
		r.await(zk.StateExpired, zk.StateConnected, zk.StateDisconnected, zk.StateDisconnected)
		if err := r.dialer.LastError(); !errors.Is(err, errSecondSession) || !f.closed(2) || r.link.Session() != 7 {
			r.Errorf("%v in session %d, the socket of the expired handshake closed: %v; want %v in 7, and closed",
				err, r.link.Session(), f.closed(2), errSecondSession)
		}
	}, "b:1")
	expect(t, len(asked) == 2 && <-asked == 0 && <-asked == 7, "servers were asked for others than 0 and 7")
	expect(t, len(replaced) > 0 && errors.Is(<-replaced, errSecondSession), "not told of %v", errSecondSession)
}

func TestReplacedSessionIsNoticed(t *testing.T) {
	f := &fakeServer{serve: func(n int, c fakeConn) {
		if c.grant(testTimeout, int64(6+n)); n > 1 {
			c.echo()
		}
	}}
	events, replaced := failing(ErrReplaced)
	withRig(t, events, f, func(r *rig) {
		r.await(zk.StateHasSession, zk.StateConnected, zk.StateDisconnected, zk.StateDisconnected)
		for len(r.states) > 0 {
			expect(r.T, <-r.states != zk.StateHasSession,
				"the client took the other session, want it refused")
		}
		expect(r.T, r.link.Session() == 7 && r.conn.SessionID() == 7,
			"the link is in session %d and the client in %d, want 7", r.link.Session(), r.conn.SessionID())
	})
	expect(t, len(replaced) > 0 && errors.Is(<-replaced, errSessionReplaced), "not told of %v", errSessionReplaced)
}

// TestBadFramesCloseTheConnection: that includes frames in a handshake. Only a server
// that hangs up has refused the client.
func TestBadFramesCloseTheConnection(t *testing.T) {
	after := func(frame ...byte) func(c fakeConn) {
		return func(c fakeConn) { c.grant(testTimeout, 7); c.send(frame); c.echo() }
	}
	instead := func(frame []byte) func(c fakeConn) {
		return func(c fakeConn) { c.handshake(); c.send(frame); c.echo() }
	}
	for name, c := range map[string]struct {
		serve func(c fakeConn)
		want  error
	}{
		"a negative length":         {after(0xff, 0xff, 0xff, 0xff), errFrameLength},
		"a huge length":             {after(4, 0, 0, 1), errFrameLength},
		"a short answer":            {after(0, 0, 0, 15), errFrameLength},
		"an empty answer":           {after(0, 0, 0, 0), errFrameLength},
		"a session without timeout": {instead(grantFrame(0, 7)), errHandshakeMalformed},
		"no session":                {instead(grantFrame(testTimeout, 0)), errHandshakeMalformed},
		"a negative timeout":        {instead(grantFrame(-time.Second, 7)), errHandshakeMalformed},
		"a short handshake":         {instead(frameOf(make([]byte, 15))), errFrameLength},
		"another protocol":          {instead([]byte("HTTP/1.1 400\r\n")), errFrameLength},
		"no answer":                 {func(c fakeConn) { c.handshake() }, errHandshakeRefused},
	} {
		t.Run(name, func(t *testing.T) {
			events, refused := failing(ErrRefused)
			f := &fakeServer{serve: func(_ int, conn fakeConn) { c.serve(conn) }}
			withRig(t, events, f, func(r *rig) {
				r.await(zk.StateDisconnected)
				if err := r.dialer.LastError(); !errors.Is(err, c.want) || !f.closed(1) {
					r.Errorf("%v, and the socket is closed: %v; want %v, and it closed", err, f.closed(1), c.want)
				}
				equal(r.T, len(refused) > 0, errors.Is(c.want, errHandshakeRefused), "a refusal was told")
				for len(refused) > 0 {
					err := <-refused
					explained := strings.Contains(err.Error(), "without a quorum")
					expect(r.T, errors.Is(err, errHandshakeRefused) && errors.Is(err, io.EOF) && explained,
						"refused with %v, want the reasons", err)
				}
			})
		})
	}
}

// FuzzRead: whatever a server sends to a client without a request, the client gets the
// frames whose length is possible, unchanged, and then an error. The end of a malformed
// event is not passed on, and neither is an answer.
func FuzzRead(f *testing.F) {
	f.Add(replyFrame(xidPing, 0, 1, 2, 3), 3)
	f.Add(append(replyFrame(xidEvent, 0), frameOf(make([]byte, 15))...), 1)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1}, 2)
	f.Add(append(eventFrame("/a"), eventFrame("/b")[:30]...), 7)
	f.Add(slices.Concat(eventFrame("/a"), replyFrame(xidPing, 0), replyFrame(77, 0, 1, 2, 3)), 5)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		least, most := 0, 0 // limits for how many bytes the client gets
		for rest := stream; least == most && len(rest) >= prefixLength; rest = stream[least:] {
			n := int(int32(binary.BigEndian.Uint32(rest)))
			if n < minReply || n > maxFrame || len(rest) < prefixLength+min(n, headSize) || int32At(rest, prefixLength) >= 0 {
				break
			}
			whole := len(rest) >= prefixLength+n
			frame := rest[:min(prefixLength+n, len(rest))]
			most += len(frame)
			switch event := int32At(frame, prefixLength) == xidEvent; {
			case !event || whole && isWellFormed(opEvent, frame[prefixLength+minReply:]):
				least = most
			case whole:
				most--
			}
			if !whole {
				break
			}
		}
		p := established(t, Events{})
		p.in.Reset(bytes.NewReader(stream))
		var got []byte
		for piece := make([]byte, min(max(1, size), 1000)); ; {
			n, err := p.Read(piece)
			if got = append(got, piece[:n]...); err != nil {
				break
			}
		}
		if !bytes.HasPrefix(stream, got) || len(got) < least || len(got) > most {
			t.Fatalf("of %x the client reads %x, want %d to %d bytes", stream, got, least, most)
		}
	})
}

func TestDeadlinesBelongToTheClientAfterTheHandshake(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		p, start := play(t, NewLink(Events{})), time.Now()
		ends := func(what string, after time.Duration, err, want error) {
			t.Helper()
			if got := time.Since(start); !errors.Is(err, want) || got != after {
				t.Errorf("%s ends with %v after %v, want %v after %v", what, err, got, want, after)
			}
		}
		read := func() error { _, err := p.Read(make([]byte, 1)); return err }
		eventstest.Must(t, p.SetReadDeadline(start.Add(20*time.Second)))
		eventstest.Must(t, p.SetWriteDeadline(start.Add(10*time.Second)))
		p.greet(0)
		ends("the first read", 20*time.Second, read(), os.ErrDeadlineExceeded)
		eventstest.Check(t, p.SetDeadline(start.Add(21*time.Second)))
		ends("the second read", 21*time.Second, read(), os.ErrDeadlineExceeded)
		eventstest.Check(t, p.Close())
		p = play(t, NewLink(Events{}))
		p.greet(0)
		eventstest.Check(t, p.SetWriteDeadline(start.Add(22*time.Second)))
		// A write that fails closes the connection, and reports nothing: the client
		// learns of it from Read.
		_, err := p.Write(requestFrame(1, opcode.GetData))
		ends("the write", 22*time.Second, err, nil)
		ends("the read after it", 22*time.Second, read(), io.ErrClosedPipe)
		eventstest.Check(t, errors.Join(p.Close(), p.Close()))
	})
}

// TestWhatBreaksAHandshake: an answer before the request does, and so does our own Close,
// for which the server is not blamed.
func TestWhatBreaksAHandshake(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		p := play(t, NewLink(Events{}))
		go p.peer.send(grantFrame(testTimeout, 7))
		_, err := io.ReadFull(p, make([]byte, 40))
		eventstest.ErrorIs(t, err, errHandshakeMalformed, "an answer without a request is read with")
		own := play(t, NewLink(Events{OnFailed: func(err error) { t.Error(err) }}))
		time.AfterFunc(time.Second, func() { eventstest.Check(t, own.Close()) })
		_, err = own.Read(make([]byte, 4))
		expect(t, err != nil && !errors.Is(err, errHandshakeRefused),
			"a read ends with our own close with %v, want an error that blames no server", err)
		p = established(t, Events{})
		_, err = p.Write(make([]byte, 4))
		expect(t, err != nil, "Write of an empty request = nil, want an error")
	})
}
