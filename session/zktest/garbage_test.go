package zktest

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

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
			q, err := decodeCall(test.op, &decoder{buf: test.body})
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

// TestClientThatDoesNotListen asks for more than the server wants to keep and
// reads none of it. The server stops reading; when the client listens, all the
// answers are there.
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
		// One answer is what brings it over the limit; some are in the pipe, and some on the way there.
		if got, most := s.Requests(OpGetData), (enoughWaiting+2*pipeBuffer)/size+4; got > most {
			t.Errorf("%d requests were executed for somebody who does not listen, want at most %d", got, most)
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
