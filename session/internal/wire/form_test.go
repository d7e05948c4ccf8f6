package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

// opEvent represents an event, which has no operation.
const opEvent int32 = -100

// decoded has the operations whose answers the client decodes, and the call that makes
// each. The last one is answered after an event.
var decoded = []struct {
	op  int32
	ask func(*zk.Conn) error
}{
	{opcode.GetData, func(c *zk.Conn) error { _, _, err := c.Get("/a"); return err }},
	{opcode.Exists, func(c *zk.Conn) error { _, _, err := c.Exists("/a"); return err }},
	{opcode.GetChildren2, func(c *zk.Conn) error { _, _, err := c.Children("/a"); return err }},
	{opcode.Create, func(c *zk.Conn) error { _, err := c.Create("/a", nil, 0, zk.WorldACL(zk.PermAll)); return err }},
	{opcode.CreateContainer, func(c *zk.Conn) error {
		_, err := c.CreateContainer("/a", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
		return err
	}},
	{opcode.SetData, func(c *zk.Conn) error { _, err := c.Set("/a", nil, 0); return err }},
	{opcode.Delete, func(c *zk.Conn) error { return c.Delete("/a", 0) }},
	{opcode.Multi, func(c *zk.Conn) error {
		_, err := c.Multi(
			&zk.CreateRequest{Path: "/a/lock-", Data: []byte("data"), Acl: append(zk.DigestACL(zk.PermAll, "user", "password"), zk.WorldACL(1)...), Flags: 3},
			&zk.SetDataRequest{Path: "/a", Data: []byte("more"), Version: 7},
			&zk.DeleteRequest{Path: "/b", Version: -1}, &zk.CheckVersionRequest{Path: "/c", Version: -1})
		return err
	}},
	{opEvent, func(c *zk.Conn) error { return c.Delete("/a", 0) }},
}

// inMulti has the operations of that transaction.
var inMulti = []int32{opcode.Create, opcode.SetData, opcode.Delete, opcode.Check}

// result returns one result of a transaction, with the bytes after it.
func result(kind int32, tail ...byte) []byte {
	return append(append(numbersOf(kind), 0, 0, 0, 0, 0), tail...)
}

// The end of a transaction's answer, and the results of that transaction if it was
// executed, and if it was not.
var (
	end      = append(numbersOf(-1), 1, 0xff, 0xff, 0xff, 0xff)
	stat     = make([]byte, statSize)
	executed = slices.Concat(result(opcode.Create, textOf("/a/lock-0000000001")...), result(opcode.SetData, stat...),
		result(opcode.Delete), result(opcode.Check))
	rolledBack = slices.Concat(result(opError, 0, 0, 0, 0), result(opError, numbersOf(-101)...),
		result(opError, numbersOf(-2)...), result(opError, numbersOf(-2)...))
)

// forms has well-formed and malformed bodies of answers.
var forms = []struct {
	what  string
	op    int32
	body  []byte
	right bool
}{
	{"data", opcode.GetData, append(textOf("data"), stat...), true},
	{"no data", opcode.GetData, append(numbersOf(-1), stat...), true},
	{"empty data", opcode.GetData, append(numbersOf(0), stat...), true},
	{"data, and something later", opcode.GetData, append(append(textOf("data"), stat...), 1, 2, 3), true},
	{"nothing in place of data", opcode.GetData, nil, false},
	{"data without a stat", opcode.GetData, append(textOf("data"), stat[1:]...), false},
	{"data that are not there", opcode.GetData, append(numbersOf(1<<26), stat...), false},
	{"no data, and no stat", opcode.GetData, append(numbersOf(-1), stat[1:]...), false},

	{"a stat", opcode.Exists, stat, true},
	{"a part of a stat", opcode.Exists, stat[1:], false},
	{"a stat after a write", opcode.SetData, stat, true},
	{"nothing after a write", opcode.SetData, nil, false},

	{"children", opcode.GetChildren2, slices.Concat(numbersOf(2), textOf("a"), textOf("bcd"), stat), true},
	{"no children", opcode.GetChildren2, append(numbersOf(0), stat...), true},
	{"children that are not there", opcode.GetChildren2, numbersOf(1 << 24), false},
	{"the most children", opcode.GetChildren2, append(numbersOf(-1), stat...), false},
	{"as many as fit", opcode.GetChildren2, append(numbersOf(statSize/4), stat...), false},
	{"one more than there are", opcode.GetChildren2, slices.Concat(numbersOf(3), textOf("a"), textOf("bcd"), stat), false},
	{"a name without an end", opcode.GetChildren2, slices.Concat(numbersOf(2), textOf("a"), numbersOf(1<<20), stat), false},
	{"a name of negative length", opcode.GetChildren2, slices.Concat(numbersOf(2), textOf("a"), numbersOf(-1), stat), false},
	{"children without a stat", opcode.GetChildren2, slices.Concat(numbersOf(1), textOf("a"), stat[1:]), false},

	{"a path", opcode.Create, textOf("/a/lock-0000000001"), true},
	{"no path", opcode.Create, nil, false},
	{"a part of a path", opcode.Create, textOf("/a/lock-0000000001")[:20], false},
	{"a path of negative length", opcode.Create, numbersOf(-1), false},
	{"a path that is as long as can be", opcode.Create, numbersOf(1<<31 - 1), false},
	{"a container", opcode.CreateContainer, textOf("/a"), true},
	{"a part of a container's path", opcode.CreateContainer, textOf("/a")[:5], false},
	{"nothing", opcode.Delete, nil, true},

	{"an executed transaction", opcode.Multi, append(bytes.Clone(executed), end...), true},
	{"a refused transaction", opcode.Multi, append(bytes.Clone(rolledBack), end...), true},
	{"a transaction that is refused early", opcode.Multi, append(result(opError, numbersOf(-101)...), end...), true},
	{"no transaction", opcode.Multi, nil, false},
	{"a kind alone", opcode.Multi, numbersOf(opcode.Check), false},
	{"a kind in place of the end", opcode.Multi, append(bytes.Clone(executed), numbersOf(-1)...), false},
	{"no end", opcode.Multi, executed, false},
	{"a result too many", opcode.Multi, slices.Concat(executed, result(opcode.Check), end), false},
	{"a refused transaction with a result too many", opcode.Multi, slices.Concat(rolledBack, result(opError, numbersOf(-2)...), end), false},
	{"a result too few", opcode.Multi, append(bytes.Clone(executed[:len(executed)-resultSize]), end...), false},
	{"a result of another kind", opcode.Multi, slices.Concat(executed[:len(executed)-resultSize], result(opcode.Delete), end), false},
	{"results that the client does not know", opcode.Multi, append(result(opcode.Create2, append(textOf("/a"), stat...)...), end...), false},
	{"errors without an error", opcode.Multi, append(bytes.Repeat(result(opError, 0, 0, 0, 0), len(inMulti)), end...), false},
	{"a path that is not there", opcode.Multi, append(result(opcode.Create, numbersOf(100)...), end...), false},

	{"an event", opEvent, append(numbersOf(1, 3), textOf("/a")...), true},
	{"an event without a path", opEvent, append(numbersOf(1, 3), textOf("/a")[:5]...), false},
	{"half an event", opEvent, numbersOf(1), false},
	{"an event of the client's own", opEvent, append(numbersOf(int32(zk.EventSession), int32(zk.StateExpired)), textOf("/a")...), false},
}

// isWellFormed decodes the complete body of an answer.
func isWellFormed(op int32, body []byte) bool {
	ok := true
	take := func(n int) []byte {
		if ok = ok && n >= 0 && n <= len(body); !ok {
			return make([]byte, resultSize)
		}
		taken := body[:n]
		body = body[n:]
		return taken
	}
	number := func() int { return int(int32At(take(4), 0)) }
	switch op {
	case opcode.Exists, opcode.SetData:
		take(statSize)
	case opcode.Create, opcode.CreateContainer:
		take(number())
	case opcode.GetData:
		take(max(number(), 0))
		take(statSize)
	case opcode.GetChildren2:
		n := number()
		for ok = ok && n >= 0; ok && n > 0; n-- {
			take(number())
		}
		take(statSize)
	case opEvent:
		kind := number()
		take(4)
		take(number())
		ok = ok && kind > 0
	case opcode.Multi:
		var kinds []int32
		failed := false
		for {
			head := take(resultSize)
			if !ok || head[4] != 0 {
				break
			}
			kind := int32At(head, 0)
			kinds = append(kinds, kind)
			switch kind {
			case opError:
				failed = number() != 0 || failed
			case opcode.Create:
				take(number())
			case opcode.SetData:
				take(statSize)
			case opcode.Delete, opcode.Check:
			default:
				return false
			}
		}
		ok = ok && (slices.Equal(kinds, inMulti) || failed && len(kinds) <= len(inMulti))
	}
	return ok
}

// numberOf returns the operation's index in decoded.
func numberOf(op int32) int {
	for i := range decoded {
		if decoded[i].op == op {
			return i
		}
	}
	return -1
}

// answered makes one of the decoded requests with a client, answers it with the body, and
// returns the client's error, and why the connection ended, if it did.
func answered(t *testing.T, i int, body []byte) (err, ended error) {
	t.Helper()
	op := decoded[i].op
	f := &fakeServer{serve: func(n int, c fakeConn) {
		c.grant(testTimeout, 7)
		for request := c.recv(); request != nil; request = c.recv() {
			xid := int32At(request, 0)
			switch is := int32At(request, 4); {
			case n > 1, is == opcode.Ping, is == opcode.CloseSession:
				c.send(replyFrame(xid, 0))
			case op == opEvent:
				c.send(replyFrame(xidEvent, 0, body...))
				c.send(replyFrame(xid, 0))
			default:
				c.send(replyFrame(xid, 0, body...))
			}
		}
	}}
	withRig(t, Events{}, f, func(r *rig) {
		r.await(zk.StateHasSession)
		err = decoded[i].ask(r.conn)
		ended = r.dialer.LastError()
	})
	return err, ended
}

// FuzzAnswer: the client either decodes a server's answer as it is, or does not see it.
// An answer that it cannot decode, or that does not fit the request, ends the connection,
// and the outcome of the request is unknown.
func FuzzAnswer(f *testing.F) {
	for _, c := range forms {
		if got := isWellFormed(c.op, c.body); got != c.right {
			f.Errorf("the test takes %s for right: %v, want %v", c.what, got, c.right)
		}
		f.Add(numberOf(c.op), c.body)
	}
	f.Fuzz(func(t *testing.T, i int, body []byte) {
		if i < 0 || i >= len(decoded) {
			return
		}
		right := isWellFormed(decoded[i].op, body)
		err, ended := answered(t, i, body)
		if lost := errors.Is(err, zk.ErrConnectionClosed); lost == right || errors.Is(ended, errForm) == right || errors.Is(err, zk.ErrShortBuffer) {
			t.Errorf("to %x the client says %v, and the connection has ended: %v; want it kept: %v", body, err, ended, right)
		}
	})
}

// TestFormsAreFoundInPieces: the pieces in which a frame arrives make no difference, and
// the last byte of a malformed frame is not passed on. Such a frame does not count as an
// answer.
func TestFormsAreFoundInPieces(t *testing.T) {
	for _, c := range forms {
		for _, size := range []int{1, 3, 4, 9, 1000} {
			answers := 0
			p := established(t, Events{OnAnswered: func(Answer) { answers++ }})
			answers = 0
			frame := replyFrame(xidEvent, 0, c.body...)
			if c.op != opEvent {
				frame = replyFrame(1, 0, c.body...)
				asked := sent{op: c.op}
				for _, kind := range inMulti {
					asked.operations = asked.operations.with(kind)
				}
				p.pending[1] = asked
			}
			p.in.Reset(bytes.NewReader(frame))
			read, err := 0, error(nil)
			for piece := make([]byte, size); err == nil; {
				var n int
				n, err = p.Read(piece)
				read += n
			}
			whole, counted := read == len(frame), answers == 1 || c.op == opEvent && c.right
			if whole != c.right || counted != c.right || errors.Is(err, errForm) == c.right {
				t.Errorf("%s in pieces of %d: %d of %d bytes are handed out, %d answers, and %v; want it right: %v",
					c.what, size, read, len(frame), answers, err, c.right)
			}
		}
	}
}

// TestAnAnswerBeforeItsRequest is not passed on: its form could not be checked.
func TestAnAnswerBeforeItsRequest(t *testing.T) {
	for _, code := range []int32{0, -101} {
		p := established(t, Events{})
		p.in.Reset(bytes.NewReader(replyFrame(2, code, stat...)))
		_, err := p.Read(make([]byte, 1))
		eventstest.ErrorIs(t, err, errForm, "an answer with code %d to request 2, which was not made", code)
	}
}

// TestAnAnswerToAReadInPlaceOfACreate: success is an error. Otherwise, the client would
// believe that the create was executed.
func TestAnAnswerToAReadInPlaceOfACreate(t *testing.T) {
	for _, code := range []int32{0, -101} {
		p := established(t, Events{})
		dir := p.link.Await("/a", nil)
		p.link.Await("/a/lock-", dir)
		dir.on = &wire{} // an earlier connection
		p.noteOut(requestFrame(2, opcode.Create, textOf("/a/lock-")...))
		p.in.Reset(bytes.NewReader(replyFrame(2, code, append(textOf("data"), stat...)...)))
		_, err := p.Read(make([]byte, 1))
		equal(t, errors.Is(err, errForm), code == 0, "with code %d, read with %v: refused", code, err)
	}
}

// TestAnnouncedLengthsAreNotTrusted: few bytes announce many, as data, as 4 Mi names, or
// as a password. The client does not allocate them.
func TestAnnouncedLengthsAreNotTrusted(t *testing.T) {
	const announced, names, most = 1 << 28, 1 << 22, 32 << 20
	measure := func(what string, f func()) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		got := after.TotalAlloc - before.TotalAlloc
		expect(t, got <= most, "%s has the process allocate %d bytes, want at most %d", what, got, most)
	}
	for op, n := range map[int32]int32{opcode.GetData: announced, opcode.GetChildren2: names} {
		measure(opcode.Name(op), func() {
			err, _ := answered(t, numberOf(op), numbersOf(n))
			eventstest.ErrorIs(t, err, zk.ErrConnectionClosed, "without an answer to %s", opcode.Name(op))
		})
	}
	measure("a handshake", func() {
		f := &fakeServer{serve: func(_ int, c fakeConn) {
			c.handshake()
			frame := grantFrame(testTimeout, 7)
			binary.BigEndian.PutUint32(frame[prefixLength+minHandshakeReply-lengthSize:], announced)
			c.send(frame)
			c.echo()
		}}
		withRig(t, Events{}, f, func(r *rig) {
			r.await(zk.StateDisconnected)
			eventstest.ErrorIs(t, r.dialer.LastError(), errHandshakeMalformed, "a handshake without its password")
		})
	})
}

// TestRequestsCostNothing: following a request and checking its answer allocates nothing.
// Neither does renewing the lease.
func TestRequestsCostNothing(t *testing.T) {
	requests := map[int32][]byte{
		opcode.GetData: requestFrame(1, opcode.GetData), opcode.GetChildren2: requestFrame(1, opcode.GetChildren2),
		opcode.Multi: requestFrame(1, opcode.Multi, slices.Concat(
			result(opcode.Create, bytesOf("/a/lock-", "data", int32(1), int32(31), "world", "anyone", int32(3))...),
			result(opcode.SetData, bytesOf("/a", "more", int32(7))...),
			result(opcode.Delete, bytesOf("/b", int32(-1))...),
			result(opcode.Check, bytesOf("/c", int32(-1))...), end)...),
	}
	for what, events := range map[string]Events{
		"without a hook":                 {},
		"with a hook that does nothing":  {OnRequest: func(Request) {}},
		"with a hook beside what is new": {OnAnswered: func(Answer) {}},
	} {
		for _, c := range forms {
			request := requests[c.op]
			if request == nil || !c.right {
				continue
			}
			p := established(t, events)
			frame := replyFrame(1, 0, c.body...)
			reader, buf := bytes.NewReader(nil), make([]byte, len(frame))
			n := testing.AllocsPerRun(100, func() {
				p.noteOut(request)
				reader.Reset(frame)
				p.in.Reset(reader)
				for read := 0; read < len(frame); {
					n, err := p.Read(buf)
					eventstest.Must(t, err)
					read += n
				}
			})
			equal(t, n, 0, "%s, allocations for %s", what, c.what)
		}
	}
}
