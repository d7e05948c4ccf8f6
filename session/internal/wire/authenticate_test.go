package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/opcode"
	"github.com/zkgrant/zkgrant/session/internal/zkerr"
	"github.com/zkgrant/zkgrant/session/sasl"
)

// script is a mechanism that says its lines, one after the other, and is done after the
// last one's answer. After an error it says nothing more.
type script struct {
	lines   []string
	endless bool
	absent  bool // Start returns no exchange
	begins  error
	fails   error // after the first answer

	server string
	heard  []string // nil tokens as "nil"
}

func (s *script) Name() string { return "SCRIPT" }

func (s *script) Start(_ context.Context, server string) (sasl.Exchange, error) {
	s.server = server
	if s.absent {
		return nil, nil
	}
	return s, s.begins
}

func (s *script) Next(said []byte) (answer []byte, done bool, err error) {
	if said == nil {
		s.heard = append(s.heard, "nil")
	} else {
		s.heard = append(s.heard, string(said))
	}
	n := len(s.heard) - 1
	switch {
	case n == 1 && s.fails != nil:
		return nil, false, s.fails
	case s.endless:
		return []byte("more"), false, nil
	case n == len(s.lines):
		return nil, true, nil
	default:
		return []byte(s.lines[n]), false, nil
	}
}

// unwilling is an exchange that fails at its first turn.
type unwilling struct{}

func (unwilling) Next([]byte) (answer []byte, done bool, err error) {
	return nil, false, errors.New("no")
}

// Explain is for a refusal.
func (s *script) Explain() string { return "perhaps " + s.lines[0] }

// turn is what the server answers to a token: a code and a body.
type turn struct {
	code int32
	body []byte
}

func token(s string) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...) }

var noToken = []byte{0xff, 0xff, 0xff, 0xff}

// talk has the script talk to a server with these answers. The server hangs up after its
// last turn if told to. talk returns what the client reads, and which tokens have come.
func talk(t *testing.T, s *script, session int64, turns []turn, hangUp bool) (read []byte, heard []string, err error) {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	until := time.Now().Add(time.Second)
	over := make(chan []string, 1)
	go func() {
		var tokens []string
		defer func() { over <- tokens }()
		peer := fakeConn{theirs}
		defer peer.Close()
		for piece := range slices.Chunk(greetingOf(session), 1) {
			peer.send(piece)
		}
		for _, turn := range turns {
			request := peer.recv()
			if request == nil {
				return
			}
			if op := int32(binary.BigEndian.Uint32(request[4:])); op != opcode.SASL {
				tokens = append(tokens, opcode.Name(op))
			}
			tokens = append(tokens, string(request[12:]))
			peer.send(replyFrame(int32(binary.BigEndian.Uint32(request)), turn.code, turn.body...))
		}
		if !hangUp {
			peer.ignore()
		}
	}()
	who := newLogin(until, nil)
	defer who.cancel()
	if err = who.begin(s, "zk:2181"); err == nil {
		read = make([]byte, len(greetingOf(session)))
		var n int
		n, err = io.ReadFull(iotest.OneByteReader(awaitingGreeting(t, ours, until, who)), read)
		read = read[:n]
	}
	_ = ours.Close()
	return read, <-over, err
}

// awaitingGreeting is a wire whose handshake is sent, and which has this identity.
func awaitingGreeting(t *testing.T, conn net.Conn, until time.Time, who *login) *wire {
	t.Helper()
	w, err := newWire(conn, conn, NewLink(Events{}), until, func(error) {})
	eventstest.Must(t, err)
	w.login = who
	_, err = w.request(handshakeFrame(0), time.Now())
	eventstest.Must(t, err)
	return w
}

func greetingOf(session int64) []byte {
	b := greeting(10*time.Second, 1)
	binary.BigEndian.PutUint64(b[12:], uint64(session))
	return b
}

// TestTheClientHearsOfItsSessionBehindTheExchange, and gets all of the server's answer to
// the handshake.
func TestTheClientHearsOfItsSessionBehindTheExchange(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := &script{lines: []string{"", "second", ""}}
		read, tokens, err := talk(t, s, 7, []turn{{0, token("one")}, {0, noToken}, {0, token("")}}, false)
		if err != nil || !slices.Equal(read, greetingOf(7)) {
			t.Errorf("the client reads %x, %v; want %x", read, err, greetingOf(7))
		}
		if want := []string{"", "second", ""}; !slices.Equal(tokens, want) {
			t.Errorf("the server hears %q, want %q", tokens, want)
		}
		if want := []string{"nil", "one", "nil", ""}; !slices.Equal(s.heard, want) || s.server != "zk:2181" {
			t.Errorf("the mechanism hears %q from %s, want %q from zk:2181", s.heard, s.server, want)
		}
	})
}

// TestASessionThatHasExpiredNeedsNoExchange.
func TestASessionThatHasExpiredNeedsNoExchange(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := &script{lines: []string{"x"}}
		if read, tokens, err := talk(t, s, 0, nil, false); err != nil || len(tokens) > 0 || !slices.Equal(read, greetingOf(0)) {
			t.Errorf("the client reads %x, %v, and the server hears %q; want the handshake's answer and nothing", read, err, tokens)
		}
	})
}

// TestADenialIsFinal for its connection.
func TestADenialIsFinal(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		f := &fakeServer{serve: func(_ int, c fakeConn) { c.send(greetingOf(7)); c.ignore() }}
		ours, err := f.dial(t.Context(), "", "")
		eventstest.Must(t, err)
		defer ours.Close()
		until := time.Now().Add(time.Second)
		who := newLogin(until, nil)
		defer who.cancel()
		who.exchange = unwilling{}
		w := awaitingGreeting(t, ours, until, who)
		if n, err := w.Read(make([]byte, 100)); n != 0 || !errors.Is(err, ErrDenied) {
			t.Errorf("the client reads %d bytes, %v; want none, and the denial", n, err)
		}
		if n, err := w.Read(make([]byte, 100)); n != 0 || err == nil {
			t.Errorf("after a denial the client reads %d bytes, %v; want none, and an error", n, err)
		}
	})
}

// TestARefusalIsExplained by the mechanism. Other errors are not.
func TestARefusalIsExplained(t *testing.T) {
	for code, want := range map[int32]bool{zkerr.CodeAuthFailed: true, zkerr.CodeSASLRequired: true, zkerr.CodeUnimplemented: false} {
		eventstest.Bubble(t, func(t *testing.T) {
			_, _, err := talk(t, &script{lines: []string{"the name"}}, 7, []turn{{code, noToken}}, false)
			if err == nil || strings.HasSuffix(err.Error(), ": perhaps the name") != want {
				t.Errorf("to the code %d the client reads %v, with an explanation: want %v", code, err, want)
			}
		})
	}
}

// TestWhatIsADenial and what is not: the network's faults, the end of the time, and what
// the mechanism says may pass.
func TestWhatIsADenial(t *testing.T) {
	errCause := errors.New("cause")
	errLater := fmt.Errorf("%w: %w", sasl.ErrTemporary, errCause)
	for name, c := range map[string]struct {
		script script
		turns  []turn
		hangUp bool
		denied bool
		is     error
	}{
		"the server refuses":         {script{lines: []string{"x"}}, []turn{{zkerr.CodeAuthFailed, noToken}}, false, true, nil},
		"the server wants SASL":      {script{lines: []string{"x"}}, []turn{{zkerr.CodeSASLRequired, noToken}}, false, true, nil},
		"the server does not know":   {script{lines: []string{"x"}}, []turn{{zkerr.CodeUnimplemented, nil}}, false, true, nil},
		"the mechanism cannot begin": {script{begins: errCause}, nil, false, true, errCause},
		"the mechanism is not happy": {script{lines: []string{"x", "y"}, fails: errCause}, []turn{{0, token("a")}}, false, true, errCause},
		"the mechanism has nothing":  {script{absent: true}, nil, false, true, nil},
		"the mechanism has to wait":  {script{begins: errLater}, nil, false, false, errCause},
		"it has to wait later":       {script{lines: []string{"x", "y"}, fails: errLater}, []turn{{0, token("a")}}, false, false, errCause},
		"there is no end":            {script{endless: true}, slices.Repeat([]turn{{0, token("a")}}, mostTurns), false, true, nil},
		"the server hangs up":        {script{lines: []string{"x"}}, nil, true, false, nil},
		"the server is silent":       {script{lines: []string{"x"}}, nil, false, false, nil},
		"no length":                  {script{lines: []string{"x"}}, []turn{{0, []byte{0, 0}}}, false, false, errHandshakeMalformed},
		"a wrong length":             {script{lines: []string{"x"}}, []turn{{0, []byte{0, 0, 0, 9, 'a'}}}, false, false, errHandshakeMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			eventstest.Bubble(t, func(t *testing.T) {
				read, _, err := talk(t, &c.script, 7, c.turns, c.hangUp)
				if err == nil || len(read) > 0 || errors.Is(err, ErrDenied) != c.denied || c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("the client reads %x, %v; want nothing, a denial: %v, and %v", read, err, c.denied, c.is)
				}
			})
		})
	}
}
