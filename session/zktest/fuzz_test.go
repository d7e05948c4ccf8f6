package zktest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// FuzzFrames sends arbitrary bytes to a server, as they are and as requests of an established session. The server must neither panic nor
// hang, and another client goes on working meanwhile and afterwards.
func FuzzFrames(f *testing.F) {
	hello := frame(appendBytes(appendInt64(appendInt32(appendInt64(appendInt32(nil, 0), 0), 10000), 0), make([]byte, 16)))
	request := func(op Op, body []byte) []byte {
		return append(appendInt32(appendInt32(nil, 1), int32(op)), body...)
	}
	f.Add(false, hello)
	f.Add(false, []byte("ruok"))
	f.Add(false, []byte{0xff, 0xff, 0xff, 0xff})
	f.Add(true, request(OpPing, nil))
	f.Add(true, request(OpCreate, createBody("/a", 3)))
	f.Add(true, request(OpMulti, multiBody(part(OpCreate, createBody("/a", 0)), part(OpCheck, appendInt32(appendString(nil, "/a"), 0)))))
	f.Add(true, request(OpSetWatches, appendStrings(appendStrings(appendStrings(appendInt64(nil, 0), []string{"/a"}), nil), nil)))
	f.Add(true, request(OpAuth, appendBytes(appendString(appendInt32(nil, 0), "digest"), []byte("a:b"))))
	f.Add(true, request(OpSetACL, appendInt32(appendACLs(appendString(nil, "/"), openACL()), -1)))
	f.Add(true, request(OpGetChildren2, appendBool(appendString(nil, "/"), true)))
	f.Add(true, request(OpClose, nil))
	f.Add(true, request(OpCreateTTL, appendInt64(createBody("/a", flagTTL), 1000)))
	f.Add(true, request(OpRemoveWatches, appendInt32(appendString(nil, "/a"), kindAny)))
	f.Add(false, []byte("mntr"))
	f.Add(true, request(OpCreate, createBody(quotaRoot+"/a", 0)))
	f.Fuzz(func(t *testing.T, established bool, data []byte) {
		s, err := New(InMemory(), ExtendedTypes(), EnforceQuotas())
		eventstest.Must(t, err)
		defer s.Close()
		decent := newNeighbour(t, s)
		nc, err := s.DialContext(t.Context(), "tcp", "")
		eventstest.Must(t, err)
		eventstest.Must(t, nc.SetDeadline(time.Now().Add(10*time.Second)))
		if established {
			// The bytes become one frame. Then they are taken as frames themselves.
			data = append(append(hello[:len(hello):len(hello)], frame(data)...), data...)
		}
		var sending sync.WaitGroup
		sending.Go(func() {
			_, _ = nc.Write(data) // the server may have hung up by now
			_ = nc.Close()
		})
		decent.works()
		sending.Wait()
		decent.works()
		if k := rawMemory(t, s).hello(0, 10000, 0, make([]byte, 16)); k.session == 0 {
			t.Fatal("a client that comes later is given session 0, want one")
		}
	})
}

// part is a request in a multi. multiBody puts requests together.
func part(op Op, body []byte) []byte { return append(appendPart(nil, op, false, -1), body...) }

func multiBody(parts ...[]byte) []byte {
	return appendPart(slices.Concat(parts...), opError, true, -1)
}

// neighbour is a client that shares a server with a bad one. Only it may touch the nodes that it works with.
type neighbour struct {
	*rawClient
	dir string
}

func newNeighbour(t *testing.T, s *Server) *neighbour {
	t.Helper()
	n := &neighbour{rawMemory(t, s), "/neighbour"}
	n.hello(0, 10000, 0, make([]byte, 16))
	own := []acl{{permAll, digest([]byte("neighbour:secret"))}}
	n.call(OpAuth, appendBytes(appendString(appendInt32(nil, 0), "digest"), []byte("neighbour:secret")))
	for _, p := range []string{n.dir, n.dir + "/node"} {
		body := appendInt32(appendACLs(appendBytes(appendString(nil, p), nil), own), 0)
		if a := n.call(OpCreate, body); a.code != ok {
			t.Fatalf("create %s: %v", p, a.code)
		}
	}
	return n
}

// works fails the test unless a watch, a write with its event, and a read have the right answers.
func (n *neighbour) works() {
	n.t.Helper()
	node := n.dir + "/node"
	if a := n.call(OpGetData, appendBool(appendString(nil, node), true)); a.code != ok {
		n.t.Fatalf("get: %v", a.code)
	}
	n.request(OpSetData, appendInt32(appendBytes(appendString(nil, node), []byte("x")), -1))
	if e := n.next(); e.xid != -1 {
		n.t.Fatalf("the first frame is %+v, want the event", e)
	}
	if a := n.next(); a.code != ok {
		n.t.Fatalf("set: %v", a.code)
	}
	a := n.call(OpGetChildren, appendBool(appendString(nil, n.dir), false))
	if list := a.body.strings(); a.code != ok || !slices.Equal(list, []string{"node"}) {
		n.t.Fatalf("the children are %v, %v; want the one node", list, a.code)
	}
}

// FuzzDecoder checks the decoder's bounds: it reads no more than there is and allocates nothing that the input could not fill.
func FuzzDecoder(f *testing.F) {
	f.Add(int32(OpCreate), createBody("/a", 0))
	f.Add(int32(OpMulti), multiBody(part(OpCreate, createBody("/a", 0))))
	f.Add(int32(OpSetWatches), []byte{0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, op int32, data []byte) {
		q, err := decodeCall(Op(op), &decoder{buf: string(data)})
		if err != nil {
			return
		}
		size := len(q.path) + len(q.data) + len(q.parts) + len(q.acls) + len(q.dataWatches)
		if size > len(data) {
			t.Errorf("%d bytes are decoded into %d, want at most as many", len(data), size)
		}
	})
}

func TestDecoderIsBounded(t *testing.T) {
	huge := binary.BigEndian.AppendUint32(nil, 1<<31-1)
	for name, read := range map[string]func(*decoder){
		"bytes":   func(d *decoder) { d.bytes() },
		"string":  func(d *decoder) { _ = d.string() },
		"strings": func(d *decoder) { d.strings() },
		"acls":    func(d *decoder) { d.acls() },
		"int64":   func(d *decoder) { d.int64() },
	} {
		d := &decoder{buf: string(huge)}
		read(d)
		if d.err == nil {
			t.Errorf("%s: the decoder reads what is not there, want an error", name)
		}
		if read(d); d.err == nil {
			t.Errorf("%s: the error is gone at the second reading, want it kept", name)
		}
	}
}

func TestTheFrameReaderEndsBetweenFrames(t *testing.T) {
	r := &frameReader{r: newBufferedReader(append(frame([]byte("one")), frame(nil)...))}
	if b, err := r.next(); err != nil || string(b) != "one" {
		t.Errorf("the first frame is %q, %v; want one", b, err)
	}
	if b, err := r.next(); err != nil || len(b) != 0 {
		t.Errorf("the second frame is %q, %v; want an empty one", b, err)
	}
	if _, err := r.next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end the reader says %v, want %v", err, io.EOF)
	}
}

// largest repeats piece until no more fits into a frame.
func largest(head, piece []byte) []byte {
	n := (maxFrame - 8 - len(head)) / len(piece)
	return append(slices.Clone(head), bytes.Repeat(piece, n)...)
}

// TestDecodingIsProportional decodes the largest frames that consist of the
// smallest parts: what they take up is bounded by what was sent.
func TestDecodingIsProportional(t *testing.T) {
	const factor = 80 // a check in a multi is 17 bytes, and a few hundred when it is decoded
	empty := appendString(nil, "")
	check := append(appendPart(nil, OpCheck, false, -1), appendInt32(empty, -1)...)
	for name, test := range map[string]struct {
		op   Op
		body []byte
	}{
		"multi":            {OpMulti, largest(nil, check)},
		"watches":          {OpSetWatches, largest(appendInt32(appendInt64(nil, 0), 200_000), empty)},
		"too many watches": {OpSetWatches, largest(appendInt32(appendInt64(nil, 0), 1<<31-1), empty)},
		"access list": {OpCreate, largest(appendInt32(appendBytes(appendString(nil, "/a"), nil), 80_000),
			appendString(appendString(appendInt32(nil, 31), ""), ""))},
		"too long an access list": {OpCreate, largest(appendInt32(appendBytes(appendString(nil, "/a"), nil), 1<<31-1), []byte{0})},
		"data":                    {OpSetData, largest(appendInt32(appendString(nil, "/a"), 1_000_000), []byte{0})},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			q, err := decodeCall(test.op, &decoder{buf: string(test.body)})
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(q)
			taken := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes took %d (%v)", len(test.body), taken, err)
			if limit := factor * uint64(len(test.body)); taken > limit {
				t.Errorf("%d bytes took %d, want at most %d", len(test.body), taken, limit)
			}
		})
	}
}

// TestFramesAreNotKept sends requests that leave a small thing on the server and fill their frames with meaningless bytes.
func TestFramesAreNotKept(t *testing.T) {
	const frames, size = 20, 500_000
	create := func(id identity, flags int32) func(string) []byte {
		return func(p string) []byte {
			b := appendBytes(appendString(nil, p), []byte(p))
			return appendInt32(appendACLs(b, []acl{{permAll, id}}), flags)
		}
	}
	anyone := identity{"world", "anyone"}
	for name, test := range map[string]struct {
		op   Op
		body func(path string) []byte
	}{
		"node":            {OpCreate, create(anyone, 0)},
		"sequential node": {OpCreate, create(anyone, flagSequential)},
		"digest":          {OpCreate, create(identity{"digest", "user:hash"}, flagSequential)},
		"ip":              {OpCreate, create(identity{"ip", "10.0.0.1"}, flagSequential)},
		"part of a multi": {OpMulti, func(p string) []byte { return multiBody(part(OpCreate, createBody(p, 0))) }},
		"watch":           {OpExists, func(p string) []byte { return appendBool(appendString(nil, p), true) }},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				s := Start(t)
				var heard []Request
				s.Intercept(func(q Request) Action {
					heard = append(heard, q)
					return Pass()
				})
				r := rawMemory(t, s)
				r.hello(0, 40000, 0, make([]byte, 16))
				heap := func() uint64 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					return m.HeapAlloc
				}
				before := heap()
				for i := range frames {
					r.call(test.op, append(test.body(fmt.Sprintf("/node%d", i)), make([]byte, size)...))
				}
				if after := heap(); after > before+frames*size/2 {
					t.Errorf("%d bytes are kept of %d frames of %d, want a few", after-before, frames, size)
				}
				if n := len(s.Tree()) + s.Watches(); n != frames || len(heard) != frames+1 {
					t.Errorf("%d nodes and watches are left by %d requests, want one by each", n, len(heard)-1)
				}
			})
		})
	}
}

// TestAnnouncedFrameIsNotTrusted has many clients announce the longest frame and
// send nothing of it.
func TestAnnouncedFrameIsNotTrusted(t *testing.T) {
	const clients = 200
	eventstest.Bubble(t, func(t *testing.T) {
		s := Start(t)
		decent := newNeighbour(t, s)
		var list []*rawClient
		for range clients {
			list = append(list, rawMemory(t, s))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, r := range list {
			r.write(appendInt32(nil, maxFrame))
		}
		synctest.Wait()
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > clients*maxFrame/10 {
			t.Errorf("%d announced frames took %d bytes, want at most a tenth of what they announce", clients, taken)
		}
		decent.works()
	})
}

// TestClientThatDoesNotListen asks for more than the server wants to keep and reads none of it. The server stops reading. When the
// client listens, all the answers are there.
func TestClientThatDoesNotListen(t *testing.T) {
	const size = 100_000
	requests := eventstest.Amount(100, 500) // about 50 are more than it keeps
	eventstest.Bubble(t, func(t *testing.T) {
		s := Start(t)
		decent := newNeighbour(t, s)
		eventstest.Must(t, s.Create("/large", make([]byte, size)))
		deaf := rawMemory(t, s)
		deaf.hello(0, 40000, 0, make([]byte, 16))
		for range requests {
			deaf.request(OpGetData, appendBool(appendString(nil, "/large"), false))
		}
		synctest.Wait()
		// One answer brings it over the limit. Some are in the pipe, and some on the way there.
		if got, most := s.Requests(OpGetData), (enoughWaiting+2*pipeBuffer)/size+4; got > most {
			t.Errorf("%d requests were executed for a client that does not listen, want at most %d", got, most)
		}
		decent.works()
		for i := range requests {
			if a := deaf.next(); a.xid != int32(i+1) || a.code != ok || len(a.body.bytes()) != size {
				t.Fatalf("answer %d is %d, %v; want it in order, with %d bytes", i+1, a.xid, a.code, size)
			}
		}
	})
}

// TestDeafClientExpires is the same for a client that never listens: its session
// ends, and its connection with it.
func TestDeafClientExpires(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := Start(t)
		eventstest.Must(t, s.Create("/large", make([]byte, 100_000)))
		deaf := rawMemory(t, s)
		deaf.hello(0, 4000, 0, make([]byte, 16))
		for range 500 {
			deaf.request(OpGetData, appendBool(appendString(nil, "/large"), false))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(s.Sessions()) != 0 || s.Connections() != 0 {
			t.Errorf("sessions %v and %d connections are left of a deaf client, want none", s.Sessions(), s.Connections())
		}
	})
}
