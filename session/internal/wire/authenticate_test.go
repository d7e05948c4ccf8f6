package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// script is a mechanism that sends its lines one after another, and is done after the
// answer to the last one. After an error, it sends nothing more.
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
	n, heard := len(s.heard), string(said)
	if said == nil {
		heard = "nil"
	}
	s.heard = append(s.heard, heard)
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

// Explain explains a refusal.
func (s *script) Explain() string { return "perhaps " + s.lines[0] }

// turn is the server's answer to a token: a code and a body.
type turn struct {
	code int32
	body []byte
}

var noToken = numbersOf(-1)

// talk makes the script talk to a server with these answers, for a second. With hangUp,
// the server closes the connection after its last turn. talk returns what the client
// reads, and the tokens that the server received.
func talk(t *testing.T, s *script, session int64, turns []turn, hangUp bool) (read []byte, heard []string, err error) {
	t.Helper()
	f := &fakeServer{serve: func(_ int, peer fakeConn) {
		for piece := range slices.Chunk(grantFrame(testTimeout, session), 1) {
			peer.send(piece)
		}
		for _, turn := range turns {
			request := peer.recv()
			if request == nil {
				return
			}
			if op := int32At(request, 4); op != opcode.SASL {
				heard = append(heard, opcode.Name(op))
			}
			heard = append(heard, string(request[12:]))
			peer.send(replyFrame(int32At(request, 0), turn.code, turn.body...))
		}
		if !hangUp {
			peer.ignore()
		}
	}}
	conn, err := f.dial(t.Context(), "", "")
	eventstest.Must(t, err)
	until := time.Now().Add(time.Second)
	w, err := newWire(conn, conn, NewLink(Events{}), until, func(error) {})
	eventstest.Must(t, err)
	w.login = newLogin(until, nil)
	defer w.login.cancel()
	_, err = w.request(handshakeFrame(7), time.Now())
	eventstest.Must(t, err)
	if err = w.login.begin(s, "zk:2181"); err == nil {
		read = make([]byte, len(grantFrame(0, 0)))
		var n int
		n, err = io.ReadFull(iotest.OneByteReader(w), read)
		read = read[:n]
		if err != nil { // the error is final
			n, again := w.Read(make([]byte, 100))
			expect(t, n == 0 && again != nil, "after %v the client reads %d bytes, %v; want an error", err, n, again)
		}
	}
	_ = conn.Close()
	f.wg.Wait()
	return read, heard, err
}

// TestTheClientHearsOfItsSessionBehindTheExchange: only then does it get the answer to
// the handshake, all of it. An expired session needs no exchange. The longest exchange has
// mostTurns answers.
func TestTheClientHearsOfItsSessionBehindTheExchange(t *testing.T) {
	eventstest.Bubble(t, func(t *testing.T) {
		s := &script{lines: []string{"", "second", ""}}
		read, tokens, err := talk(t, s, 7, []turn{{0, textOf("one")}, {0, noToken}, {0, textOf("")}}, false)
		if greeting := grantFrame(testTimeout, 7); err != nil || !slices.Equal(read, greeting) {
			t.Errorf("the client reads %x, %v; want %x", read, err, greeting)
		}
		eventstest.Equal(t, tokens, []string{"", "second", ""}, "what the server hears")
		if want := []string{"nil", "one", "nil", ""}; !slices.Equal(s.heard, want) || s.server != "zk:2181" {
			t.Errorf("the mechanism hears %q from %s, want %q from zk:2181", s.heard, s.server, want)
		}
		longest, turns := slices.Repeat([]string{"x"}, mostTurns), slices.Repeat([]turn{{0, noToken}}, mostTurns)
		read, tokens, err = talk(t, &script{lines: longest}, 7, turns, false)
		if greeting := grantFrame(testTimeout, 7); err != nil || !slices.Equal(read, greeting) {
			t.Errorf("after the longest exchange the client reads %x, %v; want %x", read, err, greeting)
		}
		eventstest.Equal(t, tokens, longest, "what the server hears in the longest exchange")
		read, tokens, err = talk(t, &script{lines: []string{"x"}}, 0, nil, false)
		if greeting := grantFrame(testTimeout, 0); err != nil || len(tokens) > 0 || !slices.Equal(read, greeting) {
			t.Errorf("the client reads %x, %v, and the server hears %q; want %x, nothing", read, err, tokens, greeting)
		}
	})
}

// TestARefusalIsExplained: the mechanism explains a refusal, and no other error.
func TestARefusalIsExplained(t *testing.T) {
	for code, want := range map[int32]bool{zkerr.CodeAuthFailed: true, zkerr.CodeSASLRequired: true, zkerr.CodeUnimplemented: false} {
		eventstest.Bubble(t, func(t *testing.T) {
			_, _, err := talk(t, &script{lines: []string{"the name"}}, 7, []turn{{code, noToken}}, false)
			expect(t, err != nil && strings.HasSuffix(err.Error(), ": perhaps the name") == want,
				"to the code %d the client reads %v, with an explanation: want %v", code, err, want)
		})
	}
}

// TestWhatIsADenial: faults of the network, a timeout, and errors that the mechanism
// calls temporary are not.
func TestWhatIsADenial(t *testing.T) {
	errCause := errors.New("cause")
	errLater := fmt.Errorf("%w: %w", sasl.ErrTemporary, errCause)
	x, xy, a := []string{"x"}, []string{"x", "y"}, []turn{{0, textOf("a")}}
	refused := func(code int32) []turn { return []turn{{code, noToken}} }
	malformed := errHandshakeMalformed
	type denial struct {
		script script
		turns  []turn
		hangUp bool
		denied bool
		is     error
	}
	inBubbles(t, map[string]denial{
		"the server refuses":         {script{lines: x}, refused(zkerr.CodeAuthFailed), false, true, nil},
		"the server wants SASL":      {script{lines: x}, refused(zkerr.CodeSASLRequired), false, true, nil},
		"the server does not know":   {script{lines: x}, []turn{{zkerr.CodeUnimplemented, nil}}, false, true, nil},
		"the mechanism cannot begin": {script{begins: errCause}, nil, false, true, errCause},
		"the mechanism is not happy": {script{lines: xy, fails: errCause}, a, false, true, errCause},
		"the mechanism has nothing":  {script{absent: true}, nil, false, true, nil},
		"the mechanism has to wait":  {script{begins: errLater}, nil, false, false, errCause},
		"it has to wait later":       {script{lines: xy, fails: errLater}, a, false, false, errCause},
		"there is no end":            {script{endless: true}, slices.Repeat(a, mostTurns), false, true, nil},
		"the server hangs up":        {script{lines: x}, nil, true, false, nil},
		"the server is silent":       {script{lines: x}, nil, false, false, nil},
		"no length":                  {script{lines: x}, []turn{{0, []byte{0, 0}}}, false, false, malformed},
		"a wrong length":             {script{lines: x}, []turn{{0, []byte{0, 0, 0, 9, 'a'}}}, false, false, malformed},
	}, func(t *testing.T, c denial) {
		read, _, err := talk(t, &c.script, 7, c.turns, c.hangUp)
		denied := errors.Is(err, ErrDenied)
		if err == nil || len(read) > 0 || denied != c.denied || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("the client reads %x, %v; want nothing, a denial: %v, and %v", read, err, c.denied, c.is)
		}
	})
}
