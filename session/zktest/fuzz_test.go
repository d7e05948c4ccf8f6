package zktest

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// FuzzFrames sends arbitrary bytes to a server, as they are and as requests of an
// established session. The server must neither panic nor hang, and another client must be
// able to work during and after that.
func FuzzFrames(f *testing.F) {
	hello := frame(greeting(0, ticket{timeout: 10_000}))
	for _, start := range [][]byte{hello, []byte("ruok"), []byte("mntr"), {0xff, 0xff, 0xff, 0xff}} {
		f.Add(false, start)
	}
	for _, q := range []struct {
		op   Op
		body []byte
	}{
		{OpPing, nil}, {OpClose, nil}, {OpCreate, createBody(quotaRoot+"/a", 0)}, {OpCreate2, createBody("/a", 3)},
		{OpMulti, multiBody(part(OpCreate, createBody("/a", 0)), part(OpCheck, versioned("/a", 0)))},
		{OpSetWatches, appendStrings(appendStrings(appendStrings(appendInt64(nil, 0), []string{"/a"}), nil), nil)},
		{OpAuth, appendBytes(appendString(appendInt32(nil, 0), "digest"), []byte("a:b"))},
		{OpSetACL, appendInt32(appendACLs(appendString(nil, "/"), openACL()), -1)},
		{OpGetChildren2, about("/", true)}, {OpCreateTTL, appendInt64(createBody("/a", flagTTL), 1000)},
		{OpRemoveWatches, versioned("/a", kindAny)},
	} {
		f.Add(true, append(appendInt32(appendInt32(nil, 1), int32(q.op)), q.body...))
	}
	f.Fuzz(func(t *testing.T, established bool, data []byte) {
		s, err := New(InMemory(), ExtendedTypes(), EnforceQuotas())
		eventstest.Must(t, err)
		defer s.Close()
		decent := newNeighbour(t, s)
		nc, err := s.DialContext(t.Context(), "tcp", "")
		eventstest.Must(t, err)
		eventstest.Must(t, nc.SetDeadline(time.Now().Add(10*time.Second)))
		if established {
			// The bytes become one frame, and are then sent again as frames themselves.
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
		eventstest.Expect(t, member(t, s, 10_000).session != 0, "a later client is given session 0")
	})
}

func part(op Op, body []byte) []byte { return append(appendPart(nil, op, false, -1), body...) }

func multiBody(parts ...[]byte) []byte {
	return appendPart(slices.Concat(parts...), opError, true, -1)
}

// neighbour is a client that shares a server with a malicious one. Only it may access its
// nodes.
type neighbour struct{ *rawClient }

func newNeighbour(t *testing.T, s *Server) neighbour {
	t.Helper()
	n := neighbour{member(t, s, 10_000)}
	who := []byte("neighbour:secret")
	n.can(OpAuth, appendBytes(appendString(appendInt32(nil, 0), "digest"), who), ok)
	for _, p := range []string{"/neighbour", "/neighbour/node"} {
		body := appendBytes(appendString(nil, p), nil)
		n.can(OpCreate, appendInt32(appendACLs(body, []acl{{permAll, digest(who)}}), 0), ok)
	}
	return n
}

// works fails the test unless a watch, a write with its event, and a read are answered
// correctly.
func (n neighbour) works() {
	n.tb.Helper()
	n.can(OpGetData, about("/neighbour/node", true), ok)
	n.request(OpSetData, setBody("/neighbour/node", "x"))
	n.news(event{dataChanged, "/neighbour/node"})
	eventstest.Equal(n.tb, n.next().code, ok, "set")
	n.lists("beside a bad client", "/neighbour", false, "node")
}

// TestDecodingIsProportional decodes the largest frames made of the smallest parts: the
// memory that they take is bounded by what was sent.
func TestDecodingIsProportional(t *testing.T) {
	const factor = 80 // a check in a multi takes 17 bytes, and a few hundred when decoded
	empty, node := appendString(nil, ""), appendString(nil, "/a")
	entry := appendString(appendString(appendInt32(nil, 31), ""), "")
	check := append(appendPart(nil, OpCheck, false, -1), appendInt32(empty, -1)...)
	for name, c := range map[string]struct {
		op          Op
		head, piece []byte // repeated until no more fits into a frame
	}{
		"multi":                   {OpMulti, nil, check},
		"watches":                 {OpSetWatches, appendInt32(appendInt64(nil, 0), 200_000), empty},
		"too many watches":        {OpSetWatches, appendInt32(appendInt64(nil, 0), 1<<31-1), empty},
		"access list":             {OpCreate, appendInt32(appendBytes(node, nil), 80_000), entry},
		"too long an access list": {OpCreate, appendInt32(appendBytes(node, nil), 1<<31-1), []byte{0}},
		"data":                    {OpSetData, appendInt32(node, 1_000_000), []byte{0}},
	} {
		t.Run(name, func(t *testing.T) {
			n := (maxFrame - 8 - len(c.head)) / len(c.piece)
			body := string(slices.Concat(c.head, bytes.Repeat(c.piece, n)))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			q, _ := decodeCall(c.op, &decoder{buf: body})
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(q)
			taken := after.TotalAlloc - before.TotalAlloc
			eventstest.Expect(t, taken <= factor*uint64(len(body)),
				"%d bytes took %d, want %d times as many", len(body), taken, factor)
		})
	}
}

// TestFramesAreNotKept sends requests that leave something small on the server, and fill
// their frames with meaningless bytes.
func TestFramesAreNotKept(t *testing.T) {
	const frames, size = 20, 500_000
	create := func(scheme, id string) func(string) []byte {
		return func(p string) []byte {
			list := []acl{{permAll, identity{scheme, id}}}
			return appendInt32(appendACLs(appendBytes(appendString(nil, p), []byte(p)), list), flagSequential)
		}
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, test := range map[string]struct {
		op   Op
		body func(path string) []byte
	}{
		"node":            {OpCreate, func(p string) []byte { return createBody(p, 0) }},
		"sequential node": {OpCreate, create("world", "anyone")},
		"digest":          {OpCreate, create("digest", "user:hash")},
		"ip":              {OpCreate, create("ip", "10.0.0.1")},
		"part of a multi": {OpMulti, func(p string) []byte { return multiBody(part(OpCreate, createBody(p, 0))) }},
		"watch":           {OpExists, func(p string) []byte { return about(p, true) }},
	} {
		eventstest.Case(t, name, func(t *testing.T) {
			s := Start(t)
			var heard []Request
			s.Intercept(func(q Request) Action {
				heard = append(heard, q)
				return Pass()
			})
			r := member(t, s, 40_000)
			before := heap()
			for i := range frames {
				r.call(test.op, append(test.body(fmt.Sprintf("/node%d", i)), make([]byte, size)...))
			}
			after := heap()
			eventstest.Expect(t, after <= before+frames*size/2,
				"%d bytes are kept of %d frames of %d", after-before, frames, size)
			eventstest.Equal(t, len(s.Tree())+s.Watches(), frames, "nodes and watches that are left")
			eventstest.Equal(t, len(heard), frames+1, "requests")
		})
	}
}

// TestClientThatDoesNotListen: a client requests more than the server is willing to keep,
// and reads none of it. The server stops reading. When the client reads, it gets all the
// answers. If it never does, its session and its connection end.
func TestClientThatDoesNotListen(t *testing.T) {
	const size = 100_000
	requests := eventstest.Amount(100, 500) // about 50 are more than it keeps
	for _, listens := range []bool{true, false} {
		eventstest.Bubble(t, func(t *testing.T) {
			s := Start(t)
			decent := newNeighbour(t, s)
			eventstest.Must(t, s.Create("/large", make([]byte, size)))
			deaf := member(t, s, 4000)
			for range requests {
				deaf.request(OpGetData, about("/large", false))
			}
			synctest.Wait()
			// One answer exceeds the limit. Some answers are in the pipe, and some are on
			// their way into it.
			got, most := s.Requests(OpGetData), (enoughWaiting+2*pipeBuffer)/size+4
			eventstest.Expect(t, got <= most, "%d requests of a deaf client were executed, want %d", got, most)
			decent.works()
			for i := 0; listens && i < requests; i++ {
				if a := deaf.next(); a.xid != int32(i+1) || a.code != ok || len(a.body.bytes()) != size {
					t.Fatalf("answer %d is %d, %v; want it in order, with %d bytes", i+1, a.xid, a.code, size)
				}
			}
			if listens {
				return
			}
			time.Sleep(8 * time.Second)
			synctest.Wait()
			eventstest.Equal(t, s.Sessions(), []int64{decent.session}, "the sessions that are left")
			eventstest.Equal(t, s.Connections(), 1, "the connections that are left")
		})
	}
}
