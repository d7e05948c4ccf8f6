package zktest

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// FuzzFrames sends arbitrary bytes to a server, as they are and as requests of
// an established session. The server must neither panic nor hang, and another
// client goes on working meanwhile and afterwards.
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
			// The bytes become one frame, then are taken as frames themselves.
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

// part is a request in a multi, whose requests are multiBody.
func part(op Op, body []byte) []byte { return append(appendPart(nil, op, false, -1), body...) }

func multiBody(parts ...[]byte) []byte {
	return appendPart(slices.Concat(parts...), opError, true, -1)
}

// neighbour is a client that shares a server with a bad one. What it works with
// nobody else may touch.
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

// works fails the test unless a watch, a write with its event, and a read are
// answered as they should.
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

// FuzzDecoder holds the decoder to its bounds: it reads no more than there is and
// allocates nothing that the input could not fill.
func FuzzDecoder(f *testing.F) {
	f.Add(int32(OpCreate), createBody("/a", 0))
	f.Add(int32(OpMulti), multiBody(part(OpCreate, createBody("/a", 0))))
	f.Add(int32(OpSetWatches), []byte{0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, op int32, data []byte) {
		q, err := decodeCall(Op(op), &decoder{buf: data})
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
		d := &decoder{buf: huge}
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
