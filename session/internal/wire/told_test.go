package wire

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// requestFrame and replyFrame are frames with so many bytes after their headers.
func requestFrame(xid, op int32, tail ...byte) []byte {
	body := binary.BigEndian.AppendUint32(nil, uint32(xid))
	return frameOf(append(binary.BigEndian.AppendUint32(body, uint32(op)), tail...))
}

func replyFrame(xid, code int32, tail ...byte) []byte {
	body := binary.BigEndian.AppendUint32(nil, uint32(xid))
	body = binary.BigEndian.AppendUint64(body, 99)
	return frameOf(append(binary.BigEndian.AppendUint32(body, uint32(code)), tail...))
}

// established returns a wire after its handshake.
func established(t *testing.T, events Events) *wire {
	t.Helper()
	w, far, _ := wirePair(t, events)
	t.Cleanup(func() { eventstest.Check(t, far.Close()) })
	w.server = "zk1:2181"
	eventstest.Must(t, w.noteSent(handshakeFrame(0), w.link.Events.Now()))
	eventstest.Must(t, w.noteReceived(frameOf(grantBody(testTimeout, 7))))
	return w
}

// TestEachRequestIsToldOnce: a hook hears of a request when it is answered, or else when the connection ends. It hears nothing more after
// that.
func TestEachRequestIsToldOnce(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		var told []Request
		w := established(t, Events{OnRequest: func(r Request) { told = append(told, r) }})
		send := func(frame []byte) {
			eventstest.Must(t, w.noteSent(frame, w.link.Events.Now()))
			time.Sleep(time.Second)
		}
		receive := func(frame []byte) { eventstest.Must(t, w.noteReceived(frame)) }
		send(requestFrame(1, opcode.GetData, 1, 2, 3))
		send(requestFrame(xidPing, opcode.Ping))
		receive(replyFrame(1, 0, 1, 2))
		receive(replyFrame(xidEvent, 0, 1, 2)) // answers no request
		receive(replyFrame(xidPing, 0))
		send(requestFrame(2, opcode.Delete))
		receive(replyFrame(2, zkerr.CodeNoNode))
		send(requestFrame(3, opcode.Multi))
		receive(replyFrame(3, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0)) // the result of a delete
		send(requestFrame(4, opcode.Multi))
		receive(replyFrame(4, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0)) // the result of an error
		send(requestFrame(5, opcode.Exists))
		send(requestFrame(xidPing, opcode.Ping))
		eventstest.Check(t, w.Close())
		receive(replyFrame(5, 0)) // it was on its way
		receive(replyFrame(xidPing, 0))
		want := []Request{
			{"connect", "zk1:2181", 4 + 44 + 4 + 36, 0, nil},
			{"getData", "zk1:2181", 4 + 11 + 4 + 18, 2 * time.Second, nil},
			{"ping", "zk1:2181", 4 + 8 + 4 + 16, time.Second, nil},
			{"delete", "zk1:2181", 4 + 8 + 4 + 16, time.Second, zk.ErrNoNode},
			{"multi", "zk1:2181", 4 + 8 + 4 + 25, time.Second, nil},
			{"multi", "zk1:2181", 4 + 8 + 4 + 25, time.Second, errTransaction},
			{"ping", "zk1:2181", 4 + 8, time.Second, zk.ErrConnectionClosed},
			{"exists", "zk1:2181", 4 + 8, 2 * time.Second, zk.ErrConnectionClosed},
		}
		if !slices.Equal(told, want) {
			t.Errorf("when the connection has ended these were told:\n%+v\nwant\n%+v", told, want)
		}
	})
}

// TestAGreetingThatIsNotAnswered: a hook hears of it as of any request, also if the server answers it with the end of the session.
func TestAGreetingThatIsNotAnswered(t *testing.T) {
	for what, test := range map[string]struct {
		back func(w *wire) error
		want error
	}{
		"the end of the session":    {func(w *wire) error { return w.noteReceived(frameOf(grantBody(0, 0))) }, zk.ErrSessionExpired},
		"the end of the connection": {func(w *wire) error { return w.Close() }, zk.ErrConnectionClosed},
	} {
		eventstest.Bubble(t, func(t *testing.T) {
			var told []Request
			w, far, _ := wirePair(t, Events{OnRequest: func(r Request) { told = append(told, r) }})
			eventstest.Must(t, w.noteSent(handshakeFrame(7), w.link.Events.Now()))
			eventstest.Must(t, test.back(w))
			eventstest.Check(t, w.Close())
			eventstest.Check(t, far.Close())
			if len(told) != 1 || told[0].Op != "connect" || !errors.Is(told[0].Err, test.want) {
				t.Errorf("%s: told %+v, want one connect with %v", what, told, test.want)
			}
		})
	}
}

// TestRequestsCostNothingWithoutHooks: following a request and its answer takes no allocation. Nor does renewing the lease.
func TestRequestsCostNothingWithoutHooks(t *testing.T) {
	for what, events := range map[string]Events{
		"without a hook":                 {},
		"with a hook that does nothing":  {OnRequest: func(Request) {}},
		"with a hook beside what is new": {OnAnswered: func(_, _ time.Time, _, _ int32) {}},
	} {
		w := established(t, events)
		request, reply := requestFrame(1, opcode.GetData, 1, 2, 3), replyFrame(1, 0, 1, 2)
		if n := testing.AllocsPerRun(1000, func() {
			_, _ = w.noteSent(request, time.Now()), w.noteReceived(reply)
		}); n > 0 {
			t.Errorf("%s a request takes %v allocations, want none", what, n)
		}
		eventstest.Check(t, w.Close())
	}
}

// TestOperationsAndErrorsHaveNames: every operation and code has a name for the hook.
func TestOperationsAndErrorsHaveNames(t *testing.T) {
	for op, want := range map[int32]string{
		opcode.Connect: "connect", opcode.Create: "create", opcode.Multi: "multi", opcode.GetChildren2: "getChildren2", opcode.CloseSession: "closeSession",
		opcode.SASL: "sasl", 103: "operation 103", 10: "operation 10", -5: "operation -5",
	} {
		if got := opcode.Name(op); got != want {
			t.Errorf("operation %d is named %q, want %q", op, got, want)
		}
	}
	for code, want := range map[int32]error{
		zkerr.CodeNone: nil, zkerr.CodeNoNode: zk.ErrNoNode, zkerr.CodeNoAuth: zk.ErrNoAuth, zkerr.CodeNodeExists: zk.ErrNodeExists, zkerr.CodeQuotaExceeded: zkerr.ErrQuota,
		zkerr.CodeSessionMoved: zk.ErrSessionMoved,
	} {
		if got := zkerr.ErrorOf(code); !errors.Is(got, want) {
			t.Errorf("code %d is %v, want %v", code, got, want)
		}
	}
	if got := zkerr.ErrorOf(-77); got == nil {
		t.Error("an unknown code is no error, want one")
	}
}
