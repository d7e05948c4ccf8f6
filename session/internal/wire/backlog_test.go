package wire

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

// resumption is a connection that resumes a session, played without the client.
type resumption struct {
	*testing.T
	wire *wire
	peer fakeConn
	xid  int32
}

// resume makes the next connection of the link.
func resume(t *testing.T, l *Link) *resumption {
	t.Helper()
	near, far := net.Pipe()
	w, err := newWire(near, near, l, time.Now().Add(testTimeout), func(error) {})
	eventstest.Must(t, err)
	r := &resumption{T: t, wire: w, peer: fakeConn{far}}
	hello := make([]byte, 4+8+4, 44)
	hello = binary.BigEndian.AppendUint64(hello, 7) // the session
	go func() {
		r.peer.handshake()
		r.peer.grant(testTimeout, 7)
	}()
	r.write(append(hello, make([]byte, 20)...))
	r.read(len(frameOf(grantBody(testTimeout, 7))))
	return r
}

func (r *resumption) write(body []byte) {
	r.Helper()
	if _, err := r.wire.Write(frameOf(body)); err != nil {
		r.Error(err)
	}
}

func (r *resumption) read(n int) {
	r.Helper()
	buf := make([]byte, n)
	for n > 0 {
		got, err := r.wire.Read(buf[:n])
		if err != nil {
			r.Fatal(err)
		}
		n -= got
	}
}

// ask sends a request for watches of the given length and has it answered.
func (r *resumption) ask(length int) {
	r.Helper()
	r.xid++
	body := binary.BigEndian.AppendUint32(nil, uint32(r.xid))
	body = binary.BigEndian.AppendUint32(body, uint32(opcode.SetWatches))
	body = append(body, make([]byte, length-len(body))...)
	go func() { r.peer.reply(r.peer.recv(), 0) }()
	r.write(body)
}

// hears returns how long an answer takes to be read.
func (r *resumption) hears() time.Duration {
	r.Helper()
	start := time.Now()
	r.read(4 + minReply)
	return time.Since(start)
}

func (r *resumption) end() { _ = r.wire.Close() }

// A request for watches that an earlier connection has left lets no answer through.
func TestAnswersWaitForTheRequestOfTheirOwnConnection(t *testing.T) {
	const short = 100
	for name, test := range map[string]struct {
		left func(t *testing.T, l *Link) // what came before
		// want is how long it takes until the answer to each of several requests, a millisecond apart, can be read.
		want []time.Duration
	}{
		"nothing left":       {func(*testing.T, *Link) {}, []time.Duration{0}},
		"one may be left":    {leavesOne, []time.Duration{time.Millisecond, 0}},
		"it was not left":    {leavesOne, []time.Duration{restoreMax}},
		"two may be left":    {leavesTwo, []time.Duration{2 * time.Millisecond, 0, 0}},
		"one of two went":    {leavesOneOfTwo, []time.Duration{time.Millisecond, 0}},
		"a long one":         {readAnswer(longRequest), []time.Duration{time.Millisecond, 0}},
		"a short one":        {readAnswer(short), []time.Duration{0}},
		"waited in vain":     {waitedInVain, []time.Duration{0}},
		"a short one unread": {unreadAnswer(short), []time.Duration{0}},
		"a long one unread":  {unreadAnswer(longRequest), []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				l := NewLink(Events{})
				test.left(t, l)
				r := resume(t, l)
				defer r.end()
				go func() {
					for i := range test.want {
						if i > 0 {
							time.Sleep(time.Millisecond)
						}
						r.ask(short)
					}
				}()
				for i, want := range test.want {
					if got := r.hears(); got != want {
						t.Errorf("answer %d was read after %v, want %v", i, got, want)
					}
				}
			})
		})
	}
}

// leavesOneOfTwo loses two connections. The second one has sent what the first left.
func leavesOneOfTwo(t *testing.T, l *Link) {
	t.Helper()
	resume(t, l).end()
	r := resume(t, l)
	r.ask(100)
	r.end()
}

func leavesOne(t *testing.T, l *Link) {
	t.Helper()
	resume(t, l).end()
}

func leavesTwo(t *testing.T, l *Link) {
	t.Helper()
	resume(t, l).end()
	resume(t, l).end()
}

// readAnswer loses the connection after the answer to a request has been read.
func readAnswer(length int) func(*testing.T, *Link) {
	return func(t *testing.T, l *Link) {
		t.Helper()
		r := resume(t, l)
		go r.ask(length)
		r.hears()
		r.end()
	}
}

// unreadAnswer loses it before.
func unreadAnswer(length int) func(*testing.T, *Link) {
	return func(t *testing.T, l *Link) {
		t.Helper()
		r := resume(t, l)
		r.ask(length)
		r.end()
	}
}

// waitedInVain is a client without watches. Its answers have waited for as long as they do at most.
func waitedInVain(t *testing.T, l *Link) {
	t.Helper()
	resume(t, l).end()
	r := resume(t, l)
	go func() { r.peer.reply([]byte{3: 9}, 0) }()
	if took := r.hears(); took != restoreMax {
		t.Errorf("the answer waited for %v, want %v", took, restoreMax)
	}
	r.end()
}
