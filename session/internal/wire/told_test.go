package wire

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
)

// TestEachRequestIsToldOnce: a hook receives a request when it is answered, or else when
// the connection ends, and not again after that.
func TestEachRequestIsToldOnce(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		var told []Request
		p := established(t, Events{OnRequest: func(r Request) { told = append(told, r) }})
		send := func(frame []byte) { p.noteOut(frame); time.Sleep(time.Second) }
		receive := p.noteIn
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
		eventstest.Check(t, p.Close())
		receive(replyFrame(5, 0)) // it was in transit
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
		expect(t, slices.Equal(told, want),
			"when the connection has ended these were told:\n%+v\nwant\n%+v", told, want)
	})
}

// TestAGreetingThatIsNotAnswered: a hook receives it like any request, also if the server
// answers it with the end of the session.
func TestAGreetingThatIsNotAnswered(t *testing.T) {
	for want, answered := range map[error]bool{zk.ErrSessionExpired: true, zk.ErrConnectionClosed: false} {
		var told []Request
		p := play(t, NewLink(Events{OnRequest: func(r Request) { told = append(told, r) }}))
		p.noteOut(handshakeFrame(7))
		if answered {
			p.noteIn(grantFrame(0, 0))
		}
		eventstest.Check(t, p.Close())
		expect(t, len(told) == 1 && told[0].Op == "connect" && errors.Is(told[0].Err, want),
			"told %+v, want one connect with %v", told, want)
	}
}

// TestOperationsHaveNames: the hook gets these names.
func TestOperationsHaveNames(t *testing.T) {
	const want = "connect create multi getChildren2 closeSession sasl operation 103 operation 10 operation -5 "
	got := ""
	for _, op := range []int32{
		opcode.Connect, opcode.Create, opcode.Multi, opcode.GetChildren2, opcode.CloseSession, opcode.SASL,
		103, 10, -5,
	} {
		got += opcode.Name(op) + " "
	}
	equal(t, got, want, "the names of the operations")
}
