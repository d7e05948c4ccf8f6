package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// TestAContainerIsReported with the path that was asked for and the zxid of the reply, if
// a server has made it.
func TestAContainerIsReported(t *testing.T) {
	named := func(path string) []byte {
		return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(path))), path...), "data and ACL"...)
	}
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
	if !slices.Equal(made, want) {
		t.Errorf("made are %.200q, want %.200q", made, want)
	}
}
