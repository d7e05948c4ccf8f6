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

// TestEachRequestIsToldOnce: a hook hears of a request when it is answered, or else when
// the connection ends. It hears nothing more after that.
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

// TestAGreetingThatIsNotAnswered: a hook hears of it as of any request, also if the
// server answers it with the end of the session.
func TestAGreetingThatIsNotAnswered(t *testing.T) {
	for _, want := range []error{zk.ErrSessionExpired, zk.ErrConnectionClosed} {
		var told []Request
		p := play(t, NewLink(Events{OnRequest: func(r Request) { told = append(told, r) }}))
		p.noteOut(handshakeFrame(7))
		if errors.Is(want, zk.ErrSessionExpired) {
			p.noteIn(grantFrame(0, 0))
		}
		eventstest.Check(t, p.Close())
		if len(told) != 1 || told[0].Op != "connect" || !errors.Is(told[0].Err, want) {
			t.Errorf("told %+v, want one connect with %v", told, want)
		}
	}
}

// TestRequestsCostNothingWithoutHooks: following a request and its answer takes no
// allocation. Nor does renewing the lease.
func TestRequestsCostNothingWithoutHooks(t *testing.T) {
	for what, events := range map[string]Events{
		"without a hook":                 {},
		"with a hook that does nothing":  {OnRequest: func(Request) {}},
		"with a hook beside what is new": {OnAnswered: func(Answer) {}},
	} {
		p := established(t, events)
		request, reply := requestFrame(1, opcode.GetData, 1, 2, 3), replyFrame(1, 0, 1, 2)
		if n := testing.AllocsPerRun(1000, func() {
			p.noteOut(request)
			p.noteIn(reply)
		}); n > 0 {
			t.Errorf("%s a request takes %v allocations, want none", what, n)
		}
	}
}

// TestOperationsHaveNames, for the hook.
func TestOperationsHaveNames(t *testing.T) {
	for op, want := range map[int32]string{
		opcode.Connect: "connect", opcode.Create: "create", opcode.Multi: "multi", opcode.GetChildren2: "getChildren2", opcode.CloseSession: "closeSession",
		opcode.SASL: "sasl", 103: "operation 103", 10: "operation 10", -5: "operation -5",
	} {
		if got := opcode.Name(op); got != want {
			t.Errorf("operation %d is named %q, want %q", op, got, want)
		}
	}
}
