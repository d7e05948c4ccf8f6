package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// containerFrame is a request for a container.
func containerFrame(xid int32, path string) []byte {
	tail := binary.BigEndian.AppendUint32(nil, uint32(len(path)))
	return requestFrame(xid, opcode.CreateContainer, append(append(tail, path...), "data and ACL"...)...)
}

// TestAContainerIsReported with the path that was asked for and the zxid of the reply, if a server has made it.
func TestAContainerIsReported(t *testing.T) {
	var made []string
	w := established(t, Events{OnContainer: func(path string, czxid int64) { made = append(made, fmt.Sprint(path, czxid)) }})
	long := "/locks/" + string(make([]byte, 5000))
	for xid, path := range []string{"/a", "/exactly12", "/exactly-12", "/exactly--12", "/exactly---12", "/refused", "", long} {
		eventstest.Must(t, w.noteSent(containerFrame(int32(xid), path), w.link.Events.Now()))
	}
	eventstest.Must(t, w.noteSent(requestFrame(20, opcode.Create, containerFrame(20, "/plain")[12:]...), w.link.Events.Now()))
	eventstest.Must(t, w.noteSent(requestFrame(21, opcode.CreateContainer), w.link.Events.Now()))
	eventstest.Must(t, w.noteSent(requestFrame(22, opcode.CreateContainer, 0xff, 0xff, 0xff, 0xff), w.link.Events.Now()))
	eventstest.Must(t, w.noteSent(requestFrame(23, opcode.CreateContainer, 0x7f, 0xff, 0xff, 0xff, 'x'), w.link.Events.Now()))
	for _, xid := range []int32{4, 3, 2, 1, 0, 5, 6, 7, 20, 21, 22, 23} { // in any order
		code := int32(0)
		if xid == 5 {
			code = zkerr.CodeNoNode
		}
		eventstest.Must(t, w.noteReceived(replyFrame(xid, code)))
	}
	want := []string{"/exactly---1299", "/exactly--1299", "/exactly-1299", "/exactly1299", "/a99", long + "99"}
	if !slices.Equal(made, want) {
		t.Errorf("made are %.200q, want %.200q", made, want)
	}
}
