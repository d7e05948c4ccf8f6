package session_test

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// seat is a test's seat, which records what the session posts to it.
type seat struct {
	*session.Seat
	Rig  *rig
	Hook func(recipes.Input) // called in the session's loop; may be nil

	Strict bool // it loses its lock with the connection

	Mu     sync.Mutex
	Inputs []recipes.Input
	errs   []error
	read   int // how many of Inputs the test has read

	// Only the loop touches these: the node by which a machine would hold the lock, and
	// the node of the latest claim.
	holds, claims string
}

func (r *rig) Seat() *seat { return r.SeatAt(session.Place{Dir: lockDir}) }

// SeatAt opens a seat, which records its inputs from then on.
func (r *rig) SeatAt(p session.Place) *seat {
	s := &seat{Seat: r.Session.Seat(p), Rig: r}
	r.Session.Loop().Post(func() {
		if opened := s.Open(s.note); opened.Epoch != 0 {
			s.note(opened, nil)
		}
	})
	synctest.Wait()
	return s
}

func (r *rig) Seated() *seat {
	r.Helper()
	return r.SeatedAt(session.Place{Dir: lockDir})
}

func (r *rig) SeatedAt(p session.Place) *seat {
	r.Helper()
	s := r.SeatAt(p)
	s.Want("Opened")
	return s
}

func (r *rig) Owner() *seat {
	r.Helper()
	return r.SeatedAt(session.Place{Dir: taskNode, Kind: events.KindUnfair})
}

func (r *rig) Watching(name string) *seat {
	r.Helper()
	s := r.Seated()
	s.Watches(name)
	return s
}

// Writer returns a writer's seat in a directory that is known to be ours. Alone there, it
// holds.
func (r *rig) Writer() (w *seat, node events.Name) {
	r.Helper()
	r.Warm()
	w = r.SeatedAt(session.Place{Dir: lockDir, Kind: events.KindWrite})
	return w, w.Makes(1).Node
}

// InPlaceOf returns a seat that wants to take another seat's place.
func (r *rig) InPlaceOf(w *seat) *seat {
	r.Helper()
	return r.SeatedAt(session.Place{Dir: lockDir, Kind: events.KindRead, In: w.Seat})
}

// PermitSeat returns a seat that wants the given number of permits.
func (r *rig) PermitSeat(size, permits int32) *seat {
	r.Helper()
	return r.SeatedAt(session.Place{Dir: permitsAt, Size: size, Permits: permits})
}

// MakePermits creates the directories of a semaphore.
func (r *rig) MakePermits(size int32) {
	r.Helper()
	s := r.PermitSeat(size, 1)
	node := s.Makes(1).Node
	version := s.Surveys(recipes.Survey{Node: node}).Version
	in := ask[recipes.Entered](s, recipes.Enter{Epoch: 1, Node: node, Permits: 1, Version: version})
	if len(in.Permits) != 1 || !in.Fresh {
		r.Fatalf("the request for a permit is answered %+v, want a fresh permit", in)
	}
	s.Deletes(in.Permits[0])
	s.Close()
}

// line is a queue in a warm directory: first a stranger's node, then a seat, and then a
// waiter that watches the seat's node.
type line struct {
	*rig
	pred, waiter *seat
	node, own    string
	token        int64 // of the node
	advance      recipes.Advance
}

const stranger = "lock-0000000000" // the node in front

func (r *rig) Line() *line {
	r.Helper()
	r.Warm()
	r.Plant(stranger)
	l := &line{rig: r, pred: r.Seated(), waiter: r.Seated()}
	l.node = l.pred.Makes(1).Node.Text
	l.token = l.pred.Look(1, false).Own.Token
	l.own = l.waiter.Makes(1).Node.Text
	l.waiter.Watches(l.node)
	l.advance = recipes.Advance{Epoch: 1, Node: named(l.own), Past: named(l.node), Next: named(stranger)}
	return l
}

// Leave makes the seat leave, as a holder or not.
func (l *line) Leave(floor bool) {
	l.Helper()
	l.pred.Do(recipes.Delete{Epoch: 1, Node: named(l.node), Floor: floor})
	l.waiter.WantGone(l.node)
}

// note records an input. It reports whether a machine would hold its lock after it.
func (s *seat) note(in recipes.Input, err error) (holds bool) {
	s.believe(in)
	s.Mu.Lock()
	s.Inputs = append(s.Inputs, in)
	s.errs = append(s.errs, err)
	hook := s.Hook
	s.Mu.Unlock()
	if hook != nil {
		hook(in)
	}
	return s.holds != ""
}

// believe records whether a machine would hold its lock after the input.
func (s *seat) believe(in recipes.Input) {
	switch in := in.(type) {
	case recipes.Gone:
		if in.Node.Text == s.holds {
			s.holds = ""
		}
	case recipes.Suspended:
		if s.Strict {
			s.holds = ""
		}
	case recipes.LeaseRanOut, recipes.Expired, recipes.Overdue:
		s.holds = ""
	default:
		proof, proves := recipes.Prove(in, true, true)
		switch {
		case proves && reflect.DeepEqual(proof.Answer, in): // it is fresh
			s.holds = cmp.Or(proof.Node.Text, s.claims)
		case recipes.Disproves(in):
			s.holds = ""
		}
	}
}

// Hears makes the session call hook with every later input.
func (s *seat) Hears(hook func(recipes.Input)) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Hook = hook
}

// Do makes a request, as a machine would.
func (s *seat) Do(request recipes.Effect) {
	s.Rig.Session.Loop().Post(func() {
		switch e := request.(type) {
		case recipes.Create, recipes.Delete:
			s.holds, s.claims = "", ""
		case recipes.Claim:
			s.claims = e.Node.Text
		case recipes.Advance:
			s.claims = e.Node.Text
		}
		s.Seat.Do(request)
	})
}

func (s *seat) Close() { s.Rig.Session.Loop().Post(s.Seat.Close) }

// Fresh returns the inputs since the last call.
func (s *seat) Fresh() []recipes.Input {
	synctest.Wait()
	s.Mu.Lock()
	defer s.Mu.Unlock()
	list := s.Inputs[s.read:]
	s.read = len(s.Inputs)
	return list
}

// FreshAnswers is Fresh without the session's own inputs.
func (s *seat) FreshAnswers() (answers []recipes.Input) {
	for _, in := range s.Fresh() {
		switch in.(type) {
		case recipes.Opened, recipes.Suspended, recipes.Reconnected, recipes.Expired, recipes.LeaseRanOut:
		default:
			answers = append(answers, in)
		}
	}
	return answers
}

func (s *seat) LastErr() error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.errs[len(s.errs)-1]
}

// Want checks the types of the inputs since the last call.
func (s *seat) Want(types string) []recipes.Input {
	s.Rig.Helper()
	got := s.Fresh()
	if typesOf(got) != types {
		s.Rig.Fatalf("the seat is told %+v, want %s", got, types)
	}
	return got
}

// WantOnly checks that this is the only input since the last call.
func (s *seat) WantOnly(want recipes.Input) {
	s.Rig.Helper()
	if got := s.Fresh(); len(got) != 1 || got[0] != want {
		s.Rig.Fatalf("the seat is told %+v, want one %#v", got, want)
	}
}

// WantGone checks that the only input is one Gone for the node.
func (s *seat) WantGone(name string) {
	s.Rig.Helper()
	s.WantOnly(recipes.Gone{Epoch: 1, Node: named(name)})
}

// Answer waits for the only answer to a request, and returns it.
func (s *seat) Answer() recipes.Input {
	s.Rig.Helper()
	var found []recipes.Input
	s.Rig.Until("a request is answered", func() bool {
		found = append(found, s.FreshAnswers()...)
		return len(found) > 0
	})
	if len(found) != 1 {
		s.Rig.Fatalf("the request is answered %d times, want once: %+v", len(found), found)
	}
	return found[0]
}

// WantAnswer waits for the answer to a request, and checks it.
func (s *seat) WantAnswer(want recipes.Input) {
	s.Rig.Helper()
	in := s.Answer()
	expect(s.Rig, in == want, "the request is answered %#v (%v), want %#v", in, s.LastErr(), want)
}

// Asks makes a request, and checks the answer.
func (s *seat) Asks(request recipes.Effect, want recipes.Input) {
	s.Rig.Helper()
	s.Do(request)
	s.WantAnswer(want)
}

func answerOf[T recipes.Input](s *seat) T {
	s.Rig.Helper()
	in := s.Answer()
	answer, ok := in.(T)
	if !ok {
		s.Rig.Fatalf("the request is answered %#v (%v), want %T", in, s.LastErr(), answer)
	}
	return answer
}

func ask[T recipes.Input](s *seat, request recipes.Effect) T {
	s.Rig.Helper()
	s.Do(request)
	return answerOf[T](s)
}

// makeOf creates a node, and returns the answer, which must be of the type.
func makeOf[T recipes.Input](s *seat, attempt recipes.Attempt) T {
	s.Rig.Helper()
	return ask[T](s, recipes.Create{Epoch: 1, Attempt: attempt})
}

func (s *seat) Makes(attempt recipes.Attempt) recipes.Created {
	s.Rig.Helper()
	return makeOf[recipes.Created](s, attempt)
}

// MakesAlone creates the first attempt's node, and the answer proves that it holds.
func (s *seat) MakesAlone() recipes.Created {
	s.Rig.Helper()
	created := s.Makes(1)
	if !created.Alone || !created.Fresh {
		s.Rig.Fatalf("the create is answered %+v, want Alone and Fresh", created)
	}
	return created
}

// MakesBeside creates a node, and the answer does not prove that there is no other
// contender.
func (s *seat) MakesBeside(attempt recipes.Attempt) recipes.Created {
	s.Rig.Helper()
	created := s.Makes(attempt)
	expect(s.Rig, !created.Alone, "create %d is answered %+v, want not Alone", attempt, created)
	return created
}

// Look lists, and finds the attempt's node.
func (s *seat) Look(attempt recipes.Attempt, barrier bool) recipes.Listed {
	s.Rig.Helper()
	return ask[recipes.Listed](s, recipes.List{Epoch: 1, Attempt: attempt, Barrier: barrier})
}

// ClaimNode makes the seat a holder of the node.
func (s *seat) ClaimNode(node string) {
	s.Rig.Helper()
	s.Asks(recipes.Claim{Epoch: 1, Node: named(node)}, recipes.Claimed{Epoch: 1, Fresh: true})
}

// DeleteNode deletes a node. A seat that watches it is notified, too.
func (s *seat) DeleteNode(node string) {
	s.Rig.Helper()
	s.Do(recipes.Delete{Epoch: 1, Node: named(node)})
	s.Rig.Until("the node is deleted", func() bool { return count[recipes.Deleted](s.Fresh()) == 1 })
}

// Deletes deletes a node, and checks that there is no other input.
func (s *seat) Deletes(node string) {
	s.Rig.Helper()
	s.Do(recipes.Delete{Epoch: 1, Node: named(node)})
	s.Want("Deleted")
}

// WriteNothing makes a write through the quorum that changes nothing.
func (s *seat) WriteNothing() {
	s.Rig.Helper()
	s.Deletes("none")
}

func (s *seat) WatchNode(name string) { s.Do(recipes.Watch{Epoch: 1, Node: named(name)}) }

// Watches watches a node that exists.
func (s *seat) Watches(name string) {
	s.Rig.Helper()
	s.WatchNode(name)
	s.Want("")
}

func (s *seat) Surveys(e recipes.Survey) recipes.Surveyed {
	s.Rig.Helper()
	e.Epoch = 1
	return ask[recipes.Surveyed](s, e)
}

// ExpireBefore ends the server's only session, and waits for the next one.
func (s *seat) ExpireBefore(next recipes.Epoch) {
	s.Rig.Helper()
	s.Rig.Must(s.Rig.Server.Expire(s.Rig.Only()))
	s.Await(next)
}

func (s *seat) Await(epoch recipes.Epoch) {
	s.Rig.Helper()
	s.Rig.Until(fmt.Sprintf("epoch %d has a session", epoch), func() bool { return !s.Deadline(epoch).IsZero() })
}

// Until returns how much longer the first epoch's lease lasts.
func (s *seat) Until() time.Duration {
	synctest.Wait()
	return time.Until(s.Deadline(1))
}

// WantLease checks how much longer the first epoch's lease lasts: between least and most.
func (s *seat) WantLease(least, most time.Duration) {
	s.Rig.Helper()
	left := s.Until()
	expect(s.Rig, left >= least && left <= most, "the lease is good for another %v, want %v to %v", left, least, most)
}

// named returns a node's name with only its text.
func named(text string) events.Name { return events.Name{Text: text} }

func count[T recipes.Input](inputs []recipes.Input) (n int) {
	for _, in := range inputs {
		if _, ok := in.(T); ok {
			n++
		}
	}
	return n
}

// typesOf returns the types of the values, without their package.
func typesOf[T any](list []T) string {
	names := make([]string, len(list))
	for i, v := range list {
		text := fmt.Sprintf("%T", v)
		names[i] = text[strings.LastIndexByte(text, '.')+1:]
	}
	return strings.Join(names, " ")
}
