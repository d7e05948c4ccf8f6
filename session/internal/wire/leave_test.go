package wire

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
)

// TestAClientThatLeavesHearsOfTheEndBehindItsLastRequest: each end of a connection is reported only after that request. Otherwise the
// client would wait a second for an answer.
func TestAClientThatLeavesHearsOfTheEndBehindItsLastRequest(t *testing.T) {
	last := func(w *wire) { _ = w.noteSent(requestFrame(1, opcode.CloseSession), w.link.Events.Now()) }
	for what, test := range map[string]struct {
		end, release func(w *wire)
	}{
		"the session hangs up":        {func(w *wire) { _ = w.hangUp() }, last},
		"the server hangs up":         {func(w *wire) { _ = w.socket.Close() }, last},
		"the server is silent":        {func(w *wire) { _ = w.SetReadDeadline(time.Now().Add(time.Second)) }, last},
		"the client gives up its end": {func(w *wire) { _ = w.hangUp() }, func(w *wire) { _ = w.Close() }},
	} {
		t.Run(what, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				w := established(t, Events{})
				if !w.leave() {
					t.Fatal("a client on a connection that is up cannot leave on it, want that it can")
				}
				heard := make(chan error, 1)
				go func() {
					_, err := w.Read(make([]byte, 1))
					heard <- err
				}()
				test.end(w)
				time.Sleep(time.Minute)
				select {
				case err := <-heard:
					t.Errorf("before its last request the client heard %v, want nothing", err)
				default:
				}
				test.release(w)
				synctest.Wait()
				select {
				case err := <-heard:
					if err == nil {
						t.Error("the client heard no error, want the end of the connection")
					}
				default:
					t.Error("the client heard nothing after its last request, want the end of the connection")
					eventstest.Check(t, w.Close())
				}
			})
		})
	}
}

// TestNoClientLeavesOnAConnectionKnownToHaveEnded: the client is about to dial another one.
func TestNoClientLeavesOnAConnectionKnownToHaveEnded(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		w := established(t, Events{})
		eventstest.Check(t, w.hangUp())
		if _, err := w.Read(make([]byte, 1)); err == nil {
			t.Error("a closed connection has no end for its client, want an error")
		}
		if w.leave() {
			t.Error("a client that knows of the end can leave on the connection, want another one")
		}
	})
}

// TestAClientInItsHandshakeHearsOfTheEnd: it makes no last request before it has a connection.
func TestAClientInItsHandshakeHearsOfTheEnd(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		w, far, _ := wirePair(t, Events{})
		if !w.leave() {
			t.Error("a client in its handshake cannot leave, want that it can")
		}
		eventstest.Check(t, far.Close())
		if _, err := w.Read(make([]byte, 1)); err == nil {
			t.Error("a closed connection has no end for its client, want an error")
		}
		if w.leave() {
			t.Error("a client that knows of the end can leave on the connection, want another one")
		}
		eventstest.Check(t, w.Close())
	})
}

// TestNoPingBehindTheLastRequest: a server that has closed the connection would answer a ping with a reset. What it has sent before would
// be lost if it was not read.
func TestNoPingBehindTheLastRequest(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		w, far, _ := wirePair(t, Events{})
		sent := make(chan []byte, 1)
		go func() {
			all, _ := io.ReadAll(far)
			sent <- all
		}()
		handshake, ping, end := handshakeFrame(0), requestFrame(xidPing, opcode.Ping), requestFrame(1, opcode.CloseSession)
		write := func(frame []byte) {
			_, err := w.Write(frame)
			eventstest.Must(t, err)
			synctest.Wait()
		}
		write(handshake)
		eventstest.Must(t, w.noteReceived(frameOf(grantBody(testTimeout, 7))))
		for _, frame := range [][]byte{ping, end, ping} {
			write(frame)
		}
		eventstest.Check(t, w.Close())
		if got, want := <-sent, slices.Concat(handshake, ping, end); !bytes.Equal(got, want) {
			t.Errorf("sent % x, want % x: the second ping is left out", got, want)
		}
		eventstest.Check(t, far.Close())
	})
}
