package session

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/recipes"
)

// expect fails the test unless the condition holds.
func expect(tb testing.TB, holds bool, format string, args ...any) {
	tb.Helper()
	eventstest.Expect(tb, holds, format, args...)
}

// equal fails the test unless got equals want. what describes the value.
func equal[T comparable](tb testing.TB, got, want T, what string, args ...any) {
	tb.Helper()
	expect(tb, got == want, "%s: %v, want %v", fmt.Sprintf(what, args...), got, want)
}

// Session returns the ID of the epoch's session, or 0.
func (t *Seat) Session(epoch recipes.Epoch) int64 {
	if c := t.session.inEpoch(epoch); c != nil {
		return c.link.Session()
	}
	return 0
}

// altered is a request that is made in a different way.
type altered struct {
	request
	run func(c *client) (func(*Session), error)
}

func (a altered) do(c *client) (func(*Session), error) { return a.run(c) }

func (a altered) admit(s *Session) {
	switch r := a.request.(type) {
	case *seatRequest:
		s.noteRequest(r)
	case *verification:
		if !r.isDue() {
			return
		}
	}
	s.pending.add(a)
}

// late returns a request whose answer reaches the session late: pass is called before
// that.
func late(r request, pass func()) altered {
	return altered{r, func(c *client) (func(*Session), error) {
		defer pass()
		return r.do(c)
	}}
}

// AnswerWith makes the session handle an answer to a request: the result of run.
func (t *Seat) AnswerWith(epoch recipes.Epoch, op recipes.Op, run func() recipes.Input) {
	r := &seatRequest{slot: slot{epoch: epoch}, seat: t, op: op}
	t.session.submit(altered{r, func(c *client) (func(*Session), error) {
		in := run()
		return func(s *Session) { r.settle(s, c, in, nil) }, nil
	}})
}

// ClaimLate makes the claim, and calls pass before the session receives the answer.
func (t *Seat) ClaimLate(e recipes.Claim, pass func()) { t.session.submit(late(t.ask(e), pass)) }

// Verify makes the session check whether the node is the seat's, and calls pass before
// the session receives the answer.
func (t *Seat) Verify(pass func()) {
	t.session.submit(late(&verification{slot: slot{epoch: 1}, seat: t, born: t.token(t.single.node)}, pass))
}

// Replaced makes the session believe that a server has granted another session.
func (s *Session) Replaced() {
	s.loop.Post(func() { s.expire(s.client) })
}

// WatchChannels returns how many channels the client keeps for watches. Nothing may be in
// progress.
func (s *Session) WatchChannels() (n int) {
	for it := reflect.ValueOf(s.present().conn).Elem().FieldByName("watchers").MapRange(); it.Next(); {
		n += it.Value().Len()
	}
	return n
}
