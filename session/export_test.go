package session

import (
	"reflect"

	"github.com/zkgrant/zkgrant/recipes"
)

// Session returns the id of the epoch's session, or 0.
func (t *Seat) Session(epoch recipes.Epoch) int64 {
	if c := t.session.inEpoch(epoch); c != nil {
		return c.link.Session()
	}
	return 0
}

// FindGone has the session take the answer to a watch of the seat: there is no such node.
func (t *Seat) FindGone(e recipes.Watch) {
	t.AnswerWith(e.Epoch, recipes.OpWatch, func() recipes.Input { return recipes.Gone{Epoch: e.Epoch, Node: e.Node} })
}

// AnswerWith has the session take the answer to a request, when the function that runs
// the request returns.
func (t *Seat) AnswerWith(epoch recipes.Epoch, op recipes.Op, run func() recipes.Input) {
	t.session.submit(scripted{&seatRequest{seat: t, epoch: epoch, op: op}, run})
}

// scripted is a request with an answer of the test's.
type scripted struct {
	*seatRequest
	answer func() recipes.Input
}

func (r scripted) admit(s *Session) {
	s.noteRequest(r.seatRequest)
	s.pending.add(r)
}

func (r scripted) do(c *client) (func(*Session), error) {
	in := r.answer()
	return func(s *Session) { r.settle(s, c, in, nil) }, nil
}

// ClaimLate makes the claim, and calls the function between its answer and the session.
func (t *Seat) ClaimLate(e recipes.Claim, pass func()) { t.session.submit(lateClaim{t.ask(e), pass}) }

// lateClaim is a claim with an answer that reaches the session late.
type lateClaim struct {
	*seatRequest
	pass func()
}

func (l lateClaim) admit(s *Session) {
	s.noteRequest(l.seatRequest)
	s.pending.add(l)
}

func (l lateClaim) do(c *client) (func(*Session), error) {
	defer l.pass()
	return l.seatRequest.do(c)
}

// lateLook is a look with an answer that reaches the session late.
type lateLook struct {
	*verification
	pass func()
}

func (l lateLook) admit(s *Session) {
	if l.isDue() {
		s.pending.add(l)
	}
}

func (l lateLook) do(c *client) (func(*Session), error) {
	defer l.pass()
	return l.verification.do(c)
}

// Verify has the session look whether the node is the seat's, and calls the function
// between the answer and the session.
func (t *Seat) Verify(pass func()) {
	t.session.submit(lateLook{&verification{epoch: 1, seat: t, born: t.token(t.single.node)}, pass})
}

// Replaced has the session hear that a server has given out another session.
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
