package wire

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

// TestAClientThatLeavesHearsOfTheEndBehindItsLastRequest: each end of a connection is
// reported only after that request. Otherwise the client would wait a second for an
// answer.
func TestAClientThatLeavesHearsOfTheEndBehindItsLastRequest(t *testing.T) {
	last := func(p *played) { p.noteOut(requestFrame(1, opcode.CloseSession)) }
	for what, test := range map[string]struct {
		end, release func(p *played)
	}{
		"the session hangs up":        {func(p *played) { _ = p.hangUp() }, last},
		"the server hangs up":         {func(p *played) { _ = p.socket.Close() }, last},
		"the server is silent":        {func(p *played) { _ = p.SetReadDeadline(time.Now().Add(time.Second)) }, last},
		"the client gives up its end": {func(p *played) { _ = p.hangUp() }, func(p *played) { _ = p.Close() }},
	} {
		t.Run(what, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				p := established(t, Events{})
				if !p.leave() {
					t.Fatal("a client on a connection that is up cannot leave on it, want that it can")
				}
				heard := make(chan error, 1)
				go func() {
					_, err := p.Read(make([]byte, 1))
					heard <- err
				}()
				test.end(p)
				time.Sleep(time.Minute)
				if len(heard) > 0 {
					t.Errorf("before its last request the client heard %v, want nothing", <-heard)
				}
				test.release(p)
				synctest.Wait()
				if len(heard) == 0 || <-heard == nil {
					t.Error("the client heard nothing after its last request, want the end of the connection")
				}
			})
		})
	}
}

// TestNoClientLeavesOnAConnectionKnownToHaveEnded: it is about to dial another one. In
// its handshake it hears of the end also if it leaves, for it makes no last request
// before it has a connection.
func TestNoClientLeavesOnAConnectionKnownToHaveEnded(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		up, greeting := established(t, Events{}), play(t, NewLink(Events{}))
		if !greeting.leave() {
			t.Error("a client in its handshake cannot leave, want that it can")
		}
		eventstest.Check(t, errors.Join(up.hangUp(), greeting.peer.Close()))
		for _, p := range []*played{up, greeting} {
			if _, err := p.Read(make([]byte, 1)); err == nil {
				t.Error("a closed connection has no end for its client, want an error")
			}
			if p.leave() {
				t.Error("a client that knows of the end can leave on the connection, want another one")
			}
		}
	})
}

// TestNoPingBehindTheLastRequest: a server that has closed the connection would answer a
// ping with a reset. What it has sent before would be lost if it was not read.
func TestNoPingBehindTheLastRequest(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		p := play(t, NewLink(Events{}))
		sent := make(chan []byte, 1)
		go func() {
			all, _ := io.ReadAll(p.peer)
			sent <- all
		}()
		handshake, ping, end := handshakeFrame(0), requestFrame(xidPing, opcode.Ping), requestFrame(1, opcode.CloseSession)
		p.ask(handshake)
		p.noteIn(grantFrame(testTimeout, 7))
		for _, frame := range [][]byte{ping, end, ping} {
			p.ask(frame)
			synctest.Wait()
		}
		eventstest.Check(t, p.Close())
		if got, want := <-sent, slices.Concat(handshake, ping, end); !bytes.Equal(got, want) {
			t.Errorf("sent % x, want % x: the second ping is left out", got, want)
		}
	})
}
