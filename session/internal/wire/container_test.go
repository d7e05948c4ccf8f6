package wire

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// TestAContainerIsReported: the report has the requested path and the reply's zxid, if a
// server has created it.
func TestAContainerIsReported(t *testing.T) {
	named := func(path string) []byte { return append(textOf(path), "data and ACL"...) }
	long := "/locks/" + string(make([]byte, 5000))
	var made []string
	p := established(t, Events{OnAnswered: func(a Answer) {
		if a.Container != "" && a.Err == zkerr.CodeNone {
			made = append(made, fmt.Sprint(a.Container, a.Zxid))
		}
	}})
	for xid, tail := range [][]byte{
		named("/a"), named("/exactly12"), named("/exactly-12"), named("/exactly--12"), named("/exactly---12"),
		named("/refused"), named(""), named(long), nil, {0xff, 0xff, 0xff, 0xff}, {0x7f, 0xff, 0xff, 0xff, 'x'},
	} {
		p.noteOut(requestFrame(int32(xid), opcode.CreateContainer, tail...))
	}
	p.noteOut(requestFrame(20, opcode.Create, named("/plain")...))
	p.noteIn(replyFrame(5, zkerr.CodeNoNode))
	for _, xid := range []int32{4, 3, 2, 1, 0, 6, 7, 20, 8, 9, 10} { // in any order
		p.noteIn(replyFrame(xid, 0))
	}
	want := []string{"/exactly---1299", "/exactly--1299", "/exactly-1299", "/exactly1299", "/a99", long + "99"}
	expect(t, slices.Equal(made, want), "made are %.200q, want %.200q", made, want)
}

// TestAnAwaitedCreateIsReported: it is reported by its path when it is sent and, with the
// zxid, when it is answered, once. Nothing else is reported, and nothing after Forget.
func TestAnAwaitedCreateIsReported(t *testing.T) {
	p := established(t, Events{})
	is := func(x *Creation, sent bool, zxid int64) {
		t.Helper()
		closed := false
		select {
		case <-x.Sent:
			closed = true
		default:
		}
		expect(t, closed == sent && x.Zxid() == zxid,
			"sent %v, zxid %d; want %v, %d", closed, x.Zxid(), sent, zxid)
	}
	earlier, gone := p.link.Await("/a", nil), p.link.Await("/b", nil)
	dir := p.link.Await("/a", nil)
	node := p.link.Await("/a/lock-", dir)
	p.link.Forget(earlier, gone)
	p.noteOut(requestFrame(1, opcode.GetData, textOf("/a")...))
	p.noteOut(requestFrame(2, opcode.Create, textOf("/a/lock-2")...))
	p.noteOut(requestFrame(3, opcode.Create))
	p.noteIn(replyFrame(1, 0))
	is(dir, false, 0)
	p.noteOut(requestFrame(4, opcode.CreateContainer, textOf("/a")...))
	is(dir, true, 0)
	is(node, false, 0)
	p.noteOut(requestFrame(5, opcode.Create, textOf("/a/lock-")...))
	p.noteOut(requestFrame(6, opcode.Create, textOf("/b")...))
	p.noteOut(requestFrame(7, opcode.CreateContainer, textOf("/a")...))
	p.noteIn(replyFrame(4, zkerr.CodeNodeExists))
	p.noteIn(replyFrame(7, 0))
	is(dir, true, 0)
	is(node, true, 0)
	p.noteIn(replyFrame(5, 0))
	p.noteIn(replyFrame(6, 0))
	is(node, true, 99)
	is(gone, false, 0)
	is(earlier, false, 0)
	p.link.Forget(dir, node) // they were sent
}

// TestACreateBehindAnotherIsSentOnItsConnectionOnly: on another connection, a read of the
// same path replaces it, which is not a write and so proves nothing. If the other create
// was not sent, the create is not bound to its connection.
func TestACreateBehindAnotherIsSentOnItsConnectionOnly(t *testing.T) {
	for _, c := range []struct{ first, apart bool }{{true, false}, {true, true}, {false, true}} {
		p := established(t, Events{})
		node := requestFrame(2, opcode.Create, textOf("/a/lock-")...)
		dir := p.link.Await("/a", nil)
		p.link.Await("/a/lock-", dir)
		if c.first {
			p.noteOut(requestFrame(1, opcode.CreateContainer, textOf("/a")...))
		}
		if c.first && c.apart {
			dir.on = &wire{} // an earlier connection
		}
		p.mu.Lock()
		frame, err := p.request(node, p.link.Events.Now())
		op := p.pending[2].op
		p.mu.Unlock()
		want, wantOp := node, opcode.Create
		if c.first && c.apart {
			want, wantOp = requestFrame(2, opcode.GetData, append(textOf("/a/lock-"), 0)...), opcode.GetData
		}
		expect(t, err == nil && bytes.Equal(frame, want) && op == wantOp,
			"%+v: %q, %v is sent as %s; want %q as %s", c, frame, err, opcode.Name(op), want, opcode.Name(wantOp))
	}
}
